import { Type, type StaticDecode } from 'typebox'
import { fittingItems, mapped, orNull, part, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, Seconds, Whole } from '../../provider-calls/errors.ts'
import type { ChargeState } from '../../provider-calls/provider.ts'

/**
 * Responses of lnd's REST API (lightning.engineering/api-docs/api/lnd). 64-bit numbers are strings, bytes base64 of
 * either alphabet. Zero values and empty lists may be omitted.
 */

const HashBytes = mapped(Text, value => {
  const bytes = Buffer.from(value, 'base64')
  return bytes.length === 32 ? bytes.toString('hex') : null
})

/** `code` is gRPC's. Streams wrap it once more. */
interface LndFault {
  readonly code: number
  readonly message: string
}

const CODE_UNKNOWN = 2
/** The node shut down during the call. */
export const CODE_UNAVAILABLE = 14
const MAX_MESSAGE = 200

const Fault = Type.Object({ code: Type.Unknown(), message: Type.Unknown() })
const ErrorBody = Type.Object({ error: Type.Unknown(), code: Type.Unknown(), message: Type.Unknown() })

export function readFault(body: unknown): LndFault | null {
  const outer = readResponse(ErrorBody, body)
  const inner = readResponse(Fault, outer?.error) ?? outer
  if (inner === null || (inner.code === undefined && inner.message === undefined)) return null
  const text = readResponse(Text, inner.message) ?? readResponse(Text, outer?.error) ?? ''
  return {
    code: typeof inner.code === 'number' ? inner.code : CODE_UNKNOWN,
    message: shortDescription(text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim(), MAX_MESSAGE)
  }
}

export function macaroonFault({ code, message }: LndFault): 'scope' | 'key' | 'locked' | null {
  if (code === 7 || /permission denied/i.test(message)) return 'scope'
  if (code === 16 || /verification failed|macaroon/i.test(message)) return 'key'
  // Not the code for unavailable: a node shutting down returns it for calls already begun.
  return /wallet (is )?(locked|not created)|waiting to start|starting up|not yet ready/i.test(message) ? 'locked' : null
}

export const NewInvoice = Type.Object({ payment_request: Text, r_hash: HashBytes })

export interface InvoiceState {
  readonly paymentHash: string
  readonly createdAt: number
  /** lnd's settle index; 0 while unsettled. */
  readonly settleIndex: number
  readonly state: ChargeState
}

const LndInvoice = Type.Object({
  r_hash: HashBytes,
  creation_date: Whole,
  expiry: Whole,
  settle_index: Whole,
  amt_paid_sat: Whole,
  settle_date: Seconds,
  state: Type.Unknown(),
  settled: Type.Unknown()
})

/** An invoice of lnd; null when unusable. */
export function readInvoice(value: unknown, now: number): InvoiceState | null {
  const invoice = readResponse(LndInvoice, value)
  const state = invoice === null ? null : stateOf(invoice, now)
  if (invoice === null || state === null) return null
  const { r_hash: paymentHash, creation_date: created, settle_index: settleIndex } = invoice
  return { paymentHash, createdAt: created * 1000, settleIndex, state }
}

/** Default expiry of lnd, in seconds. */
const DEFAULT_EXPIRY = 86_400

function stateOf(invoice: StaticDecode<typeof LndInvoice>, now: number): ChargeState | null {
  const { creation_date: created, expiry, settled, amt_paid_sat: receivedSats, settle_date: settledAt } = invoice
  // OPEN is the zero value; `settled` comes from builds without a state.
  switch (invoice.state ?? (invoice.state === undefined && settled !== true ? 'OPEN' : 'SETTLED')) {
    case 'SETTLED':
      return { status: 'paid', receivedSats, settledAt }
    case 'ACCEPTED':
      return { status: 'processing', receivedSats: 0, settledAt: null }
    case 'CANCELED':
      return nothingReceived('expired')
    case 'OPEN':
      return nothingReceived((created + (expiry || DEFAULT_EXPIRY)) * 1000 <= now ? 'expired' : 'unpaid')
    default:
      return null
  }
}

