import { decodeInvoice, InvoiceError } from '../codecs/bolt11.ts'
import { NothingSent, PayoutUncertain, ProviderRefused, ProviderUnavailable, unusableResponse } from './errors.ts'
import type { Payout, PayoutRequest } from './provider.ts'

export interface SentPayment {
  readonly payout: Payout
  /** For people; null unless failed. */
  readonly reason: string | null
}

/** `by` names who could not pay. The fee counts once paid, `processedAt` once final. */
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

export type Sending =
  /** A reliable status. */
  | { readonly outcome: 'sent'; readonly payment: SentPayment }
  | { readonly outcome: 'refused'; readonly message: string; readonly isBefore: boolean }
  /** Unknown whether anything was sent. */
  | { readonly outcome: 'unclear'; readonly cause: unknown }

/** An outcome that only a look-up can tell. */
export function unclear(what: string): Sending {
  return { outcome: 'unclear', cause: unusableResponse(what) }
}

interface LightningPayment {
  /** Current state; null when unknown. Never sends. */
  find(): Promise<SentPayment | null>
  /** Sends. `ProviderRefused` means not sent; a lost response may have been. */
  send(): Promise<Sending>
}

/**
 * Pays an invoice at most once. Looks it up first, which finds earlier attempts and proves the right to look up, and
 * again after anything but success: nodes answer a repeated paid payment with failure. So refused means only that the
 * look-up failed it, or that it is unknown and the node declined before sending.
 * @throws ProviderRefused, ProviderUnavailable when nothing was sent; PayoutUncertain when unknown
 */
export async function payOnce({ find, send }: LightningPayment): Promise<Payout> {
  const before = await find()
  if (before !== null && before.payout.status !== 'failed') return before.payout
  const sending = await send().catch(unproven)
  if (sending.outcome === 'sent') return outcomeOf(sending.payment)
  const after = await find().catch((error: unknown) => {
    throw new PayoutUncertain(error)
  })
  const cause = sending.outcome === 'unclear' ? sending.cause : new Error('a refusal and no payment')
  // An earlier failure says nothing of an attempt now pending.
  const isOld = sending.outcome === 'unclear' && before !== null && after?.payout.status === 'failed'
  if (after !== null && !isOld) return outcomeOf(after)
  if (sending.outcome === 'refused' && sending.isBefore) throw new ProviderRefused('request', sending.message)
  throw new PayoutUncertain(cause)
}

function outcomeOf({ payout, reason }: SentPayment): Payout {
  if (payout.status !== 'failed') return payout
  throw new ProviderRefused('request', reason ?? 'The node could not pay the Lightning invoice.')
}

/**
 * Throws the error of a sending.
 * @throws it where certainly nothing happened: refusal, no connection, or 429; else PayoutUncertain
 */
export function unproven(error: unknown): never {
  const isUnsent =
    error instanceof ProviderRefused ||
    error instanceof NothingSent ||
    (error instanceof ProviderUnavailable && error.fault === 'rate')
  throw isUnsent ? error : new PayoutUncertain(error)
}

/** Default fee limit: these satoshis, or this fraction of the amount if larger. */
const LEAST_FEE_LIMIT = 10
const FEE_SHARE = 20

export function feeLimit({ amountSats, feeLimitSats }: Pick<PayoutRequest, 'amountSats' | 'feeLimitSats'>): number {
  return feeLimitSats ?? Math.max(LEAST_FEE_LIMIT, Math.ceil(amountSats / FEE_SHARE))
}

export interface PayableInvoice {
  readonly invoice: string
  readonly paymentHash: string
  readonly isAmountless: boolean
  /** Unix seconds. */
  readonly expiresAt: number
}

/** @throws ProviderRefused for an invalid invoice */
export function payable(invoice: string): PayableInvoice {
  try {
    const { paymentHash, amountMsat, expiresAt } = decodeInvoice(invoice, { signature: 'none', zeroAmount: true })
    return { invoice, paymentHash, isAmountless: amountMsat === null, expiresAt }
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new ProviderRefused('request', `The Lightning invoice cannot be read: ${error.message}.`)
  }
}

/** Milliseconds of the call reserved for us. */
const MARGIN = 2000

/** Seconds a node may try within a call of this many milliseconds. */
export function secondsToPay(timeout: number): number {
  return Math.max(Math.floor((timeout - MARGIN) / 1000), 1)
}
