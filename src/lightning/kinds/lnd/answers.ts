import { shortDescription } from '../../codecs/bolt11.ts'
import {
  jsonList as list,
  jsonMembers as members,
  jsonText as text,
  jsonWhole as whole,
  type JsonMembers
} from '../../provider-calls/json-members.ts'
import type { SentPayment } from '../../provider-calls/pay-once.ts'
import type { ChargeState } from '../../providers/provider.ts'

/**
 * Reads what lnd's REST API answers (lightning.engineering/api-docs/api/lnd). Its 64-bit numbers are texts, its bytes
 * base64. What is missing or of another type reads as null, and only what a caller needs makes an answer unusable.
 */

/** Milliseconds since the epoch of an lnd time in seconds; null where there is none. */
function seconds(value: unknown): number | null {
  const at = whole(value)
  return at === 0 ? null : at * 1000
}

/** 64 lower-case hex characters from base64 of either alphabet, which is how lnd writes bytes. */
function hash(value: unknown): string | null {
  const bytes = Buffer.from(text(value) ?? '', 'base64')
  return bytes.length === 32 ? bytes.toString('hex') : null
}

/** Error of lnd: `code` is gRPC's. A stream wraps it once more. */
export interface LndFault {
  readonly code: number
  /** One short line; may be empty. */
  readonly message: string
}

const CODE_UNKNOWN = 2
/** The node went away while it was asked. */
export const CODE_UNAVAILABLE = 14
const MAX_MESSAGE = 200

