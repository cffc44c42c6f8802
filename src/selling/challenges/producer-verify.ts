import { iso } from '../../engine/formats/iso-time.ts'
import { problemType } from '../../lightning/payment-scheme/payment-problem.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import { checkGrant } from '../../lightning/l402/caveats.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import { readPaymentValue, encodeReceipt } from '../../lightning/payment-scheme/payment-credential.ts'
import { isHex32 } from '../../lightning/codecs/hmac.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { PRODUCER_SERVICE } from './producer.ts'
import {
  ProducerProblem,
  type CredentialInput,
  type VerifyCredentialView,
  type TokenStatus,
  type TokenVerdict
} from './schema.ts'
import type { Claims } from '../holding/claims.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { Verifier } from '../verifying/verify.ts'
import type { Challenge } from '../holding/challenge.ts'
import {
  caveatRefused,
  invalidToken,
  paymentRefused,
  type ClassicRefused,
  type PaymentRefusedVerdict
} from '../verifying/verdict.ts'

export interface ProducerVerifierDependencies {
  readonly claims: Claims
  readonly clock: Clock
  readonly counters: ChallengeCounters
  readonly revocations: Revocations
  readonly verifier: Verifier
  settings(): ChallengeSettings
  publicUrl(): string
}

interface GoodToken {
  readonly challenge: Challenge
  /** The challenge's resource, or less if the holder attenuated the token. */
  readonly resource: string
}

/**
 * Verifies credentials for merchants who serve their resources themselves (contract, Producer API; decisions 106, 107
 * and 109).
 */
export class ProducerVerifier {
  readonly #dependencies: ProducerVerifierDependencies

  constructor(dependencies: ProducerVerifierDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Verifies a classic token, repeatably until it expires. The first verification marks the challenge paid, even an
   * expired one.
   * @throws ProducerProblem 503 without the database, which leaves the token's validity open
   */
  async verify(merchant: Merchant, macaroon: string, preimage: string): Promise<TokenVerdict> {
    const token = await this.#fromDatabase(() => this.#token(merchant, macaroon, preimage.toLowerCase()))
    this.#dependencies.counters.verified('l402', 'kind' in token ? token.reason : 'ok')
    if ('kind' in token) return { valid: false, error: token.detail }
    const { paymentHash, amountSats } = token.challenge
    return { valid: true, resource: token.resource, merchantId: merchant.id, amountSats, paymentHash }
  }

  /**
   * Consumes a modern credential: exactly one call gets valid.
   * @throws ProducerProblem 503 without the database; the same call may be repeated
   */
  async consume(merchant: Merchant, input: CredentialInput): Promise<VerifyCredentialView> {
    const { clock, counters } = this.#dependencies
    const consumed = await this.#fromDatabase(() => this.#consume(merchant, input))
    counters.verified('payment', 'kind' in consumed ? consumed.reason : 'ok')
    if ('kind' in consumed)
      return {
        valid: false,
        consumed: false,
        error: consumed.detail,
        type: problemType(consumed.slug)
      }
    const { paymentHash, resource, amountSats, payment } = consumed
    const receipt = encodeReceipt(payment?.id ?? '', paymentHash, Math.floor(clock.now() / 1000))
    return { valid: true, consumed: true, resource, merchantId: merchant.id, amountSats, paymentHash, receipt }
  }

  /** The request carries a valid classic token; path, price and merchant are not compared (decision 128). */
  async status(headers: ReadonlyHeaders): Promise<TokenStatus> {
    const { tokens } = this.#dependencies.verifier
    const credential = readCredential(headers.pairs)
    if (credential.kind === 'malformed') return { authenticated: false, message: credential.message }
    if (credential.kind !== 'classic') return { authenticated: false, message: 'No L402 credential was sent' }
    const token = this.#classicOff() ?? tokens.genuine(credential)
    if ('kind' in token) return { authenticated: false, message: token.detail }
    let refused: ClassicRefused | null
    try {
      refused = await tokens.standing(token)
    } catch (error) {
      // The response is always 200 (decision 128).
      if (!(error instanceof Unavailable)) throw error
      return { authenticated: false, message: 'The token cannot be looked up at the moment' }
    }
    if (refused !== null) return { authenticated: false, message: refused.detail }
    // A token without an expiry has failed above.
    const expires = token.grant.expires ?? 0
    return {
      authenticated: true,
      paymentHash: token.paymentHash,
      expiresAt: iso(expires * 1000),
      remainingRequests: null
    }
  }

  async #token(merchant: Merchant, macaroon: string, preimage: string): Promise<GoodToken | ClassicRefused> {
    const { claims, clock, verifier } = this.#dependencies
    const off = this.#classicOff()
    if (off !== null) return off
    if (!isHex32(preimage)) return invalidToken('malformed', 'The preimage must be exactly 64 hex characters')
    const token = verifier.tokens.genuine({ kind: 'classic', encoding: 'base64', macaroon, preimage })
    if ('kind' in token) return token
    const { grant, paymentHash } = token
    const challenge = await claims.find(paymentHash)
    const resource = grant.path ?? ''
    const failure = checkGrant(
      grant,
      {
        service: PRODUCER_SERVICE,
        path: resource,
        merchantId: String(merchant.id),
        chargeId: challenge?.chargeId ?? null,
        amountSats: challenge?.amountSats ?? grant.amountSats ?? 0
      },
      clock.now() / 1000
    )
    if (failure !== null) return caveatRefused(failure)
    if (challenge === null || !sold(challenge, merchant))
      return invalidToken('unknown-challenge', 'The payment of this token is not known')
    const refused = await verifier.tokens.standing(token)
    if (refused !== null) return refused
    const claimed = await verifier.tokens.claim(token)
    return 'kind' in claimed ? claimed : { challenge: claimed, resource }
  }

