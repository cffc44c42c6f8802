import type { Context } from '../../engine/message/context.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import { readAuthorization, readCredential, type Credential } from '../../lightning/codecs/credential.ts'
import { readExactCredential, type ExactCredential } from '../../lightning/codecs/x402.ts'
import { paymentHashOf, preimageMatches } from '../../lightning/codecs/hmac.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import { parsePaymentObject, parsePaymentToken } from '../../lightning/payment-scheme/payment-credential.ts'
import { parseSessionToken } from '../../lightning/payment-scheme/session-credential.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { ClassicTokens } from './classic-tokens.ts'
import type { Claims } from '../holding/claims.ts'
import type { ChargePolls, ChargeSources } from '../holding/charge-polls.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { Offer } from '../offers/offer.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import { PaymentCredentials } from './payment-credentials.ts'
import { X402Credentials } from './x402-credentials.ts'
import { PaymentFit } from './payment-fit.ts'
import { soleAuthorization, TokenCache, type KnownPayment, type Remember } from './token-cache.ts'
import type { Revocations } from './revocations.ts'
import { asInDraft01, badCredential, paymentRefused, UNPAID, type CredentialVerdict } from './verdict.ts'

/** `keys` and `settings` are read on each call, since a reload changes them. */
export interface VerifierOptions {
  readonly claims: Claims
  readonly revocations: Revocations
  readonly clock: Clock
  readonly counters: Pick<ChallengeCounters, 'verified'>
  readonly polls: Pick<ChargePolls, 'isPaid'>
  readonly isShared: ChargeSources['isShared']
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}

type Scheme = 'l402' | 'x402' | KnownPayment['kind']

/**
 * Verifies payment credentials. A cached one needs no database and no promise; time, path, price and revocations are
 * compared each time. All else fails closed.
 */
export class Verifier {
  readonly fit: PaymentFit
  readonly tokens: ClassicTokens
  readonly payments: PaymentCredentials
  readonly #x402: X402Credentials
  readonly #settings: VerifierOptions['settings']
  readonly #counters: VerifierOptions['counters']
  #known = new TokenCache()

  constructor(options: VerifierOptions) {
    this.#counters = options.counters
    this.fit = new PaymentFit(options.revocations, options.clock)
    this.tokens = new ClassicTokens(options)
    this.#settings = options.settings
    this.#x402 = new X402Credentials(options, this.fit)
    this.payments = new PaymentCredentials(options, this.fit)
  }

  /** Also what is being verified now: that is remembered by the former cache. */
  forget(): void {
    this.#known = new TokenCache()
  }

  /**
   * Returns a promise only if the database or the body must be read.
   * @throws Unavailable (in the promise) if the database is down: nothing was spent
   */
  verify(ctx: Context, offer: Offer): CredentialVerdict | Promise<CredentialVerdict> {
    const pairs = ctx.headers.pairs
    const raw = soleAuthorization(pairs, offer.keys)
    if (raw === null) {
      const credential = readCredential(pairs, offer.keys, this.#settings().x402Origin !== null)
      if (credential.kind === 'modern' && credential.inOwnField === true) {
        const key = `\nPayment-Authorization:${credential.token}`
        return this.#recall(key, offer) ?? this.#judge(ctx, offer, credential, this.#remembering(key))
      }
      if (credential.kind !== 'classic')
        return credential.kind === 'none' ? UNPAID : this.#judge(ctx, offer, credential, null)
      // Several lines or another header: the cache key cannot collide with a header value.
      const key = `\n${credential.encoding}:${credential.macaroon}:${credential.preimage}`
      return this.#recall(key, offer) ?? this.#judge(ctx, offer, credential, this.#remembering(key))
    }
    const known = this.#recall(raw, offer)
    if (known !== null) return known
    const credential = readAuthorization(raw, offer.keys)
    return credential.kind === 'none' ? UNPAID : this.#judge(ctx, offer, credential, this.#remembering(raw))
  }

  /**
   * Verifies the Payment credential of one call in a JSON-RPC body.
   * @throws Unavailable if the database is down: nothing was spent
   */
  verifyObject(ctx: Context, offer: Offer, credential: unknown): Promise<CredentialVerdict> {
    return this.#countedLater('payment', this.payments.verify(ctx, offer, parsePaymentObject(credential), null))
  }

  /** @throws Unavailable if the database is down, or the payment is not confirmed yet: nothing was spent */
  verifyX402(ctx: Context, offer: Offer, credential: ExactCredential | string): Promise<CredentialVerdict> {
    return this.#countedLater('x402', this.#x402.verify(ctx, offer, credential))
  }

  /**
   * Payment hash that a credential proves, for any offer and state; else null. Claims nothing.
   * @throws Unavailable
   */
  async proven(headers: ReadonlyHeaders): Promise<string | null> {
    const credential = readCredential(headers.pairs, true)
    if (credential.kind === 'classic') {
      const token = this.tokens.genuine(credential)
      return 'kind' in token ? null : token.paymentHash
    }
    if (credential.kind === 'legacy') return paymentHashOf(credential.preimage)
    if (credential.kind !== 'modern') return null
    const session = parseSessionToken(credential.token, credential.inOwnField)
    if (session !== null) {
      if (!session.ok || session.credential.payload.action === 'topUp') return null
      // A session's id is the hash of its holder's preimage.
      const { payload, request } = session.credential
      const id = 'sessionId' in payload ? payload.sessionId : request.paymentHash
      return preimageMatches(payload.preimage, id) ? id : null
    }
    const genuine = await this.payments.genuine(credential)
    return 'kind' in genuine ? null : genuine.challenge.paymentHash
  }

  #recall(key: string, offer: Offer): CredentialVerdict | null {
    const known = this.#known.get(key)
    if (known === undefined) return null
    const verdict = known.kind === 'l402' ? this.tokens.recall(known, offer) : this.payments.recall(known, offer)
    return this.#counted(known.kind, verdict)
  }

  #remembering(key: string): Remember {
    const cache = this.#known
    return known => {
      cache.add(key, known)
    }
  }

  #judge(
    ctx: Context,
    offer: Offer,
    credential: Credential,
    remember: Remember
  ): CredentialVerdict | Promise<CredentialVerdict> {
    switch (credential.kind) {
      case 'none':
        return UNPAID
      case 'classic': {
        const verdict = this.tokens.verify(offer, credential, remember)
        return verdict instanceof Promise ? this.#countedLater('l402', verdict) : this.#counted('l402', verdict)
      }
      case 'modern':
        return this.#countedLater('payment', this.#modern(ctx, offer, credential, remember))
      case 'legacy':
        return this.#countedLater('payment-legacy', this.payments.legacy(ctx, offer, credential.preimage, remember))
      case 'x402':
        return this.verifyX402(ctx, offer, readExactCredential(credential.token))
      case 'malformed':
        return this.#malformed(credential)
    }
  }

  async #modern(
    ctx: Context,
    offer: Offer,
    { token, inOwnField }: Extract<Credential, { kind: 'modern' }>,
    remember: Remember
  ): Promise<CredentialVerdict> {
    const verdict = await this.payments.verify(ctx, offer, parsePaymentToken(token, inOwnField), remember)
    return inOwnField === true && verdict.kind === 'payment' ? asInDraft01(verdict) : verdict
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
          this.payments.off() ??
            paymentRefused(
              credential.inOwnField === true ? 'malformed-credential' : 'invalid-challenge',
              'malformed',
              credential.message
            )
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
