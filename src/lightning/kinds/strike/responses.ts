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
import { JsonRecord } from '../../provider-calls/responses.ts'
import type { ChargeState, Payout } from '../../providers/provider.ts'

/*
 * Responses of Strike. Amounts are decimal texts of up to 11 places (millisatoshis); nothing here is computed in floats.
 */

/** Decimal places of a millisatoshi in a bitcoin. */
const MSAT_PLACES = 11

/** An id as it may stand in a path. */
export const StrikeId = Type.String({ pattern: '^[0-9A-Za-z-]{1,64}$' })

/** An amount of bitcoin as Strike writes it, from whole satoshis. */
export function btcAmount(sats: number): { readonly amount: string; readonly currency: 'BTC' } {
  return { amount: btcOf(sats), currency: 'BTC' }
}

const Amount = Type.Union([Type.String(), Type.Number()])
const PlainMsat = Type.Decode(orNull(Amount), amount =>
  typeof amount === 'string' || typeof amount === 'number' ? msatOf(amount) : null
)

/** Millisatoshis of `{amount, currency}`; null for another currency, less than nothing, and parts of a millisatoshi. */
const Msat = Type.Decode(part({ amount: Amount, currency: Type.Literal('BTC') }), money =>
  money === null ? null : msatOf(money.amount)
)

function msatOf(amount: string | number): bigint | null {
  const decimal = readDecimal(amount)
  return decimal === null || decimal.digits < 0n || decimal.places > MSAT_PLACES ? null : inUnits(decimal, MSAT_PLACES)
}

/** Who signed it is for the payer's wallet to check; here it would only cost time. */
const Bolt11 = Type.Decode(orNull(Text), text => (text === null ? null : invoiceOrNull(text)))
const Time = orNull(
  mapped(Text, text => {
    const time = Date.parse(text)
    return Number.isFinite(time) ? time : null
  })
)
/** A state or type, in capitals. */
const Word = mapped(Text, text => text.toUpperCase())

/** A receive request as it was made or is read again. */
export const ReceiveRequest = mapped(
  Type.Object({
    receiveRequestId: Text,
    bolt11: part({ invoice: Bolt11, paymentHash: orNull(Text), btcAmount: PlainMsat }),
    onchain: part({ requestedAmount: Msat })
  }),
  ({ receiveRequestId, bolt11, onchain }) => ({
    id: receiveRequestId,
    invoice: bolt11?.invoice ?? null,
    /** As the response gives it beside the invoice, in lower case; null where it is left out. */
    paymentHash: bolt11?.paymentHash?.toLowerCase() ?? null,
    /** Millisatoshis that were asked for; null where the payer chooses, or nothing is said. */
    askedMsat: bolt11?.invoice?.amountMsat ?? bolt11?.btcAmount ?? onchain?.requestedAmount ?? null
  })
)

/** Money that came in, or is coming, for a receive request. `type`: LIGHTNING, ONCHAIN, P2P, or what will come next. */
const Receive = Type.Object({
  receiveRequestId: Text,
  type: orNull(Word),
  state: Word,
  /** Null where it is not in bitcoin. */
  amountReceived: Msat,
  /** Null where it was not paid over Lightning. */
  lightning: part({ invoice: Bolt11 }),
  created: Time,
  completed: Time
})
export type Receive = StaticDecode<typeof Receive>

/** A page of receives. Items that say neither whose nor in which state they are, are left out. */
export const ReceivePage = mapped(
  Type.Object({ items: Type.Array(orNull(Receive)), count: Type.Unknown(), isCountUnknown: Type.Unknown() }),
  ({ items, count, isCountUnknown }) => ({
    items: fitting(items),
    /** How many there are in all; null where that is not known. */
    total: isCountUnknown === true || typeof count !== 'number' ? null : count
  })
)
export type ReceivePage = StaticDecode<typeof ReceivePage>

/**
 * How a request stands that asked for `askedMsat` and got `receives`. A payment between two Strike users (P2P) may be
 * told in another currency than bitcoin; it pays an invoice whole, as one over Lightning does, so it counts as what was
 * asked.
 */
export function chargeState(receives: readonly Receive[], askedMsat: bigint | null): ChargeState {
  const completed = receives.filter(({ state }) => state === 'COMPLETED')
  const msat = completed.reduce(
    (sum, { amountReceived, type }) => sum + (amountReceived ?? (type === 'ONCHAIN' ? 0n : (askedMsat ?? 0n))),
    0n
  )
  const receivedSats = completed.every(receive => receive.amountReceived !== null) ? Number(msat / 1000n) : null
  const times = completed.map(receive => receive.completed).filter(time => time !== null)
  const settledAt = times.length === 0 ? null : Math.max(...times)
  if (completed.length > 0 && msat >= (askedMsat ?? 0n)) return { status: 'paid', receivedSats, settledAt }
  if (receives.some(({ state }) => state === 'PENDING')) return { status: 'processing', receivedSats, settledAt: null }
  if (completed.length > 0) return { status: 'underpaid', receivedSats, settledAt }
  return nothingReceived('unpaid')
}

/** A quote for sending: what arrives, and that with all fees; null where it is not said in bitcoin. */
export const PaymentQuote = Type.Object({ paymentQuoteId: StrikeId, amount: Msat, totalAmount: Msat })

/** A speed of a payment over the chain, for `minimumAmount` and more; a fee is null where it is not said in bitcoin. */
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

/** A payment that was sent. On chain it counts as confirmed once it is broadcast. */
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

/** Strike's code of an error, and the ids that it may give with it. Third parties place both at several depths. */
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

/** What an error says for people: its message, and the first complaint about a field. */
export function strikeErrorMessage(body: unknown): string | null {
  const data = readResponse(ErrorBody, body)?.data ?? null
  const [field, complaints] = Object.entries(data?.validationErrors ?? {})[0] ?? []
  const complaint = readResponse(Complaint, readResponse(Complaints, complaints)?.[0])?.message
  const message = data?.message ?? null
  if (field === undefined || complaint === undefined) return message
  return message === null ? `${field}: ${complaint}` : `${message} ${field}: ${complaint}`
}
