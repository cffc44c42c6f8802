import { Type, type StaticDecode } from 'typebox'
import { fittingItems, mapped, orNull, part, readResponse } from '../../../engine/formats/response-schema.ts'
import type { ChargeState, Payout } from '../../providers/provider.ts'

/*
 * Responses of OpenNode: figures and times come as numbers or as texts, and much is left out at times. What cannot be read
 * is null, never a guess.
 */

/** A text that says something; "N/A" is how the provider writes that there is none. */
const Word = Type.String({ pattern: '^(?!N/A$)[^]' })
const WordOrNull = orNull(Word)

/** Whole satoshis, 0 or more, from a number or its text. */
const Sats = Type.Decode(Type.Unknown(), value => {
  const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null
})

/** Numbers above are milliseconds: as seconds they would lie beyond the year 5000. */
const MOST_SECONDS = 100_000_000_000

/** Milliseconds since the epoch, from seconds, their text, or an ISO date. */
const Time = Type.Decode(Type.Unknown(), value => {
  const number = typeof value !== 'string' ? value : /^\d{1,15}$/.test(value) ? Number(value) : Date.parse(value) / 1000
  if (typeof number !== 'number' || !Number.isFinite(number) || number <= 0) return null
  return Math.trunc(number > MOST_SECONDS ? number : number * 1000)
})

/** A web address; nothing else may become a link on a page of ours. */
const WebAddress = Type.Decode(WordOrNull, text =>
  text !== null && /^https?:\/\//i.test(text) && URL.canParse(text) ? text : null
)

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

/** What stands in `data`, or the response itself where it is not wrapped. */
export function unwrap(body: unknown): unknown {
  return typeof body === 'object' && body !== null && !Array.isArray(body) && 'data' in body ? body.data : body
}

const ErrorBody = Type.Object({ message: WordOrNull })

/** The message of `{success: false, message}`. */
export function openNodeErrorMessage(body: unknown): string | null {
  return readResponse(ErrorBody, body)?.message ?? null
}

const ChargeBody = Type.Object({
  id: Word,
  status: WordOrNull,
  amount: Sats,
  overpaid_by: Sats,
  missing_amt: Sats,
  address: WordOrNull,
  hosted_checkout_url: WebAddress,
  created_at: Time,
  lightning_invoice: part({ payreq: WordOrNull, expires_at: Time, settled_at: Time }),
  chain_invoice: part({ address: WordOrNull, settled_at: Time }),
  transactions: fittingItems(Type.Object({ settled_at: Time }))
})
type ChargeBody = StaticDecode<typeof ChargeBody>

/** A charge. */
export const OpenNodeCharge = mapped(ChargeBody, charge => ({
  id: charge.id,
  /** BOLT 11; null where the provider made none, as it does above 500,000,000 satoshis. */
  invoice: charge.lightning_invoice?.payreq ?? null,
  /** Milliseconds since the epoch; null where only the invoice itself says it. */
  invoiceExpiresAt: charge.lightning_invoice?.expires_at ?? null,
  onchainAddress: charge.chain_invoice?.address ?? charge.address,
  checkoutUrl: charge.hosted_checkout_url,
  createdAt: charge.created_at,
  /** Null where the status is none that we know. */
  state: stateOf(charge)
}))
export type OpenNodeCharge = StaticDecode<typeof OpenNodeCharge>

function stateOf(charge: ChargeBody): ChargeState | null {
  const status = CHARGE_STATUSES[charge.status ?? '']
  return status === undefined
    ? null
    : { status, receivedSats: received(charge, status), settledAt: settled(charge, status) }
}

/**
 * Satoshis that have come in. `missing_amt` is what an underpayment lacks, `overpaid_by` what came beyond the amount.
 */
function received(
  { amount, overpaid_by: overpaid, missing_amt: missing }: ChargeBody,
  status: ChargeState['status']
): number | null {
  if (status === 'unpaid' || status === 'expired') return 0
  // What is only in the mempool is not in yet.
  if (amount === null || status === 'processing') return null
  if (status === 'paid') return amount + (overpaid ?? 0)
  return missing === null || missing > amount ? null : amount - missing
}

function settled(
  { lightning_invoice, chain_invoice, transactions }: ChargeBody,
  status: ChargeState['status']
): number | null {
  if (status !== 'paid' && status !== 'refunded') return null
  const times = [lightning_invoice, chain_invoice, ...transactions].map(one => one?.settled_at ?? 0)
  return Math.max(...times) || null
}

/** A withdrawal. */
export const OpenNodeWithdrawal = mapped(
  Type.Object({
    id: Word,
    status: WordOrNull,
    fee: Sats,
    reference: WordOrNull,
    address: WordOrNull,
    payreq: WordOrNull,
    tx: WordOrNull,
    processed_at: Time,
    custom_id: WordOrNull
  }),
  ({ id, fee, reference, address, payreq, tx, processed_at, custom_id, ...given }) => {
    const status = PAYOUT_STATUSES[given.status ?? ''] ?? 'processing'
    const isFinal = status === 'confirmed' || status === 'failed'
    const transaction = [reference, tx].find(text => text !== null && /^[0-9a-f]{64}$/i.test(text))
    const payout: Payout = {
      payoutId: id,
      status,
      feeSats: fee ?? 0,
      transactionHash: transaction?.toLowerCase() ?? null,
      processedAt: isFinal ? processed_at : null
    }
    return {
      payout,
      /** Our reference, where the provider shows it. */
      customId: custom_id,
      /** Every text of it that may name the invoice that it pays, in lower case. */
      names: [reference, address, payreq].filter(name => name !== null).map(name => name.toLowerCase())
    }
  }
)
export type OpenNodeWithdrawal = StaticDecode<typeof OpenNodeWithdrawal>
