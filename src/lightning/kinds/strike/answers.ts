/**
 * What Strike answers, read tolerantly: members that are missing or of another type are null, names that are not known
 * are left alone. Amounts are decimal texts of up to 11 places (millisatoshis); nothing here is computed in floats.
 */
import { decodeInvoice, InvoiceError, type Invoice } from '../../codecs/bolt11.ts'
import { inUnits, readDecimal } from '../../money/decimal.ts'
import type { ChargeState, Payout } from '../../providers/provider.ts'

type Json = Readonly<Record<string, unknown>>

/** Decimal places of a millisatoshi in a bitcoin. */
const MSAT_PLACES = 11
const TRANSACTION = /^[0-9a-f]{64}$/i

/** An amount of bitcoin as Strike writes it, from whole satoshis. */
export function btcAmount(sats: number): { readonly amount: string; readonly currency: 'BTC' } {
  const digits = String(sats).padStart(9, '0')
  return { amount: `${digits.slice(0, -8)}.${digits.slice(-8)}`, currency: 'BTC' }
}

/** A receive request as it was made or is read again. */
export interface ReceiveRequest {
  readonly id: string
  readonly invoice: Invoice | null
  /** The payment hash as the answer gives it beside the invoice, in lower case; null where it is left out. */
  readonly paymentHash: string | null
  /** Millisatoshis that were asked for; null where the payer chooses, or nothing is said. */
  readonly askedMsat: bigint | null
}

/** Null where it is none. */
export function readReceiveRequest(body: unknown): ReceiveRequest | null {
  const id = textOf(object(body)?.receiveRequestId)
  const bolt11 = object(object(body)?.bolt11)
  if (id === null) return null
  const invoice = invoiceOf(bolt11?.invoice)
  return {
    id,
    invoice,
    paymentHash: textOf(bolt11?.paymentHash)?.toLowerCase() ?? null,
    askedMsat:
      invoice?.amountMsat ??
      msatOf({ amount: bolt11?.btcAmount, currency: 'BTC' }) ??
      msatOf(object(object(body)?.onchain)?.requestedAmount)
  }
}

/** Money that came in, or is coming, for a receive request. */
export interface Receive {
  readonly requestId: string
  /** LIGHTNING, ONCHAIN, P2P, or what Strike will think of next. */
  readonly type: string
  readonly isCompleted: boolean
  readonly isPending: boolean
  /** Null where it is not in bitcoin. */
  readonly msat: bigint | null
  /** The invoice that was paid; null where it was not paid over Lightning. */
  readonly invoice: Invoice | null
  /** Milliseconds since the epoch. */
  readonly createdAt: number | null
  readonly completedAt: number | null
}

/** A page of receives. */
export interface ReceivePage {
  readonly items: readonly Receive[]
  /** How many there are in all; null where that is not known. */
  readonly total: number | null
}

/** Null where it is none. Items that say neither whose nor in which state they are, are left out. */
export function readReceives(body: unknown): ReceivePage | null {
  const page = object(body)
  const items = Array.isArray(body) ? (body as readonly unknown[]) : page?.items
  if (!Array.isArray(items)) return null
  const total = page?.isCountUnknown === true || typeof page?.count !== 'number' ? null : page.count
  return { items: items.flatMap((item: unknown) => receiveOf(item) ?? []), total }
}

function receiveOf(value: unknown): Receive | null {
  const item = object(value)
  const requestId = textOf(item?.receiveRequestId)
  const state = textOf(item?.state)?.toUpperCase() ?? null
  if (item === null || requestId === null || state === null) return null
  return {
    requestId,
    type: textOf(item.type)?.toUpperCase() ?? '',
    isCompleted: state === 'COMPLETED',
    isPending: state === 'PENDING',
    msat: msatOf(item.amountReceived),
    invoice: invoiceOf(object(item.lightning)?.invoice),
    createdAt: timeOf(item.created),
    completedAt: timeOf(item.completed)
  }
}

/**
 * How a request stands that asked for `askedMsat` and got `receives`. A payment between two Strike users (P2P) may be
 * told in another currency than bitcoin; it pays an invoice whole, as one over Lightning does, so it counts as what was
 * asked.
 */
export function chargeState(receives: readonly Receive[], askedMsat: bigint | null): ChargeState {
  const completed = receives.filter(receive => receive.isCompleted)
  const isSaid = completed.every(receive => receive.msat !== null)
  const msat = completed.reduce(
    (sum, receive) => sum + (receive.msat ?? (receive.type === 'ONCHAIN' ? 0n : (askedMsat ?? 0n))),
    0n
  )
  const receivedSats = isSaid ? Number(msat / 1000n) : null
  const settledAt = completed.reduce<number | null>(
    (last, { completedAt }) => (completedAt === null ? last : Math.max(last ?? 0, completedAt)),
    null
  )
  if (completed.length > 0 && msat >= (askedMsat ?? 0n)) return { status: 'paid', receivedSats, settledAt }
  if (receives.some(receive => receive.isPending)) return { status: 'processing', receivedSats, settledAt: null }
  if (completed.length > 0) return { status: 'underpaid', receivedSats, settledAt }
  return { status: 'unpaid', receivedSats: 0, settledAt: null }
}

