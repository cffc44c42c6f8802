import { hash } from 'node:crypto'
import { Type, type StaticDecode } from 'typebox'
import { fittingItems, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Seconds, Whole } from '../../provider-calls/errors.ts'
import type { ChargeState } from '../../provider-calls/provider.ts'
import type { Encryption } from './conversation.ts'
import { tagOf, type NostrEvent } from './event.ts'

/**
 * Responses of wallets (NIP-47). Amounts are millisatoshis, times seconds. Preimages may be those of unpaid invoices,
 * so none proves payment.
 */

const Transaction = Type.Object({
  payment_hash: Hash,
  /** Null where absent, as for invoices of some wallets. */
  type: orNull(Type.Enum(['incoming', 'outgoing'])),
  state: orNull(Type.Enum(['settled', 'pending', 'accepted', 'expired', 'failed'])),
  amount: Whole,
  fees_paid: Whole,
  settled_at: Seconds,
  expires_at: Seconds
})
type Transaction = StaticDecode<typeof Transaction>

export interface NwcTransaction extends Pick<Transaction, 'type'> {
  readonly paymentHash: string
  readonly state: NonNullable<Transaction['state']>
  readonly amountMsat: number
  readonly feeMsat: number
  /** Null where absent. */
  readonly settledAt: number | null
}

/**
 * A transaction; null when unusable. Without a state, a settlement time means settled; expiry is judged by `now` (ms
 * since the epoch).
 */
export function readNwcTransaction(value: unknown, now: number): NwcTransaction | null {
  const read = readResponse(Transaction, value)
  if (read === null) return null
  const { settled_at: settledAt, expires_at: expiresAt } = read
  const isOver = expiresAt !== null && expiresAt <= now
  return {
    paymentHash: read.payment_hash,
    type: read.type,
    state: read.state ?? (settledAt !== null ? 'settled' : isOver ? 'expired' : 'pending'),
    amountMsat: read.amount,
    feeMsat: read.fees_paid,
    settledAt
  }
}

export function nwcState({ state, amountMsat, settledAt }: NwcTransaction, now: number): ChargeState {
  switch (state) {
    case 'settled': {
      const receivedSats = amountMsat === 0 ? null : Math.floor(amountMsat / 1000)
      return { status: 'paid', receivedSats, settledAt: settledAt ?? now }
    }
    case 'accepted':
      return { status: 'processing', receivedSats: null, settledAt: null }
    case 'pending':
      return nothingReceived('unpaid')
    case 'expired':
    case 'failed':
      return nothingReceived('expired')
  }
}

/**
 * A payout's status. "failed" counts only after the invoice's end (`endsAt`, ms since the epoch), since wallets send it
 * after any node error; "expired" marks pending ones and is never final.
 */
export function nwcPayment(
  { paymentHash, state, feeMsat, settledAt }: NwcTransaction,
  endsAt: number,
  now: number
): SentPayment {
  const status = state === 'settled' ? 'confirmed' : state === 'failed' && now >= endsAt ? 'failed' : 'processing'
  const at = status === 'confirmed' ? (settledAt ?? now) : endsAt
  return sentPayment(paymentHash, status, Math.ceil(feeMsat / 1000), at, 'The wallet')
}

const Paid = Type.Object({ preimage: Hash, fees_paid: Whole })

/** A payment's response, proven by the preimage; null without proof. */
export function readPaid(result: unknown, paymentHash: string, now: number): SentPayment | null {
  const paid = readResponse(Paid, result)
  if (paid === null || hash('sha256', Buffer.from(paid.preimage, 'hex'), 'hex') !== paymentHash) return null
  return sentPayment(paymentHash, 'confirmed', Math.ceil(paid.fees_paid / 1000), now, 'The wallet')
}

export const NwcPage = Type.Object({ transactions: Type.Array(Type.Unknown()) })

/** Response to `make_invoice`. Some wallets omit the hash, which the invoice holds. */
export const NwcInvoice = Type.Object({ invoice: Text, payment_hash: orNull(Text) })

/** Response to `get_info`: permissions, empty where absent. */
export const NwcInfo = Type.Object({ methods: fittingItems(Type.String()), network: orNull(Text) })

export interface Announcement {
  readonly methods: ReadonlySet<string>
  /** The best encryption offered; null for none known. Absent means NIP-04. */
  readonly encryption: Encryption | null
}

export function readAnnouncement(event: NostrEvent): Announcement {
  const offered = (tagOf(event, 'encryption') ?? 'nip04').split(/\s+/)
  return {
    methods: new Set(event.content.split(/\s+/).filter(method => method !== '')),
    encryption: (['nip44_v2', 'nip04'] as const).find(one => offered.includes(one)) ?? null
  }
}
