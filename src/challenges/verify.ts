import type { Context } from '../gateway/context.ts'
import { checkGrant, checkStanding, readGrant, type CaveatFailure, type Grant } from '../lightning/caveats.ts'
import { readAuthorization, readCredential, type Credential } from '../lightning/credential.ts'
import {
  decodeIdentifier,
  decodeMacaroonBase64,
  decodeMacaroonHex,
  MacaroonError,
  verifySignature,
  type Macaroon,
  type TokenIdentifier
} from '../lightning/macaroon.ts'
import { matchPaymentId } from '../lightning/payment-challenge.ts'
import {
  parsePaymentObject,
  parsePaymentToken,
  type ParsedPayment,
  type PaymentCredential
} from '../lightning/payment-credential.ts'
import { paymentHashOf, preimageMatches } from '../lightning/preimage.ts'
import type { TokenKeyRing } from '../lightning/root-key.ts'
import type { Clock } from '../system/clock.ts'
import type { Claims } from './claims.ts'
import { isSpentByCrash } from './after-crash.ts'
import type { ChallengeCounters } from './counters.ts'
import { boundQuery, isOfOneAddress, type Offer } from './offer.ts'
import { notOurs, PaymentFit } from './payment-fit.ts'
import { buys, isOfPrice } from './price-grace.ts'
import type { Revocations } from './revocations.ts'
import type { ChallengeSettings } from './settings.ts'
import type { Challenge, ClaimCondition } from './store.ts'
import { soleAuthorization, TokenCache, type Known, type KnownPayment } from './token-cache.ts'
import {
  badCredential,
  caveatRefused,
  invalidToken,
  paymentRefused,
  UNPAID,
  type ClassicRefused,
  type LegacyRefused,
  type Paid,
  type PaymentRefusedVerdict,
  type CredentialVerdict
} from './verdict.ts'

type Classic = Extract<Credential, { kind: 'classic' }>

/** A classic token that is genuine: its preimage and signature are right and nothing is said yet about any request. */
export interface GenuineToken {
  readonly paymentHash: string
  /** 64 lower-case hex characters. */
  readonly tokenId: string
  readonly grant: Grant
}

/** A modern credential that is genuine: its id is ours, its preimage is right, and its challenge is known. */
export interface GenuinePayment {
  readonly credential: PaymentCredential
  readonly challenge: Challenge
}

/** A modern credential that could be read, with a preimage that is right. */
interface OwnPayment {
  readonly credential: PaymentCredential
  /** Whether its id is ours as it stands; false where that depends on a digest that was not echoed. */
  readonly isOurs: boolean
}

/** What verifying is done with. `keys` and `settings` are asked each time, since a reload changes them. */
export interface VerifyParts {
  readonly claims: Claims
  readonly revocations: Revocations
  readonly clock: Clock
  readonly counters: ChallengeCounters
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}

/**
 * Judges payment credentials. A credential that was judged good before is served from memory: no database, no promise,
 * and what may have changed (time, path, price, revocations) is compared with each request. Everything else fails
 * closed.
 */
export class Verifier {
  /** Compares challenges with requests, for others too that claim payments. */
  readonly fit: PaymentFit
  readonly #parts: VerifyParts
  readonly #known = new TokenCache()

  constructor(parts: VerifyParts) {
    this.#parts = parts
    this.fit = new PaymentFit(parts.revocations, parts.clock)
  }

  /** Forgets what was verified: the keys have changed. */
  forget(): void {
    this.#known.clear()
  }

  /**
   * Judges the credential of a request against what it would buy. At once for known credentials and for those that
   * their own bytes refuse; a promise where the database or the body must be asked.
   * @throws Unavailable (in the promise) when the database is away: nothing was used up
   */
  verify(ctx: Context, offer: Offer): CredentialVerdict | Promise<CredentialVerdict> {
    const pairs = ctx.headers.pairs
    const raw = soleAuthorization(pairs)
    if (raw === null) {
      const credential = readCredential(pairs)
      if (credential.kind !== 'classic')
        return credential.kind === 'none' ? UNPAID : this.#judge(ctx, offer, credential, null)
      // Sent twice, or in another header: known under a key that no header value can have.
      const key = `\n${credential.encoding}:${credential.macaroon}:${credential.preimage}`
      return this.#recall(key, offer) ?? this.#judge(ctx, offer, credential, key)
    }
    const known = this.#recall(raw, offer)
    if (known !== null) return known
    const credential = readAuthorization(raw)
    return credential.kind === 'none' ? UNPAID : this.#judge(ctx, offer, credential, raw)
  }

