import { checkGrant, checkGrantTimes, readGrant, type CaveatFailure, type Grant } from '../../lightning/l402/caveats.ts'
import { UNREADABLE_KEY, type Credential } from '../../lightning/codecs/credential.ts'
import {
  decodeIdentifier,
  decodeMacaroonBase64,
  decodeMacaroonHex,
  MacaroonError,
  verifySignature,
  type Macaroon,
  type TokenIdentifier
} from '../../lightning/l402/macaroon.ts'
import { apertureRefusal } from '../../lightning/l402/aperture-tokens.ts'
import { preimageMatches } from '../../lightning/codecs/hmac.ts'
import { isKeyProof } from '../../lightning/l402/root-key.ts'
import type { Offer } from '../offers/offer.ts'
import { buys, isOfPrice } from '../offers/price-grace.ts'
import type { Challenge, ClaimCondition } from '../holding/challenge.ts'
import type { KnownToken, Remember } from './token-cache.ts'
import { caveatRefused, invalidToken, type ClassicRefused } from './verdict.ts'
import { paidForLong, type Paid } from '../holding/paid-responses.ts'
import type { VerifierOptions } from './verify.ts'

type Classic = Extract<Credential, { kind: 'classic' }>

/** A classic token with valid preimage and signature, not compared with a request. */
interface GenuineToken {
  readonly paymentHash: string
  readonly tokenId: string
  /** Path caveat at issuance; holders may have attenuated it. */
  readonly issuedPath: string | null
  readonly grant: Grant
}

/** Classic tokens, a macaroon with its preimage: repeatable until they expire. */
export class ClassicTokens {
  readonly #options: VerifierOptions

  constructor(options: VerifierOptions) {
    this.#options = options
  }

  recall({ grant, asked, issuedAt, paid }: KnownToken, offer: Offer): Paid | ClassicRefused {
    return (
      this.#off() ??
      this.#revoked(paid.payment.paymentHash, offer, issuedAt) ??
      this.unfit(grant, asked, offer, issuedAt) ??
      paid
    )
  }

