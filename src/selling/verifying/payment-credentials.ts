import type { Context } from '../../engine/message/context.ts'
import { matchPaymentId } from '../../lightning/payment-scheme/payment-challenge.ts'
import {
  parsePaymentToken,
  type ParsedPayment,
  type PaymentCredential
} from '../../lightning/payment-scheme/payment-credential.ts'
import { paymentHashOf, preimageMatches } from '../../lightning/codecs/hmac.ts'
import { isSpentByCrash, paidForLong, paidOnce, type Paid } from '../holding/paid-responses.ts'
import { boundQuery, type Offer } from '../offers/offer.ts'
import { notOurs, type PaymentFit } from './payment-fit.ts'
import { OWN_FIELD_MARK, type Challenge } from '../holding/challenge.ts'
import type { Credential } from '../../lightning/codecs/credential.ts'
import type { KnownPayment, Remember } from './token-cache.ts'
import { paymentRefused, type LegacyRefused, type PaymentRefusedVerdict } from './verdict.ts'
import type { VerifierOptions } from './verify.ts'

interface GenuinePayment {
  readonly credential: PaymentCredential
  readonly challenge: Challenge
}

type ModernCredential = Extract<Credential, { kind: 'modern' }>

interface OwnPayment {
  readonly credential: PaymentCredential
  /** The id is ours as echoed; false if a digest that was not echoed may decide. */
  readonly isOurs: boolean
}

/**
 * Credentials of the Payment scheme, for one request or as the key to a balance (contract, Payment scheme). Also of its
 * first form, a bare preimage.
 */
export class PaymentCredentials {
  readonly #options: VerifierOptions
  readonly #fit: PaymentFit

  constructor(options: VerifierOptions, fit: PaymentFit) {
    this.#options = options
    this.#fit = fit
  }

  recall({ kind, challenge, paid }: KnownPayment, offer: Offer): Paid | PaymentRefusedVerdict | LegacyRefused {
    const refused = this.off() ?? this.#fit.unbound(challenge, offer)
    if (refused === null) return paid
    return kind === 'payment' ? refused : legacyRefused(refused)
  }

  /**
   * Verifies a credential for an offer; gives keys to balances to `remember`.
   * @throws Unavailable
   */
  async verify(
    ctx: Context,
    offer: Offer,
    parsed: ParsedPayment,
    remember: Remember
  ): Promise<Paid | PaymentRefusedVerdict> {
    const own = this.#ownPayment(parsed)
    if ('kind' in own) return own
    if (offer.meter !== null) return this.#keyToBalance(own, offer, remember)
    const atOnce = await this.#leaseFast(own, offer)
    if (atOnce !== null) return atOnce
    const genuine = await this.#storedPayment(own)
    if ('kind' in genuine) return genuine
    const { challenge } = genuine
    const refused = this.#fit.unbound(challenge, offer) ?? (await this.#fit.wrongBody(challenge, ctx, offer))
    if (refused !== null) return refused
    if (challenge.state === 'spent') return this.#fit.taken(challenge)
    const { paymentHash } = challenge
    const taken = await this.#options.claims.lease(paymentHash, challenge.merchantId, null, isSpentByCrash(offer))
    if (taken === null) return this.#fit.taken(await this.#options.claims.find(paymentHash))
    return paidOnce('payment', taken, genuine.credential.id)
  }