  /**
   * Judges a Payment credential that stands as JSON in the request's body, for one of the calls there.
   * @throws Unavailable when the database is away: nothing was used up
   */
  verifyObject(ctx: Context, offer: Offer, credential: unknown): Promise<CredentialVerdict> {
    return this.#counted('payment', this.#modern(ctx, offer, parsePaymentObject(credential), null))
  }

  /** The verdict on a credential that was verified before; null when it was not. Allocates little and never waits. */
  #recall(key: string, offer: Offer): CredentialVerdict | null {
    const known = this.#known.get(key)
    if (known === undefined) return null
    return known.kind === 'l402' ? this.#recallToken(known, offer) : this.#recallPayment(known, offer)
  }

  #recallToken(known: Extract<Known, { kind: 'l402' }>, offer: Offer): CredentialVerdict {
    const { grant, asked, issuedAt, paid } = known
    const refused =
      this.#classicOff() ??
      this.#revoked(paid.payment.paymentHash, offer, issuedAt) ??
      this.#unfit(grant, asked, offer, issuedAt)
    this.#parts.counters.verified('l402', refused === null ? 'ok' : refused.reason)
    return refused ?? paid
  }

  #recallPayment(known: KnownPayment, offer: Offer): CredentialVerdict {
    const refused = this.#paymentOff() ?? this.fit.unbound(known.challenge, offer)
    this.#parts.counters.verified(known.kind, refused === null ? 'ok' : refused.reason)
    if (refused === null) return known.paid
    return known.kind === 'payment' ? refused : legacyRefused(refused)
  }

  #judge(
    ctx: Context,
    offer: Offer,
    credential: Credential,
    key: string | null
  ): CredentialVerdict | Promise<CredentialVerdict> {
    switch (credential.kind) {
      case 'none':
        return UNPAID
      case 'classic':
        return this.#classic(offer, credential, key)
      case 'modern':
        return this.#counted('payment', this.#modern(ctx, offer, parsePaymentToken(credential.token), key))
      case 'legacy':
        return this.#counted('payment-legacy', this.#legacy(ctx, offer, credential.preimage, key))
      case 'malformed':
        return this.#malformed(credential)
    }
  }

  #malformed(credential: Extract<Credential, { kind: 'malformed' }>): CredentialVerdict {
    switch (credential.profile) {
      case 'classic':
      case 'request':
        return this.#refuse('l402', badCredential(credential.message))
      case 'legacy':
        return this.#refuse('payment-legacy', { kind: 'legacy', detail: credential.message, reason: 'malformed' })
      case 'modern':
        return this.#refuse(
          'payment',
          this.#paymentOff() ?? paymentRefused('invalid-challenge', 'malformed', credential.message)
        )
    }
  }

  // --- classic ---

  #classic(offer: Offer, credential: Classic, key: string | null): CredentialVerdict | Promise<CredentialVerdict> {
    const token = this.#classicOff() ?? this.genuine(credential)
    if ('kind' in token) return this.#refuse('l402', token)
    // What was issued for its proxy or merchant is looked at with the claim, which knows when this one was.
    const refused =
      this.#revoked(token.paymentHash, offer, Infinity) ?? this.#unfit(token.grant, offer.asked, offer, -Infinity)
    if (refused !== null) return this.#refuse('l402', refused)
    return this.#counted('l402', this.#claimToken(token, offer, key))
  }

  /**
   * Whether a classic credential is genuine, in the contract's order: the preimage, then the signature. Its caveats are
   * read but compared with nothing. Never waits.
   */
  genuine(credential: Classic): GenuineToken | ClassicRefused {
    let macaroon: Macaroon
    let identifier: TokenIdentifier
    try {
      macaroon =
        credential.encoding === 'hex'
          ? decodeMacaroonHex(credential.macaroon)
          : decodeMacaroonBase64(credential.macaroon)
      identifier = decodeIdentifier(macaroon.identifier)
    } catch (error) {
      if (error instanceof MacaroonError)
        return invalidToken('macaroon', `The macaroon cannot be read: ${error.message}`)
      throw error
    }
    if (!preimageMatches(credential.preimage, identifier.paymentHash))
      return invalidToken('preimage', 'Preimage does not match payment hash')
    const rootKey = this.#parts.keys().rootKey(identifier.tokenId)
    if (rootKey === null || !verifySignature(macaroon, rootKey))
      return invalidToken('signature', 'Invalid macaroon signature')
    return {
      paymentHash: identifier.paymentHash,
      tokenId: Buffer.from(identifier.tokenId).toString('hex'),
      grant: readGrant(macaroon.caveats, credential.preimage)
    }
  }

  /**
   * Whether a genuine token stands by itself: not revoked, not expired, no unknown caveat (decision 128). A promise
   * only where its proxy or its merchant has revoked what was issued up to some moment: only the row knows when this
   * one was.
   * @throws Unavailable (in the promise)
   */
  standing(token: GenuineToken): ClassicRefused | null | Promise<ClassicRefused | null> {
    const { revocations, clock } = this.#parts
    if (revocations.hasPayment(token.paymentHash)) return revoked()
    const failure = checkStanding(token.grant, clock.now() / 1000)
    if (failure !== null) return caveatRefused(failure)
    return revocations.until(proxyOf(token), token.grant.merchantId) === null ? null : this.#standsSince(token)
  }

  async #standsSince(token: GenuineToken): Promise<ClassicRefused | null> {
    const challenge = await this.#parts.claims.find(token.paymentHash)
    return challenge === null || this.fit.isRevoked(challenge) ? revoked() : null
  }

  async #claimToken(token: GenuineToken, offer: Offer, key: string | null): Promise<CredentialVerdict> {
    const { claims, clock } = this.#parts
    if (offer.meter === null && !isOfPrice(offer, token.grant.amountSats, token.grant.price)) {
      // A former price is taken of what was issued while it was asked, and only the row knows when that was.
      const challenge = await claims.find(token.paymentHash)
      const refused = challenge === null ? null : this.#unfit(token.grant, challenge.asked, offer, challenge.createdAt)
      if (refused !== null) return refused
    }
    const claimed = await claims.claimInBrief(
      token.paymentHash,
      this.#conditionOf(token, offer.proxyId),
      token.grant.merchantId,
      clock.now()
    )
    if (claimed === null) return this.#unclaimed(token)
    const paid: Paid = Object.freeze({
      kind: 'paid',
      payment: Object.freeze({ scheme: 'l402', paymentHash: token.paymentHash, amountSats: claimed.amountSats }),
      lease: null,
      challengeId: null
    })
    if (key !== null)
      this.#known.add(key, {
        kind: 'l402',
        grant: token.grant,
        asked: claimed.asked,
        issuedAt: claimed.createdAt,
        paid
      })
    return paid
  }

  /** What the row of a token's payment must say for it to be claimed. */
  #conditionOf({ grant, tokenId }: GenuineToken, proxyId: string | null): ClaimCondition {
    return {
      chargeId: grant.chargeId ?? '',
      tokenId,
      price: grant.price,
      issuedAfter: this.#parts.revocations.until(proxyId, grant.merchantId)
    }
  }

  /**
   * Claims the payment of a token that fits, at its first use and again where it is not known here (decision 123).
   * @throws Unavailable
   */
  async claimToken(token: GenuineToken): Promise<Challenge | ClassicRefused> {
    const { claims, clock } = this.#parts
    return (
      (await claims.claim(
        token.paymentHash,
        'l402',
        this.#conditionOf(token, null),
        token.grant.merchantId,
        clock.now()
      )) ?? this.#unclaimed(token)
    )
  }

  /** Why the payment of a genuine token could not be claimed. */
  async #unclaimed(token: GenuineToken): Promise<ClassicRefused> {
    const challenge = await this.#parts.claims.find(token.paymentHash)
    if (challenge === null) return invalidToken('unknown-challenge', 'The payment of this token is not known')
    if (this.fit.isRevoked(challenge)) return revoked()
    if (challenge.scheme !== null && challenge.scheme !== 'l402')
      return invalidToken('other-scheme', 'The invoice was already used with the Payment scheme')
    return invalidToken('charge_id', 'Token not valid for this charge')
  }

  /** `asked` is what a price server was asked when the token was sold. */
  #unfit(grant: Grant, asked: string | null, offer: Offer, issuedAt: number): ClassicRefused | null {
    const now = this.#parts.clock.now()
    const { amountSats, price: fiat } = grant
    // The usual case comes first: it makes nothing.
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
        price: fits ? fiat : offer.fiat
      },
      now / 1000
    )
    return failure === null ? null : caveatRefused(failure)
  }

  #classicOff(): ClassicRefused | null {
    return this.#parts.settings().schemes.includes('l402')
      ? null
      : invalidToken('disabled', 'L402 is not enabled on this server')
  }

  #revoked(paymentHash: string, offer: Offer, issuedAt: number): ClassicRefused | null {
    return this.#parts.revocations.has(paymentHash, offer.proxyId, offer.merchantId, issuedAt) ? revoked() : null
  }

  // --- passes ---

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
    return this.#unfit(grant, asked, offer, createdAt) === null && !this.fit.isRevoked(challenge)
  }

  /**
   * Claims a payment that is known to have been made, for the browser that holds the pass of its challenge: as a token
   * would be, good until it expires, or for a single use where only the Payment scheme is sold. Null where another
   * scheme has it, or its use is up. @throws Unavailable
   */
  async claimPass(challenge: Challenge, offer: Offer): Promise<Paid | null> {
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
        shown: { isForeign: merchantId !== null }
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

  // --- modern ---

  async #modern(ctx: Context, offer: Offer, parsed: ParsedPayment, key: string | null): Promise<CredentialVerdict> {
    const own = this.#ownPayment(parsed)
    if ('kind' in own) return own
    if (offer.meter !== null) return this.#keyToBalance(own, offer, key)
    const atOnce = await this.#leaseAtOnce(own, offer)
    if (atOnce !== null) return atOnce
    const genuine = await this.#storedPayment(own)
    if ('kind' in genuine) return genuine
    const { challenge } = genuine
    const refused = this.fit.unbound(challenge, offer) ?? (await this.fit.wrongBody(challenge, ctx, offer))
    if (refused !== null) return refused
    if (challenge.state === 'spent') return this.fit.taken(challenge)
    const { paymentHash, amountSats } = challenge
    const taken = await this.#parts.claims.lease(paymentHash, challenge.merchantId, null, isSpentByCrash(offer))
    if (taken === null) return this.fit.taken(await this.#parts.claims.find(paymentHash))
    return {
      kind: 'paid',
      payment: { scheme: 'payment', paymentHash, amountSats },
      lease: taken.lease,
      challengeId: genuine.credential.id
    }
  }

  /**
   * Claims the payment of a credential that is the key to a balance: it is shown again until that is used up, so nothing
   * leases it (decision 182).
   */
  async #keyToBalance(own: OwnPayment, offer: Offer, key: string | null): Promise<CredentialVerdict> {
    const genuine = await this.#storedPayment(own)
    if ('kind' in genuine) return genuine
    const { paymentHash, merchantId, amountSats } = genuine.challenge
    const refused = this.fit.unbound(genuine.challenge, offer)
    if (refused !== null) return refused
    const { claims, clock } = this.#parts
    const challenge = await claims.claim(paymentHash, 'payment', null, merchantId, clock.now())
    if (challenge === null) return this.fit.taken(await claims.find(paymentHash))
    const paid: Paid = Object.freeze({
      kind: 'paid',
      payment: Object.freeze({ scheme: 'payment', paymentHash, amountSats }),
      lease: null,
      challengeId: genuine.credential.id
    })
    if (key !== null) this.#known.add(key, { kind: 'payment', challenge, paid })
    return paid
  }

  /**
   * Leases in one statement, which compares all that is compared otherwise: nothing is leased where anything speaks
   * against it. Null then, and where the body must be asked; why, and in which order it is told, is for the long way to
   * find out.
   */
  async #leaseAtOnce({ credential, isOurs }: OwnPayment, offer: Offer): Promise<Paid | null> {
    const { paymentHash, amountSats } = credential.charge
    // A digest that was not echoed makes the id another, so an id that is ours without one is of a challenge without
    // one.
    if (
      !isOurs ||
      credential.digest !== (offer.callDigest ?? null) ||
      this.#parts.clock.now() / 1000 > credential.expiresAt
    )
      return null
    const { revocations } = this.#parts
    // Fiat is compared with the row's own, the long way.
    if (amountSats !== offer.amountSats || revocations.hasPayment(paymentHash)) return null
    const { merchantId, proxyId, service, method, path } = offer
    const taken = await this.#parts.claims.lease(
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
    if (taken === null) return null
    return {
      kind: 'paid',
      payment: { scheme: 'payment', paymentHash, amountSats },
      lease: taken.lease,
      challengeId: credential.id
    }
  }

  /** Whether a modern token is genuine. It is compared with nothing but its own challenge. @throws Unavailable */
  async genuinePayment(token: string): Promise<GenuinePayment | PaymentRefusedVerdict> {
    const own = this.#ownPayment(parsePaymentToken(token))
    return 'kind' in own ? own : this.#storedPayment(own)
  }

  /** What a modern credential says, as far as it can be checked without its challenge. Never waits. */
  #ownPayment(parsed: ParsedPayment): OwnPayment | PaymentRefusedVerdict {
    const off = this.#paymentOff()
    if (off !== null) return off
    if (!parsed.ok) return paymentRefused(parsed.slug, 'malformed', parsed.detail)
    const { credential } = parsed
    const isOurs = matchPaymentId(credential.id, credential, this.#parts.keys().paymentIdKeys) !== null
    // Only a digest that was not echoed can still make the id ours, and only the stored challenge knows it.
    if (!isOurs && credential.digest !== null) return notOurs()
    if (!preimageMatches(credential.preimage, credential.charge.paymentHash))
      return paymentRefused('verification-failed', 'preimage', 'The preimage does not hash to the payment hash')
    return { credential, isOurs }
  }

  async #storedPayment({ credential, isOurs }: OwnPayment): Promise<GenuinePayment | PaymentRefusedVerdict> {
    const challenge = await this.#parts.claims.find(credential.charge.paymentHash)
    if (challenge === null) return notOurs()
    const ours =
      isOurs ||
      (challenge.digest !== null &&
        matchPaymentId(credential.id, { ...credential, digest: challenge.digest }, this.#parts.keys().paymentIdKeys) !==
          null)
    if (!ours || challenge.payment?.id !== credential.id) return notOurs()
    return { credential, challenge }
  }

  #paymentOff(): PaymentRefusedVerdict | null {
    if (this.#parts.settings().schemes.includes('payment')) return null
    return paymentRefused('method-unsupported', 'disabled', 'Payment credentials are disabled on this server; use L402')
  }

  // --- legacy ---

  async #legacy(ctx: Context, offer: Offer, preimage: string, key: string | null): Promise<CredentialVerdict> {
    const off = this.#paymentOff()
    if (off !== null) return legacyRefused(off)
    const { claims, clock } = this.#parts
    const paymentHash = paymentHashOf(preimage)
    const challenge = await claims.find(paymentHash)
    if (challenge === null || challenge.payment === null)
      return { kind: 'legacy', detail: 'No challenge has this preimage', reason: 'unknown-challenge' }
    const refused = this.fit.unbound(challenge, offer) ?? (await this.fit.wrongBody(challenge, ctx, offer))
    if (refused !== null) return legacyRefused(refused)
    const claimed = await claims.claim(paymentHash, 'payment-legacy', null, challenge.merchantId, clock.now())
    if (claimed === null)
      return { kind: 'legacy', detail: 'The payment was already used with another scheme', reason: 'other-scheme' }
    const paid: Paid = Object.freeze({
      kind: 'paid',
      payment: Object.freeze({ scheme: 'payment-legacy', paymentHash, amountSats: claimed.amountSats }),
      lease: null,
      challengeId: null
    })
    // One that is bound to a body must have it checked each time.
    if (key !== null && claimed.digest === null)
      this.#known.add(key, { kind: 'payment-legacy', challenge: claimed, paid })
    return paid
  }

  // --- counting ---

  #refuse<T extends CredentialVerdict & { readonly reason: string }>(
    scheme: 'l402' | 'payment' | 'payment-legacy',
    verdict: T
  ): T {
    this.#parts.counters.verified(scheme, verdict.reason)
    return verdict
  }

  async #counted(
    scheme: 'l402' | 'payment' | 'payment-legacy',
    pending: Promise<CredentialVerdict>
  ): Promise<CredentialVerdict> {
    const verdict = await pending
    this.#parts.counters.verified(scheme, 'reason' in verdict ? verdict.reason : 'ok')
    return verdict
  }
}

/** The proxy that a token was sold for: a merchant's service is its proxy's id (decision 113). */
function proxyOf({ grant }: GenuineToken): string | null {
  return grant.merchantId === null ? null : (grant.service?.replace(/:[01]$/, '') ?? null)
}

function revoked(): ClassicRefused {
  return invalidToken('revoked', 'The token has been revoked')
}

function legacyRefused(refused: PaymentRefusedVerdict): LegacyRefused {
  return { kind: 'legacy', detail: refused.detail, reason: refused.reason }
}