  /**
   * Verifies a token for an offer and gives a valid one to `remember`. Synchronous if its bytes decide.
   * @throws Unavailable (in the promise)
   */
  verify(
    offer: Offer,
    credential: Classic,
    remember: Remember
  ): Paid | ClassicRefused | Promise<Paid | ClassicRefused> {
    const token = this.#off() ?? this.genuine(credential)
    if ('kind' in token) return token.reason === 'signature' ? (this.#ofAperture(offer, credential) ?? token) : token
    // Revocations of proxy or merchant are checked by the claim, which knows the issuance.
    return (
      this.#revoked(token.paymentHash, offer, Infinity) ??
      this.unfit(token.grant, offer.asked, offer, -Infinity) ??
      this.#claim(token, offer, remember)
    )
  }

  /** Verifies preimage, then signature, in the contract's order. Caveats are only read. */
  genuine(credential: Classic): GenuineToken | ClassicRefused {
    let macaroon: Macaroon
    let identifier: TokenIdentifier
    try {
      macaroon = macaroonOf(credential)
      identifier = decodeIdentifier(macaroon.identifier)
    } catch (error) {
      if (error instanceof MacaroonError)
        return invalidToken(
          'macaroon',
          credential.isKey === true ? UNREADABLE_KEY : `The macaroon cannot be read: ${error.message}`
        )
      throw error
    }
    const isPreimage = preimageMatches(credential.preimage, identifier.paymentHash)
    if (!isPreimage && credential.isKey !== true)
      return invalidToken('preimage', 'Preimage does not match payment hash')
    const rootKey = this.#options.keys().rootKey(identifier.tokenId)
    if (!isPreimage && (rootKey === null || !isKeyProof(credential.preimage, rootKey, identifier.paymentHash)))
      return invalidToken('preimage', 'Invalid API key')
    if (rootKey === null || !verifySignature(macaroon, rootKey))
      return invalidToken('signature', 'Invalid macaroon signature')
    return {
      paymentHash: identifier.paymentHash,
      tokenId: Buffer.from(identifier.tokenId).toString('hex'),
      issuedPath: issuedPath(macaroon),
      grant: readGrant(macaroon.caveats, credential.preimage)
    }
  }

  /**
   * Judges a token that Aperture sold, whose preimage was verified; null for others. It has no row here, and pays for
   * requests alone.
   */
  #ofAperture(offer: Offer, credential: Classic): Paid | ClassicRefused | null {
    const { aperture } = this.#options.keys()
    if (aperture === null) return null
    const macaroon = macaroonOf(credential)
    if (!aperture.isGenuine(macaroon)) return null
    const { paymentHash } = decodeIdentifier(macaroon.identifier)
    if (this.#revoked(paymentHash, offer, -Infinity)) return revoked()
    if (offer.merchantId !== null || offer.meter !== null)
      return invalidToken('services', 'A token of Aperture pays for no balance and no API of a merchant')
    const service = offer.service.replace(/:0$/, '')
    const refused = apertureRefusal(macaroon, service, offer.path, this.#options.clock.now() / 1000)
    if (refused !== null)
      return refused.caveat === 'services'
        ? invalidToken('services', refused.message)
        : caveatRefused({ ...refused, status: 403, caveat: 'expires' })
    // What it cost is not known, and nothing is earned again.
    return paidForLong({ scheme: 'l402', paymentHash, amountSats: 0 })
  }

  /** Payment hash of our macaroon; else null. */
  issuedFor(macaroon: Macaroon): string | null {
    try {
      const { paymentHash, tokenId } = decodeIdentifier(macaroon.identifier)
      const rootKey = this.#options.keys().rootKey(tokenId)
      return rootKey !== null && verifySignature(macaroon, rootKey) ? paymentHash : null
    } catch (error) {
      if (error instanceof MacaroonError) return null
      throw error
    }
  }

  /**
   * A genuine token is valid without a request: not revoked, not expired, no unknown caveat (decision 128). Returns a
   * promise if its proxy or merchant has revocations, since the row has the issuance.
   * @throws Unavailable (in the promise)
   */
  standing(token: GenuineToken): ClassicRefused | null | Promise<ClassicRefused | null> {
    const { revocations, clock } = this.#options
    if (revocations.hasPayment(token.paymentHash)) return revoked()
    const failure = checkGrantTimes(token.grant, clock.now() / 1000)
    if (failure !== null) return caveatRefused(failure)
    return revocations.until(proxyOf(token), token.grant.merchantId) === null ? null : this.#standsSince(token)
  }

  async #standsSince(token: GenuineToken): Promise<ClassicRefused | null> {
    const challenge = await this.#options.claims.find(token.paymentHash)
    return challenge === null || this.#options.revocations.covers(challenge) ? revoked() : null
  }

  async #claim(token: GenuineToken, offer: Offer, remember: Remember): Promise<Paid | ClassicRefused> {
    const { claims } = this.#options
    if (offer.meter === null && !isOfPrice(offer, token.grant.amountSats, token.grant.price)) {
      // A former price depends on the issuance, which the row has.
      const challenge = await claims.find(token.paymentHash)
      const refused = challenge === null ? null : this.unfit(token.grant, challenge.asked, offer, challenge.createdAt)
      if (refused !== null) return refused
    }
    const condition = this.#conditionOf(token, offer.proxyId)
    const claimed = await claims.claim(token.paymentHash, 'l402', token.grant.merchantId, condition)
    if (claimed === null) return this.#unclaimed(token)
    const { grant, paymentHash } = token
    const { amountSats, asked, createdAt: issuedAt } = claimed
    const limits = grant.limits === null ? {} : { limits: grant.limits }
    const paid = paidForLong({ scheme: 'l402', paymentHash, amountSats, ...limits })
    remember?.({ kind: 'l402', grant, asked, issuedAt, paid })
    return paid
  }