/** The error in an answer; null where it holds none. */
export function readFault(body: unknown): LndFault | null {
  const outer = members(body)
  const inner = members(outer?.['error']) ?? outer
  if (inner === null || (inner['code'] === undefined && inner['message'] === undefined)) return null
  const line = (text(inner['message']) ?? text(outer?.['error']) ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()
  return {
    code: typeof inner['code'] === 'number' ? inner['code'] : CODE_UNKNOWN,
    message: shortDescription(line, MAX_MESSAGE)
  }
}

/** What an error means, as far as it concerns the macaroon or the node as a whole; null for all others. */
export function macaroonFault({ code, message }: LndFault): 'scope' | 'key' | 'locked' | null {
  if (code === 7 || /permission denied/i.test(message)) return 'scope'
  if (code === 16 || /verification failed|macaroon/i.test(message)) return 'key'
  // Not the code for unavailable: a node that goes down answers it for calls that it has begun.
  return /wallet (is )?(locked|not created)|waiting to start|starting up|not yet ready/i.test(message) ? 'locked' : null
}

/** A new invoice. */
export interface NewInvoice {
  /** BOLT 11. */
  readonly invoice: string
  readonly paymentHash: string
}

/** The answer to `POST /v1/invoices`; null when it cannot be used. */
export function readNewInvoice(body: unknown): NewInvoice | null {
  const answer = members(body)
  const invoice = text(answer?.['payment_request'])
  const paymentHash = hash(answer?.['r_hash'])
  return invoice === null || paymentHash === null ? null : { invoice, paymentHash }
}

/** An invoice as it stands. */
export interface InvoiceState {
  readonly paymentHash: string
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  /** lnd's count of settled invoices, at which this one was settled; 0 while it is not. */
  readonly settleIndex: number
  readonly state: ChargeState
}

/** An invoice of lnd, `now` in milliseconds; null when it cannot be used. */
export function readInvoice(value: unknown, now: number): InvoiceState | null {
  const invoice = members(value)
  const paymentHash = hash(invoice?.['r_hash'])
  if (invoice === null || paymentHash === null) return null
  const createdAt = whole(invoice['creation_date']) * 1000
  // Proto's zero value may be left out: OPEN is the first.
  const state = invoice['state'] === undefined && invoice['settled'] !== true ? 'OPEN' : (invoice['state'] ?? 'SETTLED')
  const status =
    state === 'SETTLED'
      ? 'paid'
      : state === 'ACCEPTED'
        ? 'processing'
        : state === 'CANCELED'
          ? 'expired'
          : state === 'OPEN'
            ? createdAt + (whole(invoice['expiry']) || DEFAULT_EXPIRY) * 1000 <= now
              ? 'expired'
              : 'unpaid'
            : null
  if (status === null) return null
  return {
    paymentHash,
    createdAt,
    settleIndex: whole(invoice['settle_index']),
    state: {
      status,
      receivedSats: status === 'paid' ? whole(invoice['amt_paid_sat']) : 0,
      settledAt: status === 'paid' ? seconds(invoice['settle_date']) : null
    }
  }
}

/** Seconds of an lnd invoice that was asked for without an expiry. */
const DEFAULT_EXPIRY = 86_400

/** A page of invoices. */
export interface InvoicePage {
  readonly invoices: readonly InvoiceState[]
  /** How many lnd gave, with those that cannot be read. */
  readonly count: number
  /** Where the next older page begins; 0 when there is none. */
  readonly next: number
}

/** The answer to `GET /v1/invoices`; null when it cannot be used. */
export function readInvoices(body: unknown, now: number): InvoicePage | null {
  const answer = members(body)
  if (answer === null || !Array.isArray(answer['invoices'])) return null
  return {
    invoices: list(answer['invoices'])
      .map(one => readInvoice(one, now))
      .filter(one => one !== null),
    count: answer['invoices'].length,
    next: whole(answer['first_index_offset'])
  }
}

/** The lines of `GET /v1/invoices/subscribe`, as far as they were read; null when one is an error or no line of it. */
export function readInvoiceLines(
  body: unknown,
  now: number
): { readonly invoices: readonly InvoiceState[]; readonly isCut: boolean } | null {
  const stream = members(body)
  const results = list(stream?.['lines']).map(line => members(line)?.['result'])
  if (stream === null || !Array.isArray(stream['lines']) || results.includes(undefined)) return null
  return {
    invoices: results.map(one => readInvoice(one, now)).filter(one => one !== null),
    isCut: stream['isCut'] === true
  }
}

/** One line of `GET /v1/invoices/subscribe`; null for anything but an invoice. */
export function readInvoiceLine(line: unknown, now: number): InvoiceState | null {
  return readInvoice(members(line)?.['result'], now)
}

/** What the answer to `GET /v1/getinfo` calls the node's network; null where it does not say. */
export function readLndNetwork(body: unknown): string | null {
  return text(members(list(members(body)?.['chains'])[0])?.['network'])
}

/** How many channels the answer to `GET /v1/channels` lists; null when it cannot be used. */
export function readChannels(body: unknown): number | null {
  const answer = members(body)
  // Proto's empty list may be left out.
  return answer === null ? null : list(answer['channels']).length
}

/** Why lnd could not pay, in words for the payee's side. */
const REASONS: Readonly<Record<string, string>> = Object.freeze({
  FAILURE_REASON_TIMEOUT: 'The node found no working route in time.',
  FAILURE_REASON_NO_ROUTE: 'The node found no route to the Lightning invoice within the fee limit.',
  FAILURE_REASON_INCORRECT_PAYMENT_DETAILS: 'The wallet that made the Lightning invoice refused the payment.',
  FAILURE_REASON_INSUFFICIENT_BALANCE: 'The node has too little on its side of its channels.',
  FAILURE_REASON_CANCELED: "The node's operator cancelled the payment."
})

/** A payment in a line of `/v2/router/send` or `/v2/router/track`; null when it cannot be used. */
export function readLndPayment(body: unknown): SentPayment | null {
  const payment = members(members(body)?.['result'])
  const payoutId = text(payment?.['payment_hash'])
  if (payment === null || payoutId === null || !/^[0-9a-f]{64}$/.test(payoutId)) return null
  const status =
    payment['status'] === 'SUCCEEDED'
      ? 'confirmed'
      : payment['status'] === 'FAILED'
        ? 'failed'
        : payment['status'] === 'IN_FLIGHT' || payment['status'] === 'INITIATED'
          ? 'processing'
          : null
  if (status === null) return null
  const isFinal = status !== 'processing'
  return {
    payout: {
      payoutId,
      status,
      feeSats: status === 'confirmed' ? whole(payment['fee_sat']) : 0,
      transactionHash: null,
      processedAt: isFinal ? resolvedAt(payment) : null
    },
    reason:
      status === 'failed'
        ? (REASONS[text(payment['failure_reason']) ?? ''] ?? 'The node could not pay the Lightning invoice.')
        : null
  }
}

/**
 * When the last attempt ended, in milliseconds since the epoch; where none found a route, when the payment began. Null
 * where lnd does not say.
 */
function resolvedAt(payment: JsonMembers): number | null {
  const times = list(payment['htlcs']).map(htlc => fromNanoseconds(members(htlc)?.['resolve_time_ns']))
  const last = Math.max(0, ...times) || fromNanoseconds(payment['creation_time_ns'])
  return last === 0 ? null : last
}

/** Milliseconds; 0 for none. */
function fromNanoseconds(value: unknown): number {
  // As a whole they do not fit into a number; without the last six digits they do.
  const time = Number((text(value) ?? '').slice(0, -6))
  return Number.isSafeInteger(time) ? time : 0
}

/** A transaction of the node's wallet. */
export interface WalletTransaction {
  readonly transactionHash: string
  readonly label: string
  readonly feeSats: number
  /** Milliseconds since the epoch; null where lnd does not say. */
  readonly at: number | null
}

/** The answer to `POST /v1/transactions`: the transaction's hash; null when it cannot be used. */
export function readSentCoins(body: unknown): string | null {
  return transactionHash(members(body)?.['txid'])
}

/** The answer to `GET /v1/transactions`; null when it cannot be used. */
export function readTransactions(body: unknown): readonly WalletTransaction[] | null {
  const answer = members(body)
  if (answer === null || !Array.isArray(answer['transactions'])) return null
  return list(answer['transactions'])
    .map(members)
    .flatMap(one => {
      const found = transactionHash(one?.['tx_hash'])
      return found === null
        ? []
        : [
            {
              transactionHash: found,
              label: text(one?.['label']) ?? '',
              feeSats: whole(one?.['total_fees']),
              at: seconds(one?.['time_stamp'])
            }
          ]
    })
}

function transactionHash(value: unknown): string | null {
  const hex = text(value)
  return hex !== null && /^[0-9a-f]{64}$/.test(hex) ? hex : null
}
