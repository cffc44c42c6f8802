import type { GatewayConfig } from '../../engine/config/schema.ts'
import { GatewayError, Unavailable } from '../../engine/operations/errors.ts'
import { readFilterTime, iso } from '../../engine/formats/iso-time.ts'
import { serviceCaveat } from '../../lightning/l402/caveats.ts'
import { isHex32 } from '../../lightning/codecs/hmac.ts'
import { overCap, monthStart, planCaps } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { isConnectionFault, type Database, type Sql } from '../../platform/database/database.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import { UNROUTED, type Offer } from '../offers/offer.ts'
import {
  ProducerProblem,
  challengeAt,
  isPayableAt,
  MAX_KEY_CHARS,
  type ChallengeInput,
  type ChallengePage,
  type ChallengeQuery,
  type ChallengeView,
  type CreatedChallenge,
  type EndpointPage,
  type EndpointQuery
} from './schema.ts'
import { countEndpoints } from '../../accounts/merchants/holdings.ts'
import { ProducerStore } from './producer-store.ts'
import { paymentLine } from '../minting/replies.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Minting } from '../minting/minting.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { Challenge, NewChallenge, SentChallenge } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'
import { sentAgain } from '../minting/wording.ts'

/** Services caveat of producers' tokens (decision 113). */
export const PRODUCER_SERVICE = serviceCaveat('producer')

export interface ProducerDependencies {
  readonly challengeStore: Pick<ChallengeStore, 'insert'>
  readonly minting: Minting
  readonly revocations: Revocations
  readonly database: Database
  readonly clock: Clock
  config(): Pick<GatewayConfig, 'plans'>
  keys(): TokenKeyRing
  settings(): ChallengeSettings
  publicUrl(): string
  /** Undeleted proxies of a merchant, which count for the same cap (decision 84). */
  countProxies(sql: Sql, merchantId: number): Promise<number>
}

/** `replayed`: its idempotency key had made it before. */
export interface Created {
  readonly body: CreatedChallenge
  readonly replayed: boolean
}

interface CreateRequest {
  readonly resource: string
  readonly priceSats: number
  readonly description: string
  readonly key: string | null
}

interface Found {
  readonly challenge: SentChallenge
  readonly replayed: boolean
}

/** Another create bound the key while this one waited for its invoice. */
class KeyTaken extends Error {}

/**
 * Challenges for resources that merchants serve themselves (contract, Producer API; decisions 84 to 87 and 101 to 110).
 * Errors are problems of `{publicUrl}/problems`; a database outage is 503.
 */
export class Producer {
  readonly #dependencies: ProducerDependencies
  readonly #store: ProducerStore
  /** Creates of this process by their key, so that repeats share one invoice and one failure. */
  readonly #running = new Map<string, Promise<Found>>()

  constructor(dependencies: ProducerDependencies) {
    this.#dependencies = dependencies
    this.#store = new ProducerStore(dependencies.database)
  }

  /** Decision 103. */
  get problemBase(): string {
    return `${this.#dependencies.publicUrl()}/problems`
  }

  /**
   * Makes a challenge, or returns the idempotency key's. @param headerKey takes precedence over the body's
   * @throws ProblemError 400, 402, 409, 503
   */
  async create(merchant: Merchant, input: ChallengeInput, headerKey: string | null): Promise<Created> {
    const { resource, priceSats } = input
    const request: CreateRequest = {
      resource,
      priceSats,
      description: plain(input.description ?? '') || resource,
      key: this.#key(headerKey ?? input.idempotencyKey ?? null)
    }
    if (request.key === null) return this.#created(await this.#make(merchant, request), false)
    const slot = JSON.stringify([merchant.id, request.key, resource, priceSats])
    for (let running = this.#running.get(slot); running !== undefined; running = this.#running.get(slot)) {
      const { challenge } = await running
      // It may have been revoked since this request came.
      if (!this.#dependencies.revocations.covers(challenge)) return this.#created(challenge, true)
    }
    const found = this.#find(merchant, request)
    this.#running.set(slot, found)
    try {
      const { challenge, replayed } = await found
      return this.#created(challenge, replayed)
    } finally {
      this.#running.delete(slot)
    }
  }

  async list(merchant: Merchant, query: ChallengeQuery): Promise<ChallengePage> {
    const { clock } = this.#dependencies
    const page = clamped(query)
    const now = clock.now()
    const since = query.since === undefined ? null : this.#time(query.since)
    const status = query.status ?? null
    const { rows, total } = await this.#fromDatabase(() =>
      this.#store.list(merchant.id, { ...page, status, since, now })
    )
    return {
      challenges: rows.map(row => challengeAt(row, now)),
      total,
      ...page,
      status,
      since: iso(since)
    }
  }