  #conditionOf({ grant, tokenId, issuedPath }: GenuineToken, proxyId: string | null): ClaimCondition {
    return {
      chargeId: grant.chargeId ?? '',
      tokenId,
      issuedPath,
      price: grant.price,
      issuedAfter: this.#options.revocations.until(proxyId, grant.merchantId)
    }
  }

  /**
   * Claims at the first use, and again if not cached (decision 123).
   * @throws Unavailable
   */
  async claim(token: GenuineToken): Promise<Challenge | ClassicRefused> {
    const { claims } = this.#options
    const { paymentHash, grant } = token
    const claimed = await claims.claim(paymentHash, 'l402', grant.merchantId, this.#conditionOf(token, null))
    return (claimed === null ? null : await claims.find(paymentHash)) ?? this.#unclaimed(token)
  }

  async #unclaimed(token: GenuineToken): Promise<ClassicRefused> {
    const challenge = await this.#options.claims.find(token.paymentHash)
    if (challenge === null) return invalidToken('unknown-challenge', 'The payment of this token is not known')
    if (this.#options.revocations.covers(challenge)) return revoked()
    if (challenge.scheme !== null && challenge.scheme !== 'l402')
      return invalidToken('other-scheme', 'The invoice was already used with the Payment scheme')
    if (challenge.scheme === 'l402' && challenge.tokenId !== token.tokenId)
      return invalidToken('other-request', 'The invoice was already used for another request')
    return invalidToken('charge_id', 'Token not valid for this charge')
  }

  /** Why a grant does not cover an offer; null if it does. `asked`: digest of the price server's request when sold. */
  unfit(grant: Grant, asked: string | null, offer: Offer, issuedAt: number): ClassicRefused | null {
    const now = this.#options.clock.now()
    const { amountSats, price: fiat } = grant
    // The usual case first: it allocates nothing.
    const fits =
      amountSats !== null &&
      (offer.meter !== null ||
        isOfPrice(offer, amountSats, fiat) ||
        buys(offer, { amountSats, fiat, asked }, issuedAt, now))
    const failure: CaveatFailure | null = checkGrant(
      grant,
      {
        service: offer.service,
        path: offer.path,
        merchantId: offer.merchantId,
        chargeId: null,
        amountSats: fits ? amountSats : offer.amountSats,
        price: fits ? fiat : offer.fiat,
        isMetered: offer.meter !== null
      },
      now / 1000
    )
    return failure === null ? null : caveatRefused(failure)
  }

  #off(): ClassicRefused | null {
    return this.#options.settings().schemes.includes('l402')
      ? null
      : invalidToken('disabled', 'L402 is not enabled on this server')
  }

  #revoked(paymentHash: string, offer: Offer, issuedAt: number): ClassicRefused | null {
    return this.#options.revocations.has(paymentHash, offer.proxyId, offer.merchantId, issuedAt) ? revoked() : null
  }
}

/** A merchant's service caveat has its proxy's id (decision 113). */
function proxyOf({ grant }: GenuineToken): string | null {
  return grant.merchantId === null ? null : (grant.service?.replace(/:[01]$/, '') ?? null)
}

/** @throws MacaroonError */
function macaroonOf({ encoding, macaroon }: Classic): Macaroon {
  return encoding === 'hex' ? decodeMacaroonHex(macaroon) : decodeMacaroonBase64(macaroon)
}

function revoked(): ClassicRefused {
  return invalidToken('revoked', 'The token has been revoked')
}

function issuedPath({ caveats }: Macaroon): string | null {
  for (const caveat of caveats) {
    const text = Buffer.from(caveat).toString('utf8')
    if (text.startsWith('path=')) return text.slice('path='.length)
  }
  return null
}
