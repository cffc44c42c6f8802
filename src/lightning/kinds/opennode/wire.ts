import type { ChargeState, Payout } from '../../providers/provider.ts'

/**
 * OpenNode's answers, read tolerantly: figures and times come as numbers or as texts, and much is left out at times.
 * What cannot be read is null, never a guess.
 */

/** A charge as it was answered. */
export interface WireCharge {
  readonly id: string
  /** BOLT 11; null where the provider made none, as it does above 500,000,000 satoshis. */
  readonly invoice: string | null
  /** Milliseconds since the epoch; null where only the invoice itself says it. */
  readonly invoiceExpiresAt: number | null
  readonly onchainAddress: string | null
  readonly checkoutUrl: string | null
  /** Milliseconds since the epoch. */
  readonly createdAt: number | null
  /** Null where the status is none that we know. */
  readonly state: ChargeState | null
}

/** A withdrawal as it was answered. */
export interface WireWithdrawal {
  readonly payout: Payout
  /** Our reference, where the provider shows it. */
  readonly customId: string | null
  /** Every text of it that may name the invoice that it pays, in lower case. */
  readonly names: readonly string[]
}

type Fields = Readonly<Record<string, unknown>>

const CHARGE_STATUSES: Readonly<Record<string, ChargeState['status']>> = Object.freeze({
  unpaid: 'unpaid',
  processing: 'processing',
  paid: 'paid',
  underpaid: 'underpaid',
  refunded: 'refunded',
  expired: 'expired',
  // Only in the client library's types. It says as little as an expiry, which money that still comes overrules.
  failed: 'expired'
})

// A word that is not here may be a state on the way: it must not give the amount back.
const PAYOUT_STATUSES: Readonly<Record<string, Payout['status']>> = Object.freeze({
  pending: 'pending',
  unpaid: 'pending',
  processing: 'processing',
  confirmed: 'confirmed',
  paid: 'confirmed',
  failed: 'failed',
  error: 'failed'
})

/** Numbers above are milliseconds: as seconds they would lie beyond the year 5000. */
const MOST_SECONDS = 100_000_000_000

/** What stands in `data`, or the answer itself where it is not wrapped. */
export function unwrap(body: unknown): unknown {
  const fields = fieldsOf(body)
  return fields !== null && 'data' in fields ? fields['data'] : body
}

/** The message of `{success: false, message}`. */
export function openNodeErrorMessage(body: unknown): string | null {
  return textOf(fieldsOf(body)?.['message'])
}

/** A charge; null for what has no id. */
export function readCharge(value: unknown): WireCharge | null {
  const charge = fieldsOf(value)
  const id = textOf(charge?.['id'])
  if (charge === null || id === null) return null
  const lightning = fieldsOf(charge['lightning_invoice'])
  return {
    id,
    invoice: textOf(lightning?.['payreq']),
    invoiceExpiresAt: timeOf(lightning?.['expires_at']),
    onchainAddress: textOf(fieldsOf(charge['chain_invoice'])?.['address']) ?? textOf(charge['address']),
    checkoutUrl: webAddress(charge['hosted_checkout_url']),
    createdAt: timeOf(charge['created_at']),
    state: readState(charge)
  }
}

function readState(charge: Fields): ChargeState | null {
  const status = CHARGE_STATUSES[textOf(charge['status']) ?? '']
  if (status === undefined) return null
  return { status, receivedSats: received(charge, status), settledAt: settled(charge, status) }
}

/**
 * Satoshis that have come in. `missing_amt` is what an underpayment lacks, `overpaid_by` what came beyond the amount.
 */
function received(charge: Fields, status: ChargeState['status']): number | null {
  if (status === 'unpaid' || status === 'expired') return 0
  const amount = satsOf(charge['amount'])
  // What is only in the mempool is not in yet.
  if (amount === null || status === 'processing') return null
  if (status === 'paid') return amount + (satsOf(charge['overpaid_by']) ?? 0)
  const missing = satsOf(charge['missing_amt'])
  return missing === null || missing > amount ? null : amount - missing
}

function settled(charge: Fields, status: ChargeState['status']): number | null {
  if (status !== 'paid' && status !== 'refunded') return null
  const transactions = Array.isArray(charge['transactions']) ? charge['transactions'] : []
  const parts = [charge['lightning_invoice'], charge['chain_invoice'], ...transactions]
  const times = parts.map(part => timeOf(fieldsOf(part)?.['settled_at'])).filter(time => time !== null)
  return times.length === 0 ? null : Math.max(...times)
}

/** A withdrawal; null for what has no id. */
export function readWithdrawal(value: unknown): WireWithdrawal | null {
  const withdrawal = fieldsOf(value)
  const payoutId = textOf(withdrawal?.['id'])
  if (withdrawal === null || payoutId === null) return null
  const status = PAYOUT_STATUSES[textOf(withdrawal['status']) ?? ''] ?? 'processing'
  const isFinal = status === 'confirmed' || status === 'failed'
  const names = [withdrawal['reference'], withdrawal['address'], withdrawal['payreq']]
    .map(textOf)
    .filter(name => name !== null)
  const transaction = [withdrawal['reference'], withdrawal['tx']]
    .map(textOf)
    .find(text => text !== null && /^[0-9a-f]{64}$/i.test(text))
  return {
    payout: {
      payoutId,
      status,
      feeSats: satsOf(withdrawal['fee']) ?? 0,
      transactionHash: transaction?.toLowerCase() ?? null,
      processedAt: isFinal ? timeOf(withdrawal['processed_at']) : null
    },
    customId: textOf(withdrawal['custom_id']),
    names: names.map(name => name.toLowerCase())
  }
}

function fieldsOf(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields) /* any object has fields */
    : null
}

/** A text that says something; "N/A" is how the provider writes that there is none. */
function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' && value !== 'N/A' ? value : null
}

/** Whole satoshis, 0 or more, from a number or its text. */
function satsOf(value: unknown): number | null {
  const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null
}

/** Milliseconds since the epoch, from seconds, their text, or an ISO date. */
function timeOf(value: unknown): number | null {
  const text = textOf(value)
  const number = text === null ? value : /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text) / 1000
  if (typeof number !== 'number' || !Number.isFinite(number) || number <= 0) return null
  return Math.trunc(number > MOST_SECONDS ? number : number * 1000)
}

/** A web address; nothing else may become a link on a page of ours. */
function webAddress(value: unknown): string | null {
  const text = textOf(value)
  return text !== null && /^https?:\/\//i.test(text) && URL.canParse(text) ? text : null
}