  /** @throws ProducerProblem 404 if unknown or another merchant's */
  async get(merchant: Merchant, paymentHash: string): Promise<ChallengeView> {
    const row = isHex32(paymentHash) ? await this.#fromDatabase(() => this.#store.get(merchant.id, paymentHash)) : null
    if (row === null)
      throw new ProducerProblem(
        this.problemBase,
        'challenge-not-found',
        'This account has no challenge with this payment hash.'
      )
    return challengeAt(row, this.#dependencies.clock.now())
  }

  async endpoints(merchant: Merchant, query: EndpointQuery): Promise<EndpointPage> {
    const page = clamped(query)
    const { rows, total } = await this.#fromDatabase(() => this.#store.endpoints(merchant.id, page))
    return {
      endpoints: rows.map(row => ({
        resource: row.resource,
        createdAt: iso(row.createdAt),
        retiredAt: iso(row.retiredAt)
      })),
      total,
      ...page
    }
  }

  /** Ends new challenges for a resource and frees its place under the cap. Paid tokens stay valid. */
  async retire(merchant: Merchant, resource: string): Promise<void> {
    const now = this.#dependencies.clock.now()
    const known =
      resource.isWellFormed() && (await this.#fromDatabase(() => this.#store.retire(merchant.id, resource, now)))
    if (!known)
      throw new ProducerProblem(
        this.problemBase,
        'endpoint-not-found',
        'This account has made no challenge for this resource.'
      )
  }

  #key(key: string | null): string | null {
    if (key === null) return null
    const fault =
      key.trim() === ''
        ? 'The idempotency key is blank.'
        : [...key].length > MAX_KEY_CHARS
          ? `The idempotency key must not exceed ${MAX_KEY_CHARS} characters.`
          : /\p{Cc}/u.test(key) || !key.isWellFormed()
            ? 'The idempotency key holds a control character.'
            : null
    if (fault !== null) throw new ProducerProblem(this.problemBase, 'invalid-idempotency-key', fault)
    return key
  }

  /**
   * The live challenge of the key; null if it is free.
   * @throws ProducerProblem 409 if it was made for something else
   */
  async #bound(merchant: Merchant, request: CreateRequest): Promise<SentChallenge | null> {
    const bound = await this.#store.byKey(this.#dependencies.database.sql, merchant.id, request.key ?? '')
    const held = bound === null ? null : this.#held(bound)
    if (held === null) return null
    if (held.resource === request.resource && held.amountSats === request.priceSats) return held
    throw new ProducerProblem(
      this.problemBase,
      'idempotency-conflict',
      'The idempotency key is bound to a live challenge for another resource or price.'
    )
  }

