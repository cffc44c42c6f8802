import type { Claims } from '../selling/holding/claims.ts'
import type { ChallengeCounters } from '../selling/holding/counters.ts'
import type { ChallengeSettings } from '../selling/offers/settings.ts'
import type { Revocations } from '../selling/verifying/revocations.ts'
import type { Verifier } from '../selling/verifying/verify.ts'
import type { Challenge, ClaimScheme } from '../selling/holding/challenge.ts'
import type { ReadonlyHeaders } from '../engine/message/headers.ts'
import { checkGrant, serviceCaveat } from '../lightning/l402/caveats.ts'
import { readCredential, type Credential } from '../lightning/codecs/credential.ts'
import { paymentHashOf } from '../lightning/codecs/hmac.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Integration } from './schema.ts'

export type ShopCredential =
  | { readonly kind: 'none' }
  /** The challenge's invoice was paid. `challengeId`: for the receipt of a Payment credential. */
  | { readonly kind: 'paid'; readonly challenge: Challenge; readonly challengeId: string | null }
  /**
   * `form`: malformed; `disabled`: scheme is disabled; `failed`: forged, or for another store; `unknown`: valid, but of
   * no known payment.
   */
  | (Refused & { readonly scheme: ClaimScheme })

interface Refused {
  readonly kind: 'refused'
  readonly reason: 'form' | 'disabled' | 'failed' | 'unknown'
  /** Printable ASCII. */
  readonly detail: string
}

type Judged = Exclude<ShopCredential, { kind: 'refused' }> | Refused

/** The place of a store's challenges, for the cap on open invoices (decision 132). */
export function placeOf(storefrontId: number): string {
  return `store:${storefrontId}`
}

/** The path of an order's token, and the prefix of the paths it is valid for (decision 114). */
export function tokenPathOf(slug: string): string {
  return `/api/storefront/${slug}/*`
}

export interface ShopCredentialsOptions {
  readonly claims: Claims
  readonly clock: Clock
  readonly counters: ChallengeCounters
  readonly revocations: Revocations
  readonly verifier: Verifier
  settings(): ChallengeSettings
}

/**
 * Reads payment credentials of checkout retries and claims (contract, Authentication 4; decision 137). Nothing is
 * leased: the order is what is spent, so every profile may be repeated. The preimage proves the payment while the order
 * can be claimed, so a Payment credential is not refused for its invoice's age; a macaroon carries the end of the claim
 * window (decision 136).
 */
export class ShopCredentials {
  readonly #options: ShopCredentialsOptions

  constructor(options: ShopCredentialsOptions) {
    this.#options = options
  }

  /**
   * Judges the request's credential for `action` of a store.
   * @throws Unavailable without a database
   */
  async read(
    headers: ReadonlyHeaders,
    store: Pick<Integration, 'id' | 'slug' | 'merchantId'>,
    action: 'checkout' | 'claim'
  ): Promise<ShopCredential> {
    const credential = readCredential(headers.pairs)
    if (credential.kind === 'none') return { kind: 'none' }
    const scheme = schemeOf(credential)
    const judged = await this.#judge(credential, scheme, store, action)
    this.#options.counters.verified(scheme, judged.kind === 'refused' ? judged.reason : 'ok')
    return judged.kind === 'refused' ? { ...judged, scheme } : judged
  }

  async #judge(
    credential: Exclude<Credential, { kind: 'none' }>,
    scheme: ClaimScheme,
    store: Pick<Integration, 'id' | 'slug' | 'merchantId'>,
    action: string
  ): Promise<Judged> {
    if (!this.#options.settings().schemes.includes(scheme === 'l402' ? 'l402' : 'payment')) {
      return refused(
        'disabled',
        scheme === 'l402'
          ? 'L402 is not enabled on this server'
          : 'Payment credentials are disabled on this server; use L402'
      )
    }
    switch (credential.kind) {
      case 'malformed':
        return refused('form', credential.message)
      // Without a macaroon the preimage finds the order (contract, Checkout request rules).
      case 'classic':
        if (credential.macaroon === '')
          return this.#ofStore(
            await this.#options.claims.find(paymentHashOf(credential.preimage)),
            store,
            null,
            'unknown'
          )
        return await this.#classic(credential, store, action)
      case 'legacy':
        return this.#ofStore(
          await this.#options.claims.find(paymentHashOf(credential.preimage)),
          store,
          null,
          'unknown'
        )
      case 'modern':
        return await this.#modern(credential, store)
      case 'x402':
        return refused('form', 'A store sells by L402 and Payment')
    }
  }

  async #classic(
    credential: Extract<Credential, { kind: 'classic' }>,
    store: Pick<Integration, 'id' | 'slug' | 'merchantId'>,
    action: string
  ): Promise<Judged> {
    const { verifier } = this.#options
    const token = verifier.tokens.genuine(credential)
    if ('kind' in token) return refused('failed', token.detail)
    const fallen = await verifier.tokens.standing(token)
    if (fallen !== null) return refused('failed', fallen.detail)
    const challenge = await this.#options.claims.find(token.paymentHash)
    // Checks every caveat, also for an unknown payment: a credential of another place is reported as such.
    const failure = checkGrant(
      token.grant,
      {
        service: serviceCaveat(store.slug),
        path: tokenPathOf(store.slug).replace('*', action),
        merchantId: String(store.merchantId),
        chargeId: challenge?.chargeId ?? null,
        amountSats: challenge?.amountSats ?? token.grant.amountSats ?? 0
      },
      this.#options.clock.now() / 1000
    )
    if (failure !== null) return refused('failed', failure.message)
    if (challenge !== null && challenge.tokenId !== token.tokenId)
      return refused('failed', 'The token is not the one of this payment')
    return this.#ofStore(challenge, store, null, 'unknown')
  }

  async #modern(credential: Extract<Credential, { kind: 'modern' }>, store: Pick<Integration, 'id'>): Promise<Judged> {
    const genuine = await this.#options.verifier.payments.genuine(credential)
    if ('kind' in genuine) return refused(genuine.reason === 'malformed' ? 'form' : 'failed', genuine.detail)
    return this.#ofStore(genuine.challenge, store, genuine.credential.id, 'failed')
  }

  #ofStore(
    challenge: Challenge | null,
    store: Pick<Integration, 'id'>,
    challengeId: string | null,
    otherwise: 'failed' | 'unknown'
  ): Judged {
    if (challenge === null || challenge.source !== 'storefront' || challenge.place !== placeOf(store.id))
      return refused(otherwise, 'This payment is not one of an order of this store')
    if (this.#options.revocations.covers(challenge)) return refused('failed', 'The credential has been revoked')
    return { kind: 'paid', challenge, challengeId }
  }
}

function schemeOf(credential: Exclude<Credential, { kind: 'none' }>): ClaimScheme {
  const profile = credential.kind === 'malformed' ? credential.profile : credential.kind
  return profile === 'modern' ? 'payment' : profile === 'legacy' ? 'payment-legacy' : 'l402'
}

function refused(reason: Refused['reason'], detail: string): Refused {
  return { kind: 'refused', reason, detail }
}
