import { hash } from 'node:crypto'
import { Type, type StaticDecode } from 'typebox'
import { fittingItems, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Seconds, Whole } from '../../provider-calls/responses.ts'
import type { ChargeState } from '../../providers/provider.ts'
import type { Encryption } from './conversation.ts'
import { tagOf, type NostrEvent } from './event.ts'

/*
 * Responses of wallets (NIP-47). Amounts are millisatoshis, times seconds. Preimages of invoices that nobody has paid may
 * stand in them: nothing here says that one is paid because of one.
 */

const Transaction = Type.Object({
  payment_hash: Hash,
  /** Null where the wallet does not say, as some do not of invoices. */
  type: orNull(Type.Enum(['incoming', 'outgoing'])),
  state: orNull(Type.Enum(['settled', 'pending', 'accepted', 'expired', 'failed'])),
  amount: Whole,
  fees_paid: Whole,
  settled_at: Seconds,
  expires_at: Seconds
})
type Transaction = StaticDecode<typeof Transaction>

/** A payment in or out. */
export interface NwcTransaction extends Pick<Transaction, 'type'> {
  readonly paymentHash: string
  readonly state: NonNullable<Transaction['state']>
  readonly amountMsat: number
  readonly feeMsat: number
  /** Milliseconds since the epoch; null where the wallet does not say. */
  readonly settledAt: number | null
}

/**
 * A transaction; null when it cannot be used. The state is optional: without it one is settled if there is a time when it
 * was, and expired by `now`, in milliseconds since the epoch.
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

/** How a charge stands, from its transaction; `now` where it is settled and does not say when. */
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
 * How a payment of ours stands. "failed" is believed once its invoice can no longer be paid (`endsAt`, milliseconds since
 * the epoch), since wallets say it after any error of their node; "expired" is said of pending ones, and is never final.
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

/** The response to a payment, which its preimage proves; null where it proves nothing. */
export function readPaid(result: unknown, paymentHash: string, now: number): SentPayment | null {
  const paid = readResponse(Paid, result)
  if (paid === null || hash('sha256', Buffer.from(paid.preimage, 'hex'), 'hex') !== paymentHash) return null
  return sentPayment(paymentHash, 'confirmed', Math.ceil(paid.fees_paid / 1000), now, 'The wallet')
}

/** A page of transactions, as they came. */
export const NwcPage = Type.Object({ transactions: Type.Array(Type.Unknown()) })

/** The response to `make_invoice`. Some wallets leave the hash to the invoice. */
export const NwcInvoice = Type.Object({ invoice: Text, payment_hash: orNull(Text) })

/** The response to `get_info`: what a connection may do, nothing where it does not say. */
export const NwcInfo = Type.Object({ methods: fittingItems(Type.String()), network: orNull(Text) })

/** What a wallet announces of itself. */
export interface Announcement {
  readonly methods: ReadonlySet<string>
  /** The best of what it offers; null where that is nothing known. One that does not say offers NIP-04 alone. */
  readonly encryption: Encryption | null
}

/** Reads the announcement of a wallet. */
export function readAnnouncement(event: NostrEvent): Announcement {
  const offered = (tagOf(event, 'encryption') ?? 'nip04').split(/\s+/)
  return {
    methods: new Set(event.content.split(/\s+/).filter(method => method !== '')),
    encryption: (['nip44_v2', 'nip04'] as const).find(one => offered.includes(one)) ?? null
  }
}