  /** A bound challenge that can still be paid: invoice and keys are live, and it is not revoked. */
  #held(challenge: Challenge): SentChallenge | null {
    const { clock, keys, revocations } = this.#dependencies
    return isPayableAt(challenge, clock.now()) && !revocations.covers(challenge) ? sentAgain(challenge, keys()) : null
  }

  /** Finds or makes the challenge of a key. */
  async #find(merchant: Merchant, request: CreateRequest): Promise<Found> {
    for (;;) {
      const bound = await this.#recorded(() => this.#bound(merchant, request))
      if (bound !== null) return { challenge: bound, replayed: true }
      try {
        return { challenge: await this.#make(merchant, request), replayed: false }
      } catch (error) {
        if (!(error instanceof KeyTaken)) throw error
      }
    }
  }

  async #make(merchant: Merchant, request: CreateRequest): Promise<SentChallenge> {
    const { database, minting } = this.#dependencies
    // Without a lock first, so that a reached cap costs no invoice; the check under the lock decides.
    await this.#recorded(() => this.#check(database.sql, merchant, request))
    try {
      const { challenge } = await minting.mint(this.#offer(merchant, request), {
        clientKey: `merchant:${merchant.id}`,
        digest: null,
        idempotencyKey: request.key,
        uncapped: true,
        record: made => this.#recorded(() => database.transaction(tx => this.#record(tx, merchant, request, made)))
      })
      return challenge
    } catch (error) {
      if (error instanceof ProviderKeyRequired)
        throw new ProducerProblem(
          this.problemBase,
          'provider-key-required',
          'Save a key for the payment provider first: there is no account to receive the payment.'
        )
      if (error instanceof Unavailable)
        throw new ProducerProblem(this.problemBase, 'provider-unavailable', error.message, {
          retryAfter: Number(error.headers[1] ?? 5),
          cause: error
        })
      throw error
    }
  }

  async #record(tx: Sql, merchant: Merchant, request: CreateRequest, made: NewChallenge): Promise<void> {
    const store = this.#store
    await store.lock(tx, merchant.id)
    if (request.key !== null) {
      const bound = await store.byKey(tx, merchant.id, request.key)
      if (bound !== null && this.#held(bound) !== null) throw new KeyTaken()
    }
    await this.#check(tx, merchant, request)
    await this.#dependencies.challengeStore.insert(tx, made)
    await store.addEndpoint(tx, merchant.id, request.resource, made.createdAt)
    if (request.key !== null) await store.bindKey(tx, merchant.id, request.key, made.paymentHash)
  }

  /**
   * The plan's caps and retired resources (decisions 84, 85, 87 and 102).
   * @throws ProblemError 402, 409
   */
  async #check(sql: Sql, merchant: Merchant, request: CreateRequest): Promise<void> {
    const { clock } = this.#dependencies
    const caps = planCaps(this.#dependencies.config().plans, merchant.tier, merchant.caps)
    const base = this.problemBase
    const tooDear = overCap('price', merchant, caps, { current: 0, requested: request.priceSats }, base)
    if (tooDear !== null) throw tooDear
    const endpoint = await this.#store.endpoint(sql, merchant.id, request.resource)
    if (endpoint !== null && endpoint.retiredAt !== null)
      throw new ProducerProblem(base, 'endpoint-retired', `This resource was retired at ${iso(endpoint.retiredAt)}.`)
    if (caps.challengesPerMonth !== null) {
      const current = await this.#store.countSince(sql, merchant.id, monthStart(clock.now()))
      const tooMany = overCap('monthly', merchant, caps, { current, requested: 1 }, base)
      if (tooMany !== null) throw tooMany
    }
    if (endpoint === null && caps.endpoints !== null) {
      const current =
        (await countEndpoints(sql, merchant.id)) + (await this.#dependencies.countProxies(sql, merchant.id))
      const tooMany = overCap('endpoint', merchant, caps, { current, requested: 1 }, base)
      if (tooMany !== null) throw tooMany
    }
  }

  #offer(merchant: Merchant, request: CreateRequest): Offer {
    const { tokenValidity, invoiceExpiry } = this.#dependencies.settings()
    return {
      amountSats: request.priceSats,
      source: 'producer',
      service: PRODUCER_SERVICE,
      merchantId: String(merchant.id),
      proxyId: null,
      place: `producer:${merchant.id}`,
      path: request.resource,
      tokenPath: request.resource,
      wildcard: request.resource.endsWith('/*'),
      // The producer serves any method.
      method: '*',
      query: '',
      tokenValiditySeconds: Math.max(1, Math.floor(tokenValidity / 1000)),
      invoiceExpirySeconds: Math.max(1, Math.floor(invoiceExpiry / 1000)),
      description: request.description,
      payee: 'merchant',
      ...UNROUTED
    }
  }

  #created(challenge: SentChallenge, replayed: boolean): Created {
    const { invoice, macaroon, paymentHash, expiresAt, resource, amountSats } = challenge
    const line = this.#dependencies.settings().schemes.includes('payment') ? paymentLine(challenge) : null
    const body = { invoice, macaroon, paymentHash, expiresAt: iso(expiresAt), resource, priceSats: amountSats }
    return { body: line === null ? body : { ...body, mppChallenge: line }, replayed }
  }

  #time(text: string): number {
    const time = readFilterTime(text)
    if (time === null) {
      const detail = 'Since: it must be an ISO 8601 time such as 2026-11-21T00:54:00Z.'
      throw new ProducerProblem(this.problemBase, 'invalid-request', detail, {
        errors: { Since: ['Must be an ISO 8601 time.'] }
      })
    }
    return time
  }

  /** A failure to record is 503, and no challenge was issued (contract, Errors). */
  #recorded<T>(step: () => Promise<T>): Promise<T> {
    return this.#or('challenge-not-recorded', 'The challenge could not be durably recorded, so none was issued.', step)
  }

  #fromDatabase<T>(step: () => Promise<T>): Promise<T> {
    return this.#or('service-unavailable', 'The database cannot be asked at the moment.', step)
  }

  async #or<T>(
    slug: 'challenge-not-recorded' | 'service-unavailable',
    detail: string,
    step: () => Promise<T>
  ): Promise<T> {
    try {
      return await step()
    } catch (error) {
      if (error instanceof GatewayError || error instanceof KeyTaken) throw error
      // Recording fails by 503 only; a failed read with the database up is a bug.
      if (slug === 'service-unavailable' && !isConnectionFault(error)) throw error
      throw new ProducerProblem(this.problemBase, slug, detail, { cause: error })
    }
  }
}

function clamped(query: { readonly limit?: number; readonly offset?: number }): { limit: number; offset: number } {
  return { limit: Math.min(200, Math.max(1, query.limit ?? 50)), offset: Math.max(0, query.offset ?? 0) }
}

/** Removes control characters, which the database and wallets refuse. */
function plain(text: string): string {
  return text
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
}
