import type { Grant } from '../../lightning/l402/caveats.ts'
import { isSpentByCrash } from '../holding/after-crash.ts'
import type { ClassicTokens } from '../verifying/classic-tokens.ts'
import { boundQuery, isOfOneAddress, type Offer } from '../offers/offer.ts'
import type { PaymentFit } from '../verifying/payment-fit.ts'
import type { Challenge } from '../challenges/store.ts'
import type { Paid } from '../verifying/verdict.ts'
import type { VerifyParts } from '../verifying/verify-parts.ts'

/** What a pass buys: it shows that a browser holds the challenge of a payment, as a credential would show the payment. */
export class PassClaims {
  readonly #parts: VerifyParts
  readonly #fit: PaymentFit
  readonly #tokens: ClassicTokens

  constructor(parts: VerifyParts, fit: PaymentFit, tokens: ClassicTokens) {
    this.#parts = parts
    this.#fit = fit
    this.#tokens = tokens
  }

  /**
   * Whether a challenge's payment would buy what an offer sells, by the rules of tokens: merchant, expiry, path, service,
   * price with its grace, revocation. Where one address is sold, its query must be the same too: a browser shows a pass
   * by itself, and only for what it was made for.
   */
  stands(challenge: Challenge, offer: Offer): boolean {
    const { asked, createdAt, wording } = challenge
    if (isOfOneAddress(offer) && (challenge.path !== offer.path || challenge.query !== boundQuery(offer.query)))
      return false
    const grant: Grant = {
      service: challenge.service,
      path: 'caveatPath' in wording && wording.caveatPath !== null ? wording.caveatPath : challenge.resource,
      merchantId: challenge.merchantId,
      chargeId: challenge.chargeId,
      amountSats: challenge.amountSats,
      price: challenge.price,
      expires: challenge.tokenExpiresAt / 1000,
      flaws: null,
      unknown: null
    }
    return this.#tokens.unfit(grant, asked, offer, createdAt) === null && !this.#fit.isRevoked(challenge)
  }

  /**
   * Claims a payment that is known to have been made, for the browser that holds the pass of its challenge: as a token
   * would be, good until it expires, or for a single use where only the Payment scheme is sold. Null where another
   * scheme has it, or its use is up. @throws Unavailable
   */
  async claim(challenge: Challenge, offer: Offer): Promise<Paid | null> {
    const { claims, clock, counters, revocations } = this.#parts
    const { paymentHash, merchantId, amountSats, chargeId, tokenId, price } = challenge
    const isToken = this.#parts.settings().schemes.includes('l402')
    const scheme = isToken ? 'l402' : 'payment'
    const paid = (lease: Paid['lease']): Paid => {
      counters.verified(scheme, 'ok')
      return {
        kind: 'paid',
        payment: { scheme, paymentHash, amountSats },
        lease,
        challengeId: isToken ? null : (challenge.payment?.id ?? null),
        isByPass: true
      }
    }
    if (isToken) {
      const issuedAfter = revocations.until(offer.proxyId, merchantId)
      const claimed = await claims.claimInBrief(
        paymentHash,
        { chargeId, tokenId, price, issuedAfter },
        merchantId,
        clock.now()
      )
      return claimed === null ? null : paid(null)
    }
    if (offer.meter !== null)
      return (await claims.claim(paymentHash, 'payment', null, merchantId, clock.now())) === null ? null : paid(null)
    if (challenge.method !== offer.method || challenge.state === 'spent') return null
    const taken = await claims.lease(paymentHash, merchantId, null, isSpentByCrash(offer))
    return taken === null ? null : paid(taken.lease)
  }
}
