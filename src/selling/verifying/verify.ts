import type { Context } from '../../engine/message/context.ts'
import { readAuthorization, readCredential, type Credential } from '../../lightning/codecs/credential.ts'
import { parsePaymentObject, parsePaymentToken } from '../../lightning/payment-scheme/payment-credential.ts'
import { ClassicTokens } from './classic-tokens.ts'
import type { ChallengeCounters } from '../challenges/counters.ts'
import type { Offer } from '../offers/offer.ts'
import { PassClaims } from '../paywall/pass-claims.ts'
import { PaymentCredentials } from './payment-credentials.ts'
import { PaymentFit } from './payment-fit.ts'
import type { PresentedParts } from './presented.ts'
import { soleAuthorization, TokenCache, type KnownPayment } from './token-cache.ts'
import { badCredential, paymentRefused, UNPAID, type CredentialVerdict } from './verdict.ts'
import type { VerifyParts } from './verify-parts.ts'

type Scheme = 'l402' | KnownPayment['kind']

/**
 * Judges payment credentials. A credential that was judged good before is served from memory: no database, no promise,
 * and what may have changed (time, path, price, revocations) is compared with each request. Everything else fails
 * closed.
 */
export class Verifier {
  /** Compares challenges with requests, for others too that claim payments. */
  readonly fit: PaymentFit
  /** Judges classic tokens by themselves, for merchants and stores that are shown one. */
  readonly tokens: ClassicTokens
  /** Judges credentials of the Payment scheme by themselves, likewise. */
  readonly payments: PaymentCredentials
  /** Judges passes of browsers. */
  readonly passClaims: PassClaims
  /** What finds the challenge of a credential that cannot be read. */
  readonly presented: PresentedParts
  readonly #counters: ChallengeCounters
  readonly #known = new TokenCache()

  constructor(parts: VerifyParts) {
    this.#counters = parts.counters
    this.fit = new PaymentFit(parts.revocations, parts.clock)
    this.tokens = new ClassicTokens(parts, this.fit, this.#known)
    this.payments = new PaymentCredentials(parts, this.fit, this.#known)
    const { claims, clock, keys } = parts
    this.presented = { claims, clock, keys, tokens: this.tokens, fit: this.fit }
    this.passClaims = new PassClaims(parts, this.fit, this.tokens)
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
    return this.#countedLater('payment', this.payments.verify(ctx, offer, parsePaymentObject(credential), null))
  }

  /** The verdict on a credential that was verified before; null when it was not. Allocates little and never waits. */
  #recall(key: string, offer: Offer): CredentialVerdict | null {
    const known = this.#known.get(key)
    if (known === undefined) return null
    const verdict = known.kind === 'l402' ? this.tokens.recall(known, offer) : this.payments.recall(known, offer)
    return this.#counted(known.kind, verdict)
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
      case 'classic': {
        const verdict = this.tokens.verify(offer, credential, key)
        return verdict instanceof Promise ? this.#countedLater('l402', verdict) : this.#counted('l402', verdict)
      }
      case 'modern':
        return this.#countedLater('payment', this.payments.verify(ctx, offer, parsePaymentToken(credential.token), key))
      case 'legacy':
        return this.#countedLater('payment-legacy', this.payments.legacy(ctx, offer, credential.preimage, key))
      case 'malformed':
        return this.#malformed(credential)
    }
  }

  #malformed(credential: Extract<Credential, { kind: 'malformed' }>): CredentialVerdict {
    switch (credential.profile) {
      case 'classic':
      case 'request':
        return this.#counted('l402', badCredential(credential.message))
      case 'legacy':
        return this.#counted('payment-legacy', { kind: 'legacy', detail: credential.message, reason: 'malformed' })
      case 'modern':
        return this.#counted(
          'payment',
          this.payments.off() ?? paymentRefused('invalid-challenge', 'malformed', credential.message)
        )
    }
  }

  #counted(scheme: Scheme, verdict: CredentialVerdict): CredentialVerdict {
    this.#counters.verified(scheme, 'reason' in verdict ? verdict.reason : 'ok')
    return verdict
  }

  async #countedLater(scheme: Scheme, pending: Promise<CredentialVerdict>): Promise<CredentialVerdict> {
    return this.#counted(scheme, await pending)
  }
}
