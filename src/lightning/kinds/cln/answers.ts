import { jsonHash, jsonList, jsonMembers, jsonText, jsonWhole } from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'

/**
 * Reads what Core Lightning's RPC answers over clnrest (docs.corelightning.org). Amounts are millisatoshis, times
 * seconds. Preimages of paid invoices stand in some answers; nothing here reads them.
 */

/** An error of the RPC, which clnrest gives at the top of the body. */
export interface ClnFault {
  readonly code: number
  readonly message: string
}

/** The error in an answer; null where it holds none. */
export function readClnFault(body: unknown): ClnFault | null {
  const error = jsonMembers(body)
  if (error === null || typeof error['code'] !== 'number') return null
  return { code: error['code'], message: jsonText(error['message']) ?? '' }
}

/** A new invoice. */
export interface ClnInvoice {
  /** BOLT 11. */
  readonly invoice: string
  readonly paymentHash: string
  /** Why nobody may be able to pay it, in the node's words. */
  readonly warnings: readonly string[]
}

/** The answer to `invoice`, and an item of `listinvoices`; null when it cannot be used. */
export function readClnInvoice(body: unknown): ClnInvoice | null {
  const answer = jsonMembers(body)
  const invoice = jsonText(answer?.['bolt11'])
  const paymentHash = jsonHash(answer?.['payment_hash'])
  if (answer === null || invoice === null || paymentHash === null) return null
  const warnings = Object.entries(answer)
    .filter(([name]) => name.startsWith('warning_'))
    .map(([, value]) => jsonText(value) ?? '')
  return { invoice, paymentHash, warnings: warnings.filter(text => text !== '') }
}

/** How an invoice stands. */
export interface ClnInvoiceState {
  readonly paymentHash: string
  /** The node's own count of paid invoices at which it was paid; 0 while it is not. */
  readonly payIndex: number
  readonly state: ChargeState
}

/** An item of `listinvoices`, and the answer to `waitanyinvoice`; null when it cannot be used. */
export function readClnInvoiceState(value: unknown): ClnInvoiceState | null {
  const invoice = jsonMembers(value)
  const paymentHash = jsonHash(invoice?.['payment_hash'])
  const status = invoice?.['status']
  if (invoice === null || paymentHash === null || (status !== 'unpaid' && status !== 'paid' && status !== 'expired'))
    return null
  const isPaid = status === 'paid'
  return {
    paymentHash,
    payIndex: jsonWhole(invoice['pay_index']),
    state: {
      status,
      receivedSats: isPaid ? Math.floor(msat(invoice['amount_received_msat']) / 1000) : 0,
      settledAt: isPaid ? seconds(invoice['paid_at']) : null
    }
  }
}

/** The items of `listinvoices`; null when it is no list. */
export function clnInvoices(body: unknown): readonly unknown[] | null {
  const invoices = jsonMembers(body)?.['invoices']
  return Array.isArray(invoices) ? invoices : null
}

/** The answer to `listpays` of one hash: the best of its attempts; null when there is none, undefined when unusable. */
export function readClnPays(body: unknown, paymentHash: string): SentPayment | null | undefined {
  const pays = jsonMembers(body)?.['pays']
  if (!Array.isArray(pays)) return undefined
  const attempts = jsonList(pays).map(one => jsonMembers(one))
  if (attempts.some(one => one?.['payment_hash'] !== paymentHash)) return undefined
  const known = (status: string) => attempts.findLast(one => one?.['status'] === status)
  const complete = known('complete')
  if (complete !== undefined && complete !== null) {
    return sentPayment(paymentHash, 'confirmed', feeOf(complete), seconds(complete['completed_at']))
  }
  if (known('pending') !== undefined) return sentPayment(paymentHash, 'processing', 0, null)
  const failed = known('failed')
  if (failed === undefined || failed === null) return attempts.length === 0 ? null : undefined
  return sentPayment(paymentHash, 'failed', 0, seconds(failed['completed_at']) ?? seconds(failed['created_at']))
}

/**
 * The answer to `xpay`, or to `pay`, which tells a status; null when it does not say for certain that it was paid.
 * `now` in milliseconds.
 */
export function readClnPaid(body: unknown, paymentHash: string, now: number): SentPayment | null {
  const answer = jsonMembers(body)
  if (answer === null || jsonHash(answer['payment_preimage']) === null) return null
  const isComplete = answer['status'] === undefined || answer['status'] === 'complete'
  return isComplete ? sentPayment(paymentHash, 'confirmed', feeOf(answer), now) : null
}

/** The name of the node's network in `getinfo`; null when it is no answer of a node. */
export function readClnNetwork(body: unknown): string | null {
  return jsonText(jsonMembers(body)?.['network'])
}

function sentPayment(
  paymentHash: string,
  status: 'confirmed' | 'processing' | 'failed',
  feeSats: number,
  processedAt: number | null
): SentPayment {
  return {
    payout: { payoutId: paymentHash, status, feeSats, transactionHash: null, processedAt },
    reason: status === 'failed' ? 'The node could not pay the Lightning invoice.' : null
  }
}

function feeOf(payment: Readonly<Record<string, unknown>>): number {
  const [sent, amount] = [msat(payment['amount_sent_msat']), msat(payment['amount_msat'])]
  return amount === 0 ? 0 : Math.max(0, Math.ceil((sent - amount) / 1000))
}

/** Millisatoshis; versions before 23.05 wrote them as a text that ends with `msat`. */
function msat(value: unknown): number {
  return jsonWhole(typeof value === 'string' ? value.replace(/msat$/, '') : value)
}

/** Milliseconds since the epoch of a time in seconds, which may have a fraction; null where there is none. */
function seconds(value: unknown): number | null {
  const at = jsonWhole(typeof value === 'number' ? Math.floor(value) : value)
  return at === 0 ? null : at * 1000
}