/** Response to `GET /v1/invoices`, with the next older page's offset; 0 for the end. */
export const LndInvoices = Type.Object({ invoices: Type.Array(Type.Unknown()), first_index_offset: Whole })

/** A line of `GET /v1/invoices/subscribe`. */
export const InvoiceLine = mapped(Type.Object({ result: Type.Unknown() }), ({ result }) =>
  result === undefined ? null : { result }
)
export const InvoiceLines = Type.Object({ lines: Type.Array(InvoiceLine), isCut: Type.Boolean() })

const LndInfo = Type.Object({ chains: orNull(Type.Array(part({ network: orNull(Text) }))) })

export function readLndNetwork(body: unknown): string | null {
  return readResponse(LndInfo, body)?.chains?.[0]?.network ?? null
}

/** Response to `GET /v1/balance/channels`. */
export const LndBalance = Type.Object({ remote_balance: Type.Object({ sat: Whole }) })

export const LndChannels = Type.Object({ channels: orNull(Type.Array(Type.Unknown())) })

const REASONS: Readonly<Record<string, string>> = Object.freeze({
  FAILURE_REASON_TIMEOUT: 'The node found no working route in time.',
  FAILURE_REASON_NO_ROUTE: 'The node found no route to the Lightning invoice within the fee limit.',
  FAILURE_REASON_INCORRECT_PAYMENT_DETAILS: 'The wallet that made the Lightning invoice refused the payment.',
  FAILURE_REASON_INSUFFICIENT_BALANCE: 'The node has too little on its side of its channels.',
  FAILURE_REASON_CANCELED: "The node's operator canceled the payment."
})

const STATUSES = { SUCCEEDED: 'confirmed', FAILED: 'failed', IN_FLIGHT: 'processing', INITIATED: 'processing' } as const

/** 0 for none. Drops six digits, since nanoseconds exceed safe integers. */
const Nanoseconds = Type.Decode(Type.Unknown(), value => {
  const time = Number((typeof value === 'string' ? value : '').slice(0, -6))
  return Number.isSafeInteger(time) ? time : 0
})

/** A line of `/v2/router/send` or `/v2/router/track`. */
export const LndPayment = mapped(
  Type.Object({
    result: Type.Object({
      payment_hash: Hash,
      status: Type.Enum(['SUCCEEDED', 'FAILED', 'IN_FLIGHT', 'INITIATED']),
      fee_sat: Whole,
      failure_reason: orNull(Text),
      creation_time_ns: Nanoseconds,
      htlcs: fittingItems(Type.Object({ resolve_time_ns: Nanoseconds }))
    })
  }),
  ({ result: { payment_hash, status, fee_sat, failure_reason, creation_time_ns, htlcs } }): SentPayment => {
    // End of the last attempt; without a route, the payment's start.
    const at = Math.max(0, ...htlcs.map(({ resolve_time_ns }) => resolve_time_ns)) || creation_time_ns
    const sent = sentPayment(payment_hash, STATUSES[status], fee_sat, at || null, 'The node')
    return sent.reason === null ? sent : { ...sent, reason: REASONS[failure_reason ?? ''] ?? sent.reason }
  }
)

export const SentCoins = Type.Object({ txid: Hash })

const WalletTransaction = mapped(
  Type.Object({ tx_hash: Hash, label: orNull(Text), total_fees: Whole, time_stamp: Seconds }),
  ({ tx_hash, label, total_fees, time_stamp }) => ({
    transactionHash: tx_hash,
    label: label ?? '',
    feeSats: total_fees,
    /** Null where absent. */
    at: time_stamp
  })
)
export type WalletTransaction = StaticDecode<typeof WalletTransaction>

export const LndTransactions = Type.Object({ transactions: Type.Array(orNull(WalletTransaction)) })
