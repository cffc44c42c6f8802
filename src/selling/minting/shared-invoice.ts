import { payableSeconds } from './invoicing.ts'
import type { Offer } from '../offers/offer.ts'
import type { Challenge, SentChallenge } from '../challenges/store.ts'
import { macaroonOf, wordingOf } from './wording.ts'

/** Seconds for which an invoice that is handed out again can be paid at least (decision 122). */
export const MIN_PAYABLE_SECONDS = 120

/** The same in milliseconds; half the invoice's life where that is shorter. */
export function leastPayable(offer: Offer): number {
  return Math.min(MIN_PAYABLE_SECONDS, payableSeconds(offer) / 2) * 1000
}

/** Whether an invoice that has not been paid can be handed out again. */
export function isPayable(challenge: Challenge, offer: Offer, now: number): boolean {
  return challenge.expiresAt >= now + leastPayable(offer)
}

/** Whether a challenge was made in an offer's place, for the same service and at the very same price. */
export function isSoldAlike(challenge: Challenge, offer: Offer): boolean {
  return (
    challenge.source === offer.source &&
    challenge.place === offer.place &&
    challenge.service === offer.service &&
    challenge.merchantId === offer.merchantId &&
    challenge.price === offer.fiat &&
    (offer.fiat !== null || challenge.amountSats === offer.amountSats) &&
    challenge.asked === offer.asked
  )
}

/**
 * A client's unpaid challenge with a macaroon for another request of the same price (decision 175). Its invoice buys one
 * of the two: the first credential that is shown has the payment. The Payment challenge stays with the first request.
 */
export function sharedWith(
  challenge: Challenge,
  offer: Offer,
  { location, tokenId, rootKey }: { location: string; tokenId: Uint8Array; rootKey: Uint8Array }
): SentChallenge {
  const { tokenPath, path, method } = offer
  const other = { resource: tokenPath, path, method, digest: null, tokenId: Buffer.from(tokenId).toString('hex') }
  const row = { ...challenge, ...other }
  return { ...row, payment: null, macaroon: macaroonOf(row, wordingOf(offer, location), rootKey) }
}
