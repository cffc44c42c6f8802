import { Type, type StaticDecode } from 'typebox'
import {
  fitting,
  fittingItems,
  mapped,
  orNull,
  part,
  readResponse,
  Text
} from '../../../engine/formats/response-schema.ts'
import { inUnits, readDecimal } from '../../money/decimal.ts'
import { btcOf, invoiceOrNull, nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { JsonRecord } from '../../provider-calls/errors.ts'
import type { ChargeState, Payout } from '../../provider-calls/provider.ts'

/** Responses of Strike. Amounts are decimal strings with up to 11 places (millisatoshis); no floats. */

const MSAT_PLACES = 11

export const StrikeId = Type.String({ pattern: '^[0-9A-Za-z-]{1,64}$' })

/** Whole satoshis as a Strike amount. */
export function btcAmount(sats: number): { readonly amount: string; readonly currency: 'BTC' } {
  return { amount: btcOf(sats), currency: 'BTC' }
}

const Amount = Type.Union([Type.String(), Type.Number()])
const PlainMsat = Type.Decode(orNull(Amount), amount =>
  typeof amount === 'string' || typeof amount === 'number' ? msatOf(amount) : null
)

/** Millisatoshis of `{amount, currency}`; null for other currencies, negatives and fractions of a millisatoshi. */
const Msat = Type.Decode(part({ amount: Amount, currency: Type.Literal('BTC') }), money =>
  money === null ? null : msatOf(money.amount)
)

function msatOf(amount: string | number): bigint | null {
  const decimal = readDecimal(amount)
  return decimal === null || decimal.digits < 0n || decimal.places > MSAT_PLACES ? null : inUnits(decimal, MSAT_PLACES)
}

/** The payer's wallet verifies the signature; here it would only cost time. */
const Bolt11 = Type.Decode(orNull(Text), text => (text === null ? null : invoiceOrNull(text)))
const Time = orNull(
  mapped(Text, text => {
    const time = Date.parse(text)
    return Number.isFinite(time) ? time : null
  })
)
const Word = mapped(Text, text => text.toUpperCase())

export const ReceiveRequest = mapped(
  Type.Object({
    receiveRequestId: Text,
    bolt11: part({ invoice: Bolt11, paymentHash: orNull(Text), btcAmount: PlainMsat }),
    onchain: part({ requestedAmount: Msat })
  }),
  ({ receiveRequestId, bolt11, onchain }) => ({
    id: receiveRequestId,
    invoice: bolt11?.invoice ?? null,
    /** Beside the invoice in the response, in lower case; null where absent. */
    paymentHash: bolt11?.paymentHash?.toLowerCase() ?? null,
    /** Requested millisatoshis; null for an open amount or none given. */
    requestedMsat: bolt11?.invoice?.amountMsat ?? bolt11?.btcAmount ?? onchain?.requestedAmount ?? null
  })
)

/** A payment to a receive request. `type`: LIGHTNING, ONCHAIN, P2P, or a future one. */
const Receive = Type.Object({
  receiveRequestId: Text,
  type: orNull(Word),
  state: Word,
  amountReceived: Msat,
  /** Null when not over Lightning. */
  lightning: part({ invoice: Bolt11 }),
  created: Time,
  completed: Time
})
export type Receive = StaticDecode<typeof Receive>

export const ReceivePage = mapped(
  Type.Object({ items: Type.Array(orNull(Receive)), count: Type.Unknown(), isCountUnknown: Type.Unknown() }),
  ({ items, count, isCountUnknown }) => ({
    items: fitting(items),
    /** Total count; null when unknown. */
    total: isCountUnknown === true || typeof count !== 'number' ? null : count
  })
)
export type ReceivePage = StaticDecode<typeof ReceivePage>

/**
 * State of a request for `requestedMsat` with these `receives`. P2P payments may be in another currency; they pay in full,
 * so they count as requested.
 */
export function chargeState(receives: readonly Receive[], requestedMsat: bigint | null): ChargeState {
  const completed = receives.filter(({ state }) => state === 'COMPLETED')
  const msat = completed.reduce(
    (sum, { amountReceived, type }) => sum + (amountReceived ?? (type === 'ONCHAIN' ? 0n : (requestedMsat ?? 0n))),
    0n
  )
  const receivedSats = completed.every(receive => receive.amountReceived !== null) ? Number(msat / 1000n) : null
  const times = completed.map(receive => receive.completed).filter(time => time !== null)
  const settledAt = times.length === 0 ? null : Math.max(...times)
  if (completed.length > 0 && msat >= (requestedMsat ?? 0n)) return { status: 'paid', receivedSats, settledAt }
  if (receives.some(({ state }) => state === 'PENDING')) return { status: 'processing', receivedSats, settledAt: null }
  if (completed.length > 0) return { status: 'underpaid', receivedSats, settledAt }
  return nothingReceived('unpaid')
}

/** Amounts arriving, and with fees; null when not in bitcoin. */
export const PaymentQuote = Type.Object({ paymentQuoteId: StrikeId, amount: Msat, totalAmount: Msat })

/** An on-chain speed from `minimumAmount`; the fee is null when not in bitcoin. */
const ChainTier = mapped(
  Type.Object({
    id: Text,
    estimatedDeliveryDurationInMin: orNull(Type.Number()),
    estimatedFee: Msat,
    minimumAmount: Msat
  }),
  ({ id, estimatedDeliveryDurationInMin, estimatedFee, minimumAmount }) => ({
    id,
    minutes: estimatedDeliveryDurationInMin ?? Infinity,
    feeMsat: estimatedFee,
    leastMsat: minimumAmount ?? 0n
  })
)
export type ChainTier = StaticDecode<typeof ChainTier>
export const ChainTiers = fittingItems(ChainTier)

/** A sent payment. On chain, broadcast counts as confirmed. */
export const StrikePayment = mapped(
  Type.Object({
    paymentId: Text,
    state: Word,
    onchain: part({ txnId: orNull(Type.String({ pattern: '^[0-9a-fA-F]{64}$' })) }),
    totalFee: Msat,
    lightning: part({ networkFee: Msat }),
    lightningNetworkFee: Msat,
    completed: Time
  }),
  ({ paymentId, state, onchain, totalFee, lightning, lightningNetworkFee, completed }): Payout => {
    const transactionHash = onchain?.txnId?.toLowerCase() ?? null
    const feeMsat = totalFee ?? lightning?.networkFee ?? lightningNetworkFee ?? 0n
    return {
      payoutId: paymentId,
      status:
        state === 'FAILED' ? 'failed' : state === 'COMPLETED' || transactionHash !== null ? 'confirmed' : 'processing',
      feeSats: Number((feeMsat + 999n) / 1000n),
      transactionHash,
      processedAt: completed
    }
  }
)

const ids = { paymentQuoteId: orNull(Text), paymentId: orNull(Text) }
const ErrorBody = Type.Object({
  ...ids,
  code: orNull(Text),
  values: part(ids),
  data: part({
    ...ids,
    code: orNull(Text),
    message: orNull(Text),
    values: part(ids),
    validationErrors: orNull(JsonRecord)
  })
})

/** Error code and ids. Third parties report both at several depths. */
export function readError(body: unknown): {
  readonly code: string | null
  readonly paymentQuoteId: string | null
  readonly paymentId: string | null
} {
  const outer = readResponse(ErrorBody, body)
  const data = outer?.data ?? null
  const places = [data?.values, data, outer?.values, outer]
  const find = (name: keyof typeof ids): string | null =>
    places.map(place => place?.[name] ?? null).find(text => text !== null) ?? null
  return {
    code: data?.code ?? outer?.code ?? null,
    paymentQuoteId: find('paymentQuoteId'),
    paymentId: find('paymentId')
  }
}

const Complaints = Type.Array(Type.Unknown())
const Complaint = Type.Object({ message: Text })

export function strikeErrorMessage(body: unknown): string | null {
  const data = readResponse(ErrorBody, body)?.data ?? null
  const [field, complaints] = Object.entries(data?.validationErrors ?? {})[0] ?? []
  const complaint = readResponse(Complaint, readResponse(Complaints, complaints)?.[0])?.message
  const message = data?.message ?? null
  if (field === undefined || complaint === undefined) return message
  return message === null ? `${field}: ${complaint}` : `${message} ${field}: ${complaint}`
}
