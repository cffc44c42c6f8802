import { hash } from 'node:crypto'
import {
  jsonHash,
  jsonList,
  jsonMembers,
  jsonText,
  jsonWhole,
  type JsonMembers
} from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'
import type { Encryption } from './conversation.ts'
import { tagOf, type NostrEvent } from './event.ts'

/**
 * Reads what wallets answer (NIP-47). Amounts are millisatoshis, times seconds. Preimages of invoices that nobody has paid
 * may stand in their answers: nothing here says that one is paid because of one.
 */

const STATES = ['settled', 'pending', 'accepted', 'expired', 'failed'] as const

/** A payment in or out. */
export interface NwcTransaction {
  readonly paymentHash: string
  /** Null where the wallet does not say, as some do not of invoices. */
  readonly type: 'incoming' | 'outgoing' | null
  /** BOLT 11; null where the answer has none. */
  readonly invoice: string | null
  readonly state: (typeof STATES)[number]
  readonly amountMsat: number
  readonly feeMsat: number
  /** Milliseconds since the epoch; null where the wallet does not say. */
  readonly settledAt: number | null
}

/** A transaction; null when it cannot be used. `now` in milliseconds since the epoch, for a wallet that names no state. */
export function readNwcTransaction(value: unknown, now: number): NwcTransaction | null {
  const transaction = jsonMembers(value)
  const paymentHash = jsonHash(transaction?.['payment_hash'])
  if (transaction === null || paymentHash === null) return null
  const { type } = transaction
  const settledAt = jsonWhole(transaction['settled_at']) * 1000
  return {
    paymentHash,
    type: type === 'incoming' || type === 'outgoing' ? type : null,
    invoice: jsonText(transaction['invoice']),
    state: stateOf(transaction, settledAt, now),
    amountMsat: jsonWhole(transaction['amount']),
    feeMsat: jsonWhole(transaction['fees_paid']),
    settledAt: settledAt === 0 ? null : settledAt
  }
}

/** The state is optional: without it a transaction is settled if there is a time when it was. */
function stateOf(transaction: JsonMembers, settledAt: number, now: number): NwcTransaction['state'] {
  const named = STATES.find(state => state === transaction['state'])
  if (named !== undefined) return named
  if (settledAt > 0) return 'settled'
  const expiresAt = jsonWhole(transaction['expires_at']) * 1000
  return expiresAt > 0 && expiresAt <= now ? 'expired' : 'pending'
}

/** How a charge stands, from its transaction; `now` where it is settled and does not say when. */
export function nwcState({ state, amountMsat, settledAt }: NwcTransaction, now: number): ChargeState {
  switch (state) {
    case 'settled':
      return {
        status: 'paid',
        receivedSats: amountMsat === 0 ? null : Math.floor(amountMsat / 1000),
        settledAt: settledAt ?? now
      }
    case 'accepted':
      return { status: 'processing', receivedSats: null, settledAt: null }
    case 'pending':
      return { status: 'unpaid', receivedSats: 0, settledAt: null }
    case 'expired':
    case 'failed':
      return { status: 'expired', receivedSats: 0, settledAt: null }
  }
}

/**
 * How a payment of ours stands. "failed" is believed once its invoice can no longer be paid (`endsAt`, milliseconds since
 * the epoch), since wallets say it after any error of their node; "expired" is said of pending ones, and is never final.
 */
export function sentPayment(
  { paymentHash, state, feeMsat, settledAt }: NwcTransaction,
  endsAt: number,
  now: number
): SentPayment {
  const isPaid = state === 'settled'
  const isFailed = state === 'failed' && now >= endsAt
  return {
    payout: {
      payoutId: paymentHash,
      status: isPaid ? 'confirmed' : isFailed ? 'failed' : 'processing',
      feeSats: isPaid ? Math.ceil(feeMsat / 1000) : 0,
      transactionHash: null,
      processedAt: isPaid ? (settledAt ?? now) : isFailed ? endsAt : null
    },
    reason: isFailed ? 'The wallet could not pay the Lightning invoice.' : null
  }
}

/** The answer to a payment, which its preimage proves; null where it proves nothing. */
export function readPaid(result: JsonMembers, paymentHash: string, now: number): SentPayment | null {
  const preimage = jsonHash(result['preimage'])
  if (preimage === null || hash('sha256', Buffer.from(preimage, 'hex'), 'hex') !== paymentHash) return null
  const feeMsat = jsonWhole(result['fees_paid'])
  return {
    payout: {
      payoutId: paymentHash,
      status: 'confirmed',
      feeSats: Math.ceil(feeMsat / 1000),
      transactionHash: null,
      processedAt: now
    },
    reason: null
  }
}

/** A page of transactions; null when it is none. `count` also counts what cannot be used. */
export function readNwcPage(
  result: JsonMembers,
  now: number
): { readonly transactions: readonly NwcTransaction[]; readonly count: number } | null {
  const listed = result['transactions']
  if (!Array.isArray(listed)) return null
  return {
    transactions: jsonList(listed)
      .map(one => readNwcTransaction(one, now))
      .filter(one => one !== null),
    count: listed.length
  }
}

/** What a connection may do, by the wallet's own answer; null where it does not say. */
export function readMethods(result: JsonMembers): ReadonlySet<string> | null {
  const methods = jsonList(result['methods']).filter(method => typeof method === 'string')
  return methods.length === 0 ? null : new Set(methods)
}

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
