import { hash } from 'node:crypto'
import { exactPath, isOfDeposit, issueCaveats } from '../../lightning/l402/caveats.ts'
import { encodeIdentifier, macaroonToBase64, mintMacaroon } from '../../lightning/l402/macaroon.ts'
import { encodeRequest, matchPaymentId } from '../../lightning/payment-scheme/payment-challenge.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Offer } from '../offers/offer.ts'
import { payableSeconds } from './invoicing.ts'
import type { MintRequest } from './minting.ts'
import { HOLDER_MARK, OWN_FIELD_MARK, X402_MARK } from '../holding/challenge.ts'
import type { Challenge, NewChallenge, RemadeWording, SentChallenge } from '../holding/challenge.ts'
import { PAYMENT_FIELD } from '../../engine/message/payment-headers.ts'

/** Parts of a new challenge's macaroon that its row lacks. */
export function wordingOf(
  { tokenPath, wildcard }: Pick<Offer, 'tokenPath' | 'wildcard'>,
  location: string
): RemadeWording {
  const exact = wildcard ? tokenPath : exactPath(tokenPath)
  return { location, caveatPath: exact === tokenPath ? null : exact }
}

/** A row's macaroon, deterministic. @param rootKey of its token id */
export function macaroonOf(
  row: Omit<NewChallenge, 'wording' | 'payment'>,
  { location, caveatPath }: RemadeWording,
  rootKey: Uint8Array
): string {
  const caveats = issueCaveats({
    service: row.service,
    path: caveatPath ?? row.resource,
    // Exact already where required.
    wildcard: true,
    merchantId: row.merchantId,
    chargeId: row.chargeId,
    amountSats: row.amountSats,
    price: row.price,
    expires: row.tokenExpiresAt / 1000
  })
  const identifier = encodeIdentifier(row.paymentHash, Buffer.from(row.tokenId, 'hex'))
  return macaroonToBase64(mintMacaroon(rootKey, location, identifier, caveats))
}

/**
 * A stored challenge as first sent, byte for byte. Null if its master secret is no longer live or its Payment id is of
 * another `request`: a payment would be refused.
 */
export function sentAgain(challenge: Challenge, keys: TokenKeyRing): SentChallenge | null {
  const { wording, payment, digest, amountSats, invoice, network, paymentHash } = challenge
  const rootKey = keys.rootKey(Buffer.from(challenge.tokenId, 'hex'))
  if (rootKey === null) return null
  const macaroon = 'macaroon' in wording ? wording.macaroon : macaroonOf(challenge, wording, rootKey)
  if (payment === null) return { ...challenge, payment, macaroon }
  const kept = 'macaroon' in wording ? wording.request : null
  // Payment has no testnet; the other networks share our names.
  const request = kept ?? encodeRequest(String(amountSats), invoice, network, paymentHash)
  const intent = isOfDeposit(challenge.service) ? 'session' : 'charge'
  const header = challenge.binding.startsWith(OWN_FIELD_MARK) ? PAYMENT_FIELD : null
  const slots = { ...payment, method: 'lightning', intent, request, digest, opaque: null, header }
  if (matchPaymentId(payment.id, slots, keys.paymentIdKeys) === null) return null
  return { ...challenge, payment: { ...payment, request }, macaroon }
}

/** Minimum payable seconds of a reused invoice (decision 122). */
export const MIN_PAYABLE_SECONDS = 120

/** In milliseconds; half the invoice's life if shorter. */
export function leastPayable(offer: Offer): number {
  return Math.min(MIN_PAYABLE_SECONDS, payableSeconds(offer) / 2) * 1000
}

export function isPayable(challenge: Challenge, offer: Offer, now: number): boolean {
  return challenge.expiresAt >= now + leastPayable(offer)
}

/** Made in the offer's place, for its service and exact price. */
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
 * The client's unpaid challenge with a macaroon for another request of the same price (decision 175). Its invoice buys
 * one of the two: the first credential shown. The Payment challenge stays with the first request.
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

// Enough bits for one client's open invoices.
const BINDING_CHARS = 22

/** Short text of what requests that share an invoice have in common (decision 122). */
export function bindingOf(offer: Offer, { digest, holder, inOwnField, x402 = null }: MintRequest): string {
  const whole = hash(
    'sha256',
    JSON.stringify([
      offer.place,
      offer.service,
      offer.tokenPath,
      offer.method,
      offer.path,
      offer.query,
      offer.amountSats,
      digest,
      // Omitted if null, so that invoices open during an upgrade are reused.
      ...(offer.fiat === null && offer.asked === null ? [] : [offer.fiat, offer.asked]),
      ...(holder === undefined ? [] : ['holder', holder]),
      ...(offer.deposit === undefined ? [] : [offer.deposit])
    ]),
    'base64url'
  )
  const ownMark = inOwnField === true ? OWN_FIELD_MARK : ''
  const mark = holder !== undefined ? HOLDER_MARK : ownMark + (x402 === null ? '' : X402_MARK)
  return mark + whole.slice(0, BINDING_CHARS - mark.length)
}
