import { pause } from '../../platform/system/clock.ts'
import { clientNetwork } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import { PROVIDER_UNAVAILABLE } from '../../lightning/provider-calls/errors.ts'
import { contentDigest } from '../../lightning/payment-scheme/payment-challenge.ts'
import { decodeInvoice, InvoiceError } from '../../lightning/codecs/bolt11.ts'
import { requirementsOf, settlementFault, type ExactCredential } from '../../lightning/codecs/x402.ts'
import { isSpentByCrash, paidOnce, type Paid } from '../holding/paid-responses.ts'
import { hasBoundBody, type Offer } from '../offers/offer.ts'
import { x402Binding } from '../offers/x402-binding.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { PaymentFit } from './payment-fit.ts'
import type { X402Refused } from './verdict.ts'
import type { VerifierOptions } from './verify.ts'

/** Milliseconds until the second lookup at a provider. */
const LATE_MS = 3_000

/** Credentials of x402: for one request each, under the lease that all schemes share. */
export class X402Credentials {
  readonly #options: VerifierOptions
  readonly #fit: PaymentFit

  constructor(options: VerifierOptions, fit: PaymentFit) {
    this.#options = options
    this.#fit = fit
  }

  /** @throws Unavailable if the database is down: nothing was spent */
  async verify(ctx: Context, offer: Offer, credential: ExactCredential | string): Promise<Paid | X402Refused> {
    const { claims, clock, isShared, settings } = this.#options
    if (typeof credential === 'string') return refused(credential, 'The payment cannot be read')
    if (credential.invoice === '')
      return refused('invalid_exact_lnbtc_invoice_missing', 'The accepted requirement names no invoice')
    const paymentHash = paymentHashIn(credential.invoice)
    if (paymentHash === null)
      return refused('invalid_exact_lnbtc_invoice_decode_failed', 'The accepted invoice cannot be read')
    const challenge = await claims.find(paymentHash)
    // Others may make invoices at the same node: only those that were issued here count.
    if (challenge === null || challenge.invoice !== credential.invoice)
      return refused('invalid_exact_lnbtc_invoice_payee_mismatch', 'The accepted invoice is not one of this server')
    const hasDigest = offer.callDigest === undefined && hasBoundBody(ctx, offer)
    const digest = hasDigest ? contentDigest(await ctx.body.bytes()) : null
    const binding = x402Binding(ctx, offer, settings(), digest)
    if (binding === null)
      return refused('invalid_exact_lnbtc_request_binding', 'This request cannot be paid with x402; use another scheme')
    const requirements = requirementsOf(decodeInvoice(challenge.invoice), binding)
    const fault = settlementFault(credential, requirements, clock.now() / 1000)
    if (fault !== null) return refused(fault, 'The payment does not settle this request')
    const unbound = this.#fit.unbound(challenge, offer, false)
    if (unbound !== null) {
      const reason = unbound.slug === 'payment-insufficient' ? 'amount_mismatch' : 'request_mismatch'
      return refused(`invalid_exact_lnbtc_${reason}`, unbound.detail)
    }
    const { merchantId, state } = challenge
    const { isUnproven } = credential
    // Others may have seen the invoice, such as the payer's wallet.
    if (isUnproven && challenge.clientKey !== clientNetwork(ctx.clientAddress))
      return refused('invalid_exact_lnbtc_preimage_missing', 'Another client paid without a preimage')
    if (state === 'unspent' && (isUnproven || isShared(challenge))) await this.#requireReceived(challenge, !isUnproven)
    const taken =
      state === 'spent' ? null : await claims.lease(paymentHash, merchantId, null, isSpentByCrash(offer), 'x402')
    if (taken === null) return refused('duplicate_settlement', 'The payment was already used, or is in use')
    return { ...paidOnce('x402', taken, null), x402Network: requirements.network }
  }

  /**
   * Providers may record a payment after its payer has the preimage, so it is looked up twice.
   * @throws Unavailable: a 402 would make the payer pay again
   */
  async #requireReceived(challenge: Challenge, isProven: boolean): Promise<void> {
    const { clock, polls } = this.#options
    if (challenge.paidAt !== null || challenge.settledAt !== null || (await polls.isPaid(challenge, isProven))) return
    if (isProven) {
      await pause(clock, LATE_MS)
      if (await polls.isPaid(challenge, true)) return
    }
    throw new Unavailable(PROVIDER_UNAVAILABLE, 'The payment is not confirmed yet. Send the same request again.', 5)
  }
}

function refused(reason: string, detail: string): X402Refused {
  return { kind: 'x402', reason, detail }
}

function paymentHashIn(invoice: string): string | null {
  try {
    return decodeInvoice(invoice, { signature: 'none' }).paymentHash
  } catch (error) {
    if (error instanceof InvoiceError) return null
    throw error
  }
}
