import { Type, type StaticDecode } from 'typebox'
import { fittingItems, mapped, orNull, part, readResponse } from '../../../engine/formats/response-schema.ts'
import type { ChargeState, Payout } from '../../provider-calls/provider.ts'
import { isObject } from '../../../platform/system/json.ts'

/**
 * Responses of OpenNode. Numbers and times may be strings, and fields may be missing. Unreadable values are null, never
 * guessed.
 */

/** Non-empty text; OpenNode writes "N/A" for none. */
const Word = Type.String({ pattern: '^(?!N/A$)[^]' })
const WordOrNull = orNull(Word)

/** Whole satoshis, 0 or more, from a number or string. */
const Sats = Type.Decode(Type.Unknown(), value => {
  const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null
})

/** Larger numbers are milliseconds: as seconds they would be past the year 5000. */
const MOST_SECONDS = 100_000_000_000

/** Milliseconds since the epoch, from seconds, their string, or an ISO date. */
const Time = Type.Decode(Type.Unknown(), value => {
  const number = typeof value !== 'string' ? value : /^\d{1,15}$/.test(value) ? Number(value) : Date.parse(value) / 1000
  if (typeof number !== 'number' || !Number.isFinite(number) || number <= 0) return null
  return Math.trunc(number > MOST_SECONDS ? number : number * 1000)
})

/** A web address: our pages link to it. */
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
  // Only in the client library's types. Like expiry, later money overrides it.
  failed: 'expired'
})

// An unknown word may be pending: it must not release the amount.
const PAYOUT_STATUSES: Readonly<Record<string, Payout['status']>> = Object.freeze({
  pending: 'pending',
  unpaid: 'pending',
  processing: 'processing',
  confirmed: 'confirmed',
  paid: 'confirmed',
  failed: 'failed',
  error: 'failed'
})

export function unwrap(body: unknown): unknown {
  return isObject(body) && 'data' in body ? body['data'] : body
}

const ErrorBody = Type.Object({ message: WordOrNull })

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

export const OpenNodeCharge = mapped(ChargeBody, charge => ({
  id: charge.id,
  /** Null where OpenNode made none, as above 500,000,000 satoshis. */
  invoice: charge.lightning_invoice?.payreq ?? null,
  /** Null where only the invoice tells. */
  invoiceExpiresAt: charge.lightning_invoice?.expires_at ?? null,
  onchainAddress: charge.chain_invoice?.address ?? charge.address,
  checkoutUrl: charge.hosted_checkout_url,
  createdAt: charge.created_at,
  /** Null for an unknown status. */
  state: stateOf(charge)
}))
export type OpenNodeCharge = StaticDecode<typeof OpenNodeCharge>

function stateOf(charge: ChargeBody): ChargeState | null {
  const status = CHARGE_STATUSES[charge.status ?? '']
  return status === undefined
    ? null
    : { status, receivedSats: received(charge, status), settledAt: settled(charge, status) }
}

/** Satoshis received. `missing_amt` is the shortfall, `overpaid_by` the excess. */
function received(
  { amount, overpaid_by: overpaid, missing_amt: missing }: ChargeBody,
  status: ChargeState['status']
): number | null {
  if (status === 'unpaid' || status === 'expired') return 0
  // Mempool transactions do not count.
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
      customId: custom_id,
      /** Fields that may name the paid invoice, in lower case. */
      names: [reference, address, payreq].filter(name => name !== null).map(name => name.toLowerCase())
    }
  }
)
export type OpenNodeWithdrawal = StaticDecode<typeof OpenNodeWithdrawal>
