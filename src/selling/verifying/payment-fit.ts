import type { Context } from '../../engine/message/context.ts'
import { contentDigest } from '../../lightning/payment-scheme/payment-challenge.ts'
import { parseTimestamp } from '../../lightning/codecs/timestamp.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { boundQuery, type Offer } from '../offers/offer.ts'
import { buys, priceText } from '../offers/price-grace.ts'
import type { Revocations } from './revocations.ts'
import type { Challenge } from '../holding/challenge.ts'
import { paymentRefused, type PaymentRefusedVerdict } from './verdict.ts'

export class PaymentFit {
  readonly #revocations: Revocations
  readonly #clock: Clock

  constructor(revocations: Revocations, clock: Clock) {
    this.#revocations = revocations
    this.#clock = clock
  }

  taken(challenge: Challenge | null): PaymentRefusedVerdict {
    if (challenge === null) return notOurs()
    if (challenge.scheme !== 'payment' && challenge.scheme !== null)
      return paymentRefused('verification-failed', 'other-scheme', 'The payment was already used with another scheme')
    // It may have been released since our UPDATE; to the client it was in use.
    const isLost = challenge.leaseIsFinal && challenge.leaseUntil !== null && challenge.leaseUntil < this.#clock.now()
    if (challenge.state !== 'spent' && !isLost)
      return paymentRefused('verification-failed', 'in-use', 'The credential is being redeemed by another request')
    return paymentRefused('verification-failed', 'redeemed', 'The credential was already redeemed')
  }

  /** Why a challenge does not fit the request's head; null if it does. Callers report spent payments last. */
  unbound(
    challenge: Challenge,
    offer: Offer,
    isExpired = offer.meter === null && this.expired(challenge)
  ): PaymentRefusedVerdict | null {
    if (challenge.merchantId !== offer.merchantId)
      return failed('merchant', 'The challenge belongs to another merchant')
    if (challenge.service !== offer.service) return failed('service', 'The challenge was made for another service')
    if (offer.meter !== null) return this.#unboundKey(challenge, offer)
    if (isExpired) return failed('expired', 'The challenge has expired')
    if (challenge.method !== offer.method)
      return failed('method', `The challenge was made for ${challenge.method} requests`)
    if (challenge.path !== offer.path) return failed('path', 'The challenge was made for another path')
    if (challenge.query !== boundQuery(offer.query)) return failed('query', 'The challenge was made for another query')
    const { amountSats, price: fiat, asked } = challenge
    if (!buys(offer, { amountSats, fiat, asked }, challenge.createdAt, this.#clock.now()))
      return paymentRefused(
        'payment-insufficient',
        'amount',
        `The challenge was made for ${fiat ?? `${amountSats} satoshis`}; the price is ${priceText(offer)}`
      )
    if (this.#revocations.covers(challenge)) return failed('revoked', 'The challenge has been revoked')
    return null
  }

  /**
   * For the key to a balance, valid for its place as long as a token. A payment first shown after its challenge expired
   * buys nothing.
   */
  #unboundKey(challenge: Challenge, offer: Offer): PaymentRefusedVerdict | null {
    const isOver = challenge.paidAt === null ? this.expired(challenge) : this.#clock.now() >= challenge.tokenExpiresAt
    if (isOver) return failed('expired', 'The challenge has expired')
    if (challenge.path !== offer.path && challenge.place !== offer.place)
      return failed('path', 'The challenge was made for another path')
    return this.#revocations.covers(challenge) ? failed('revoked', 'The challenge has been revoked') : null
  }

  /** Without leeway (decision 174). */
  expired(challenge: Challenge): boolean {
    const expires = challenge.payment === null ? null : parseTimestamp(challenge.payment.expires)
    return expires === null || this.#clock.now() / 1000 > expires
  }

  async wrongBody(challenge: Challenge, ctx: Context, offer: Offer): Promise<PaymentRefusedVerdict | null> {
    const { callDigest } = offer
    if (callDigest !== undefined)
      return challenge.digest === callDigest
        ? null
        : failed('digest', 'The arguments are not those that the challenge was made for')
    if (challenge.digest === null) return null
    const body = await ctx.body.bytes()
    return contentDigest(body) === challenge.digest
      ? null
      : failed('digest', 'The request body is not the one that the challenge was made for')
  }
}

export function notOurs(): PaymentRefusedVerdict {
  return paymentRefused(
    'invalid-challenge',
    'unknown-challenge',
    'The challenge is not one of this server, or it was changed'
  )
}

function failed(reason: string, detail: string): PaymentRefusedVerdict {
  return paymentRefused('verification-failed', reason, detail)
}
