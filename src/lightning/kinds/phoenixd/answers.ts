import { jsonHash, jsonList, jsonMembers, jsonText, jsonWhole } from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'

/**
 * Reads what phoenixd's API answers (ACINQ/phoenixd, Api.kt at 0.8). Amounts are satoshis, fees millisatoshis, times
 * milliseconds; members that are null are left out. Look-ups hold preimages, of unpaid invoices too: nothing here reads
 * them, and no answer is ever passed on.
 */

/** A new invoice. */
export interface PhoenixdInvoice {
  /** BOLT 11. */
  readonly invoice: string
  readonly paymentHash: string
}

/** The answer to `POST /createinvoice`; null when it cannot be used. */
export function readPhoenixdInvoice(body: unknown): PhoenixdInvoice | null {
  const answer = jsonMembers(body)
  const invoice = jsonText(answer?.['serialized'])
  const paymentHash = jsonHash(answer?.['paymentHash'])
  return invoice === null || paymentHash === null ? null : { invoice, paymentHash }
}

/** A payment that came in, or an invoice that awaits one. */
export interface IncomingPayment {
  readonly paymentHash: string
  readonly state: ChargeState
}

/** An item of `/payments/incoming`; null for what is no Lightning payment and for what cannot be used. */
export function readIncoming(body: unknown): IncomingPayment | null {
  const payment = jsonMembers(body)
  const paymentHash = jsonHash(payment?.['paymentHash'])
  if (payment === null || paymentHash === null || typeof payment['isPaid'] !== 'boolean') return null
  // `isExpired` may be true of a paid one.
  if (!payment['isPaid']) {
    return {
      paymentHash,
      state: { status: payment['isExpired'] === true ? 'expired' : 'unpaid', receivedSats: 0, settledAt: null }
    }
  }
  return {
    paymentHash,
    state: {
      status: 'paid',
      // `receivedSat` is what is left after phoenixd's own fee for a channel: the payer paid at least what was asked.
      receivedSats: Math.max(jsonWhole(payment['receivedSat']), jsonWhole(payment['requestedSat'])),
      settledAt: time(payment['completedAt'])
    }
  }
}

/** The answer to `GET /payments/incoming`; null when it is no list. `count` also counts what cannot be used. */
export function readIncomingPage(
  body: unknown
): { readonly payments: readonly IncomingPayment[]; readonly count: number } | null {
  if (!Array.isArray(body)) return null
  return {
    payments: jsonList(body)
      .map(readIncoming)
      .filter(one => one !== null),
    count: body.length
  }
}

/** The answer to `GET /payments/outgoingbyhash/{hash}`; null when it cannot be used. */
export function readOutgoing(body: unknown, paymentHash: string): SentPayment | null {
  const payment = jsonMembers(body)
  const payoutId = jsonText(payment?.['paymentId'])
  if (payment === null || payoutId === null || payment['paymentHash'] !== paymentHash) return null
  if (typeof payment['isPaid'] !== 'boolean') return null
  const completedAt = time(payment['completedAt'])
  const status = payment['isPaid'] ? 'confirmed' : completedAt === null ? 'processing' : 'failed'
  return {
    payout: {
      payoutId,
      status,
      feeSats: status === 'confirmed' ? Math.ceil(jsonWhole(payment['fees']) / 1000) : 0,
      transactionHash: null,
      processedAt: completedAt
    },
    reason: status === 'failed' ? 'phoenixd could not pay the Lightning invoice.' : null
  }
}

/** What `POST /payinvoice` answers with 200. */
export type PayAnswer =
  | { readonly type: 'sent'; readonly payoutId: string; readonly feeSats: number }
  | { readonly type: 'failed'; readonly reason: string }

/** The answer to `POST /payinvoice`; null when it cannot be used. */
export function readPayAnswer(body: unknown, paymentHash: string): PayAnswer | null {
  const answer = jsonMembers(body)
  if (answer === null || answer['paymentHash'] !== paymentHash) return null
  if (answer['type'] === 'payment_failed') {
    return { type: 'failed', reason: jsonText(answer['reason']) ?? 'phoenixd could not pay the Lightning invoice.' }
  }
  const payoutId = jsonText(answer['paymentId'])
  return answer['type'] === 'payment_sent' && payoutId !== null
    ? { type: 'sent', payoutId, feeSats: jsonWhole(answer['routingFeeSat']) }
    : null
}

/** What `GET /getinfo` shows. */
export interface PhoenixdInfo {
  readonly channels: number
  /** Its network, as phoenixd calls it; null where it does not say. */
  readonly chain: string | null
}

/** The answer to `GET /getinfo`; null when it is none of phoenixd. */
export function readPhoenixdInfo(body: unknown): PhoenixdInfo | null {
  const info = jsonMembers(body)
  if (info === null || jsonText(info['nodeId']) === null) return null
  return { channels: jsonList(info['channels']).length, chain: jsonText(info['chain']) }
}

function time(value: unknown): number | null {
  const at = jsonWhole(value)
  return at === 0 ? null : at
}
