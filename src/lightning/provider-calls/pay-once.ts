import { decodeInvoice, InvoiceError } from '../codecs/bolt11.ts'
import { NothingSent, PayoutUncertain, ProviderRefused, ProviderUnavailable } from './errors.ts'
import type { Payout, PayoutRequest } from '../providers/provider.ts'

/** A payment of a node, and why it failed where it did. */
export interface SentPayment {
  readonly payout: Payout
  /** For people; null unless it failed. */
  readonly reason: string | null
}

/** `by` says for people who could not pay. The fee counts once it is paid, `processedAt` once it is over. */
export function sentPayment(
  payoutId: string,
  status: 'confirmed' | 'processing' | 'failed',
  feeSats: number,
  processedAt: number | null,
  by: string
): SentPayment {
  return {
    payout: {
      payoutId,
      status,
      feeSats: status === 'confirmed' ? feeSats : 0,
      transactionHash: null,
      processedAt: status === 'processing' ? null : processedAt
    },
    reason: status === 'failed' ? `${by} could not pay the Lightning invoice.` : null
  }
}

/** What came of asking a node to pay. */
export type Sending =
  /** The answer says how the payment stands, and can be believed. */
  | { readonly outcome: 'sent'; readonly payment: SentPayment }
  /** The node says that it did not pay. `isBefore`: for a reason that it finds before it sends anything. */
  | { readonly outcome: 'refused'; readonly message: string; readonly isBefore: boolean }
  /** The answer does not say whether anything was sent. */
  | { readonly outcome: 'unclear'; readonly cause: unknown }

/** The payment of one invoice by a node that knows its payments by their hash. */
export interface LightningPayment {
  /** How it stands; null when the node knows none. It never sends. */
  find(): Promise<SentPayment | null>
  /** Asks the node to pay. What throws `ProviderRefused` was not sent; a lost answer may have been. */
  send(): Promise<Sending>
}

/**
 * Pays an invoice at most once. It is looked up first, which finds what was sent before, and shows that the key may look
 * up at all; and after every answer but a plain success, since nodes answer a second payment of a paid invoice with a
 * failure. So "failed" in an answer is no proof: refused is only what the look-up calls failed, or what it does not know
 * and the node turned down before sending.
 * @throws ProviderRefused, ProviderUnavailable when nothing was sent; PayoutUncertain when that cannot be told
 */
export async function payOnce({ find, send }: LightningPayment): Promise<Payout> {
  const before = await find()
  if (before !== null && before.payout.status !== 'failed') return before.payout
  const sending = await send().catch((error: unknown) => {
    throw isUnsent(error) ? error : new PayoutUncertain(error)
  })
  if (sending.outcome === 'sent') return outcomeOf(sending.payment)
  const after = await find().catch((error: unknown) => {
    throw new PayoutUncertain(error)
  })
  const cause = sending.outcome === 'unclear' ? sending.cause : new Error('a refusal and no payment')
  // What failed before this attempt says nothing of an attempt that may be under way.
  const isOld = sending.outcome === 'unclear' && before !== null && after?.payout.status === 'failed'
  if (after !== null && !isOld) return outcomeOf(after)
  if (sending.outcome === 'refused' && sending.isBefore) throw new ProviderRefused('request', sending.message)
  throw new PayoutUncertain(cause)
}

function outcomeOf({ payout, reason }: SentPayment): Payout {
  if (payout.status !== 'failed') return payout
  throw new ProviderRefused('request', reason ?? 'The node could not pay the Lightning invoice.')
}

/** Whether it is certain that the provider did nothing: it said no, no connection was made, or it turned us away. */
export function isUnsent(error: unknown): boolean {
  return (
    error instanceof ProviderRefused ||
    error instanceof NothingSent ||
    (error instanceof ProviderUnavailable && error.fault === 'rate')
  )
}

/** Default fee limit: this many satoshis, or one in so many of the amount where that is more. */
const LEAST_FEE_LIMIT = 10
const FEE_SHARE = 20

/** Satoshis that the fee of a payment may be, where a kind takes a limit. */
export function feeLimit({ amountSats, feeLimitSats }: Pick<PayoutRequest, 'amountSats' | 'feeLimitSats'>): number {
  return feeLimitSats ?? Math.max(LEAST_FEE_LIMIT, Math.ceil(amountSats / FEE_SHARE))
}

/** What a node is asked to pay. */
export interface LightningSend {
  /** BOLT 11. */
  readonly invoice: string
  /** Counts where the invoice names no amount. */
  readonly amountSats: number
  /** For a kind that takes a limit. */
  readonly feeLimitSats: number
}

/** What is needed of an invoice to pay it. */
export interface PayableInvoice {
  readonly paymentHash: string
  /** It leaves the amount to us, as one of zero does too. */
  readonly isAmountless: boolean
  /** Unix seconds. */
  readonly expiresAt: number
}

/** @throws ProviderRefused for what is no invoice */
export function payable(invoice: string): PayableInvoice {
  try {
    const { paymentHash, amountMsat, expiresAt } = decodeInvoice(invoice, { signature: 'none', zeroAmount: true })
    return { paymentHash, isAmountless: amountMsat === null, expiresAt }
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new ProviderRefused('request', `The Lightning invoice cannot be read: ${error.message}.`)
  }
}

/** Milliseconds that we keep for ourselves of the time that a node may take to pay. */
const MARGIN = 2000

/** Seconds that a node may try to pay, within a call of so many milliseconds. */
export function secondsToPay(timeout: number): number {
  return Math.max(Math.floor((timeout - MARGIN) / 1000), 1)
}
