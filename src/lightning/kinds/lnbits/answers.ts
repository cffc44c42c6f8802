import { jsonHash, jsonList, jsonMembers, jsonText } from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'

/**
 * Reads what LNbits' API answers (lnbits/lnbits, tried at 1.6). Amounts are millisatoshis, negative where they go out;
 * times have no zone and are UTC. Preimages of invoices that nobody has paid stand in its answers: nothing here reads
 * them, and no answer is ever passed on.
 */

/** What an error of LNbits says; null when its body says nothing. */
export function lnbitsMessage(body: unknown): string | null {
  const error = jsonMembers(body)
  const detail = error?.['detail']
  // Of a bad body it is a list of faults.
  const fault = jsonMembers(jsonList(detail)[0])
  return jsonText(detail) ?? jsonText(fault?.['msg']) ?? jsonText(error?.['error'])
}

/** A payment of a wallet, in or out. */
export interface LnbitsPayment {
  readonly paymentHash: string
  /** BOLT 11; null where the answer has none. */
  readonly invoice: string | null
  /** Millisatoshis; below 0 where it goes out. */
  readonly amountMsat: number
  readonly feeMsat: number
  readonly status: 'pending' | 'success' | 'failed'
  /** When it last changed, in milliseconds since the epoch; null where LNbits does not say. */
  readonly updatedAt: number | null
}

/** A payment as LNbits lists it, and as it answers a new one; null when it cannot be used. */
export function readLnbitsPayment(value: unknown): LnbitsPayment | null {
  const payment = jsonMembers(value)
  const paymentHash = jsonHash(payment?.['payment_hash'])
  if (payment === null || paymentHash === null) return null
  const status = payment['status']
  const amountMsat = payment['amount']
  if (status !== 'pending' && status !== 'success' && status !== 'failed') return null
  if (typeof amountMsat !== 'number' || !Number.isSafeInteger(amountMsat)) return null
  const fee = payment['fee']
  return {
    paymentHash,
    invoice: jsonText(payment['bolt11']) ?? jsonText(payment['payment_request']),
    amountMsat,
    feeMsat: typeof fee === 'number' && Number.isSafeInteger(fee) ? Math.abs(fee) : 0,
    status,
    updatedAt: time(payment['updated_at'] ?? payment['time'])
  }
}

/**
 * The answer to a look-up. `keyless`: it tells what it tells anybody, so that the key counted for nothing; null when it
 * cannot be used. `paid` alone is the truth at the top.
 */
export function readLnbitsLookUp(body: unknown): LnbitsPayment | 'keyless' | null {
  const answer = jsonMembers(body)
  if (answer === null || typeof answer['paid'] !== 'boolean') return null
  if (answer['details'] === undefined || answer['details'] === null) return 'keyless'
  const payment = readLnbitsPayment(answer['details'])
  return payment === null || !answer['paid'] ? payment : { ...payment, status: 'success' }
}

/** A page of payments; null when it is none. `count` also counts what cannot be used. */
export function readLnbitsPage(
  body: unknown
): { readonly payments: readonly LnbitsPayment[]; readonly count: number } | null {
  const data = jsonMembers(body)?.['data']
  if (!Array.isArray(data)) return null
  return {
    payments: jsonList(data)
      .map(readLnbitsPayment)
      .filter(one => one !== null),
    count: data.length
  }
}

/** How a charge stands, from its payment. LNbits knows no part of an amount. */
export function lnbitsState({ status, amountMsat, updatedAt }: LnbitsPayment): ChargeState {
  switch (status) {
    case 'success':
      return { status: 'paid', receivedSats: Math.floor(amountMsat / 1000), settledAt: updatedAt }
    case 'pending':
      return { status: 'unpaid', receivedSats: 0, settledAt: null }
    case 'failed':
      return { status: 'expired', receivedSats: 0, settledAt: null }
  }
}

/** How a payout stands, from its payment. The fee of one under way is only what is held back for it. */
export function lnbitsPayout({ paymentHash, status, feeMsat, updatedAt }: LnbitsPayment): SentPayment {
  const isPaid = status === 'success'
  return {
    payout: {
      payoutId: paymentHash,
      status: isPaid ? 'confirmed' : status === 'pending' ? 'processing' : 'failed',
      feeSats: isPaid ? Math.ceil(feeMsat / 1000) : 0,
      transactionHash: null,
      processedAt: status === 'pending' ? null : updatedAt
    },
    reason: status === 'failed' ? 'LNbits could not pay the Lightning invoice.' : null
  }
}

/** Whether the answer to `GET /api/v1/wallet` is that to an admin key; null when it is no wallet. */
export function readLnbitsWallet(body: unknown): { readonly isAdmin: boolean } | null {
  const wallet = jsonMembers(body)
  if (wallet === null || typeof wallet['balance'] !== 'number') return null
  return { isAdmin: jsonText(wallet['id']) !== null }
}

/** Milliseconds since the epoch of an ISO time, which is UTC where it has no zone, or of seconds. */
function time(value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) && value > 0 ? Math.floor(value) * 1000 : null
  const text = jsonText(value)
  if (text === null) return null
  const at = Date.parse(/(?:z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text.replace(' ', 'T')}Z`)
  return Number.isFinite(at) ? at : null
}