  async #consume(merchant: Merchant, input: CredentialInput): Promise<Challenge | PaymentRefusedVerdict> {
    const { claims, revocations, verifier } = this.#dependencies
    const read = readPaymentValue(input.credential.trim().replace(/^payment[ \t]+/i, ''))
    if (read.kind !== 'modern') {
      return paymentRefused(
        'invalid-challenge',
        'malformed',
        read.kind === 'malformed' ? read.message : 'Only a Payment credential of one base64url token can be consumed'
      )
    }
    const genuine = await verifier.payments.genuine(read)
    if ('kind' in genuine) return genuine
    const { challenge } = genuine
    if (challenge.merchantId !== String(merchant.id))
      return paymentRefused('verification-failed', 'merchant', 'The challenge belongs to another merchant')
    if (!sold(challenge, merchant))
      return paymentRefused('verification-failed', 'service', 'The challenge was not made through the producer API')
    if (verifier.fit.expired(challenge))
      return paymentRefused('verification-failed', 'expired', 'The challenge has expired')
    if (input.resource !== undefined && input.resource !== challenge.resource) {
      return paymentRefused('verification-failed', 'path', 'The challenge was made for another resource')
    }
    if (input.amountSats !== undefined && input.amountSats !== challenge.amountSats) {
      return paymentRefused(
        'payment-insufficient',
        'amount',
        `The challenge was made for ${challenge.amountSats} satoshis, not ${input.amountSats}`
      )
    }
    if (revocations.covers(challenge))
      return paymentRefused('verification-failed', 'revoked', 'The challenge has been revoked')
    return (await claims.consume(challenge.paymentHash, challenge.merchantId))
      ? challenge
      : verifier.fit.taken(await claims.find(challenge.paymentHash))
  }

  #classicOff(): ClassicRefused | null {
    return this.#dependencies.settings().schemes.includes('l402')
      ? null
      : invalidToken('disabled', 'L402 is not enabled on this server')
  }

  async #fromDatabase<T>(step: () => Promise<T>): Promise<T> {
    try {
      return await step()
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      throw new ProducerProblem(`${this.#dependencies.publicUrl()}/problems`, 'service-unavailable', error.message, {
        retryAfter: Number(error.headers[1] ?? 5),
        cause: error
      })
    }
  }
}

/** A store may also be named `producer`, so the service alone does not tell the challenge's source. */
function sold(challenge: Challenge, merchant: Merchant): boolean {
  return challenge.source === 'producer' && challenge.merchantId === String(merchant.id)
}