/** A quote for sending. */
export interface PaymentQuote {
  readonly id: string
  /** What arrives, in millisatoshis; null where it is not said in bitcoin. */
  readonly msat: bigint | null
  /** The same with all fees. */
  readonly totalMsat: bigint | null
}

/** Null where it is none. */
export function readQuote(body: unknown): PaymentQuote | null {
  const id = textOf(object(body)?.paymentQuoteId)
  return id === null ? null : { id, msat: msatOf(object(body)?.amount), totalMsat: msatOf(object(body)?.totalAmount) }
}

/** Speeds of a payment over the chain. */
export interface ChainTier {
  readonly id: string
  readonly minutes: number
  /** Null where it is not said in bitcoin. */
  readonly feeMsat: bigint | null
  /** The least amount that it takes. */
  readonly leastMsat: bigint
}

/** Null where it is no list of them. */
export function readTiers(body: unknown): readonly ChainTier[] | null {
  if (!Array.isArray(body)) return null
  return body.flatMap((value: unknown) => {
    const tier = object(value)
    const id = textOf(tier?.id)
    const minutes = tier?.estimatedDeliveryDurationInMin
    return tier === null || id === null
      ? []
      : [
          {
            id,
            minutes: typeof minutes === 'number' ? minutes : Infinity,
            feeMsat: msatOf(tier.estimatedFee),
            leastMsat: msatOf(tier.minimumAmount) ?? 0n
          }
        ]
  })
}

/** A payment that was sent; null where it is none. On chain it counts as confirmed once it is broadcast. */
export function readStrikePayment(body: unknown): Payout | null {
  const payment = object(body)
  const payoutId = textOf(payment?.paymentId)
  const state = textOf(payment?.state)?.toUpperCase()
  if (payment === null || payoutId === null || state === undefined) return null
  const transaction = textOf(object(payment.onchain)?.txnId)
  const transactionHash = transaction !== null && TRANSACTION.test(transaction) ? transaction.toLowerCase() : null
  const feeMsat =
    msatOf(payment.totalFee) ??
    msatOf(object(payment.lightning)?.networkFee) ??
    msatOf(payment.lightningNetworkFee) ??
    0n
  return {
    payoutId,
    status:
      state === 'FAILED' ? 'failed' : state === 'COMPLETED' || transactionHash !== null ? 'confirmed' : 'processing',
    feeSats: Number((feeMsat + 999n) / 1000n),
    transactionHash,
    processedAt: timeOf(payment.completed)
  }
}

/** Strike's code of an error, and the ids that it may give with it. Third parties place both at several depths. */
export interface StrikeError {
  readonly code: string | null
  readonly paymentQuoteId: string | null
  readonly paymentId: string | null
}

/** The error of an answer; members are null where they are missing. */
export function readError(body: unknown): StrikeError {
  const outer = object(body)
  const data = object(outer?.data)
  const places = [object(data?.values), data, object(outer?.values), outer]
  const find = (name: string): string | null =>
    places.map(place => textOf(place?.[name])).find(text => text !== null) ?? null
  return {
    code: textOf(data?.code) ?? textOf(outer?.code),
    paymentQuoteId: find('paymentQuoteId'),
    paymentId: find('paymentId')
  }
}

/** What an error says for people: its message, and the first complaint about a field. */
export function strikeErrorMessage(body: unknown): string | null {
  const data = object(object(body)?.data)
  const [field, complaints] = Object.entries(object(data?.validationErrors) ?? {})[0] ?? []
  const complaint = textOf(object(Array.isArray(complaints) ? (complaints[0] as unknown) : null)?.message)
  const message = textOf(data?.message)
  if (field === undefined || complaint === null) return message
  return message === null ? `${field}: ${complaint}` : `${message} ${field}: ${complaint}`
}

function object(value: unknown): Json | null {
  // What JSON.parse gives for braces has string keys and no more.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

function timeOf(value: unknown): number | null {
  const time = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isFinite(time) ? time : null
}

/** Millisatoshis of `{amount, currency}`; null for another currency, less than nothing, and parts of a millisatoshi. */
function msatOf(value: unknown): bigint | null {
  const money = object(value)
  const { amount, currency } = money ?? {}
  if (currency !== 'BTC' || (typeof amount !== 'string' && typeof amount !== 'number')) return null
  const decimal = readDecimal(amount)
  return decimal === null || decimal.digits < 0n || decimal.places > MSAT_PLACES ? null : inUnits(decimal, MSAT_PLACES)
}

function invoiceOf(value: unknown): Invoice | null {
  const text = textOf(value)
  if (text === null) return null
  try {
    // Who signed it is for the payer's wallet to check; here it would only cost time.
    return decodeInvoice(text, { signature: 'none' })
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    return null
  }
}