  /** Claims for the key to a balance; not leased, since it is sent until the balance is used up (decision 182). */
  async #keyToBalance(own: OwnPayment, offer: Offer, remember: Remember): Promise<Paid | PaymentRefusedVerdict> {
    const genuine = await this.#storedPayment(own)
    if ('kind' in genuine) return genuine
    const { challenge } = genuine
    const { paymentHash, merchantId, amountSats } = challenge
    const refused = this.#fit.unbound(challenge, offer)
    if (refused !== null) return refused
    const { claims } = this.#options
    if ((await claims.claim(paymentHash, 'payment', merchantId)) === null)
      return this.#fit.taken(await claims.find(paymentHash))
    const paid = paidForLong({ scheme: 'payment', paymentHash, amountSats }, genuine.credential.id)
    remember?.({ kind: 'payment', challenge: this.#paidNow(challenge), paid })
    return paid
  }

  /**
   * Leases in one statement that compares everything. Null if anything differs or the body must be read; the slow path
   * then finds the reason in the contract's order.
   */
  async #leaseFast({ credential, isOurs }: OwnPayment, offer: Offer): Promise<Paid | null> {
    const { paymentHash, amountSats } = credential.charge
    // The digest is part of the id: our id without an echoed digest is of a challenge without one.
    if (
      !isOurs ||
      credential.digest !== (offer.callDigest ?? null) ||
      this.#options.clock.now() / 1000 > credential.expiresAt
    )
      return null
    const { revocations } = this.#options
    // The slow path compares fiat with the row.
    if (amountSats !== offer.amountSats || revocations.hasPayment(paymentHash)) return null
    const { merchantId, proxyId, service, method, path } = offer
    const taken = await this.#options.claims.lease(
      paymentHash,
      merchantId,
      {
        paymentId: credential.id,
        merchantId,
        service,
        method,
        path,
        query: boundQuery(offer.query),
        amountSats,
        issuedAfter: revocations.until(proxyId, merchantId)
      },
      isSpentByCrash(offer)
    )
    return taken === null ? null : paidOnce('payment', taken, credential.id)
  }

  /**
   * Verifies a modern token against its own challenge only.
   * @throws Unavailable
   */
  async genuine({ token, inOwnField }: ModernCredential): Promise<GenuinePayment | PaymentRefusedVerdict> {
    const own = this.#ownPayment(parsePaymentToken(token, inOwnField))
    return 'kind' in own ? own : this.#storedPayment(own)
  }

  #ownPayment(parsed: ParsedPayment): OwnPayment | PaymentRefusedVerdict {
    const off = this.off()
    if (off !== null) return off
    if (!parsed.ok) return paymentRefused(parsed.slug, 'malformed', parsed.detail)
    const { credential } = parsed
    const isOurs = this.#isOurs(credential)
    // Only a digest that was not echoed can still make the id ours; the stored challenge has it.
    if (!isOurs && credential.digest !== null) return notOurs()
    if (!preimageMatches(credential.preimage, credential.charge.paymentHash))
      return paymentRefused('verification-failed', 'preimage', 'The preimage does not hash to the payment hash')
    return { credential, isOurs }
  }

  #isOurs(credential: PaymentCredential): boolean {
    return matchPaymentId(credential.id, credential, this.#options.keys().paymentIdKeys) !== null
  }

  async #storedPayment({ credential, isOurs }: OwnPayment): Promise<GenuinePayment | PaymentRefusedVerdict> {
    const challenge = await this.#options.claims.find(credential.charge.paymentHash)
    if (challenge === null) return notOurs()
    const { digest } = challenge
    const ours = isOurs || (digest !== null && this.#isOurs({ ...credential, digest }))
    if (!ours || challenge.payment?.id !== credential.id) return notOurs()
    return { credential, challenge }
  }

  /** As the claim has left it. */
  #paidNow(challenge: Challenge): Challenge {
    return { ...challenge, paidAt: challenge.paidAt ?? this.#options.clock.now() }
  }

  off(): PaymentRefusedVerdict | null {
    if (this.#options.settings().schemes.includes('payment')) return null
    return paymentRefused('method-unsupported', 'disabled', 'Payment credentials are disabled on this server; use L402')
  }

  /**
   * Verifies a bare preimage, the scheme's first form.
   * @throws Unavailable
   */
  async legacy(ctx: Context, offer: Offer, preimage: string, remember: Remember): Promise<Paid | LegacyRefused> {
    const off = this.off()
    if (off !== null) return legacyRefused(off)
    const { claims } = this.#options
    const paymentHash = paymentHashOf(preimage)
    const challenge = await claims.find(paymentHash)
    // Its credential counts in Payment-Authorization only, which takes no bare preimage.
    if (challenge === null || challenge.payment === null || challenge.binding.startsWith(OWN_FIELD_MARK))
      return { kind: 'legacy', detail: 'No challenge has this preimage', reason: 'unknown-challenge' }
    const refused = this.#fit.unbound(challenge, offer) ?? (await this.#fit.wrongBody(challenge, ctx, offer))
    if (refused !== null) return legacyRefused(refused)
    if ((await claims.claim(paymentHash, 'payment-legacy', challenge.merchantId)) === null)
      return { kind: 'legacy', detail: 'The payment was already used with another scheme', reason: 'other-scheme' }
    const paid = paidForLong({ scheme: 'payment-legacy', paymentHash, amountSats: challenge.amountSats })
    // A bound body must be compared each time.
    if (challenge.digest === null) remember?.({ kind: 'payment-legacy', challenge: this.#paidNow(challenge), paid })
    return paid
  }
}

function legacyRefused(refused: PaymentRefusedVerdict): LegacyRefused {
  return { kind: 'legacy', detail: refused.detail, reason: refused.reason }
}
