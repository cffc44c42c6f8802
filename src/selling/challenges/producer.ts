import type { GatewayConfig } from '../../engine/config/schema.ts'
import { GatewayError, Unavailable } from '../../engine/operations/errors.ts'
import { readFilterTime } from '../../engine/formats/iso-time.ts'
import { serviceCaveat } from '../../lightning/l402/caveats.ts'
import { isHex32 } from '../../lightning/codecs/preimage.ts'
import { overCap } from '../../accounts/merchants/plan-caps.ts'
import { monthStart, planCaps } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { isConnectionFault, type Database, type Sql } from '../../platform/database/database.ts'
import { ProviderKeyRequired } from '../../lightning/provider-calls/errors.ts'
import { UNROUTED, type Offer } from '../offers/offer.ts'
import { ProducerProblem } from './problems.ts'
import { countEndpoints } from '../../accounts/merchants/holdings.ts'
import type { ProducerStore } from './producer-store.ts'
import { paymentLine } from '../minting/replies.ts'
import {
  MAX_KEY_CHARS,
  type ChallengeInput,
  type ChallengePage,
  type ChallengeQuery,
  type ChallengeStatus,
  type ChallengeView,
  type CreatedChallenge,
  type EndpointPage,
  type EndpointQuery
} from './schema.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Minting } from '../minting/minting.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { Challenge, NewChallenge, SentChallenge } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'
import { sentAgain } from '../minting/wording.ts'

/** Value of the services caveat of producers' tokens (decision 113). */
export const PRODUCER_SERVICE = serviceCaveat('producer')

/** What the producer API is built from. */
export interface ProducerParts {
  readonly challengeStore: Pick<ChallengeStore, 'insert'>
  readonly minting: Minting
  readonly revocations: Revocations
  readonly store: ProducerStore
  readonly database: Database
  readonly clock: Clock
  config(): Pick<GatewayConfig, 'plans'>
  keys(): TokenKeyRing
  settings(): ChallengeSettings
  publicUrl(): string
  /** Proxies of a merchant that are not deleted; they count for the same cap (decision 84). */
  countProxies(sql: Sql, merchantId: number): Promise<number>
}

/** A created challenge, and whether its idempotency key had made it before. */
export interface Created {
  readonly body: CreatedChallenge
  readonly replayed: boolean
}

interface Wish {
  readonly resource: string
  readonly priceSats: number
  readonly description: string
  readonly key: string | null
}

interface Found {
  readonly challenge: SentChallenge
  /** The key had it before. */
  readonly replayed: boolean
}

interface Running {
  readonly wish: Wish
  readonly found: Promise<Found>
}

/** Another process has bound the key while this one asked for an invoice. */
class KeyTaken extends Error {}

/**
 * Challenges for resources that merchants serve themselves (contract, Producer API; decisions 84 to 87 and 101 to 110).
 * All errors are problems of `{publicUrl}/problems`, a database that is away 503.
 */
export class Producer {
  readonly #parts: ProducerParts
  // Creates under way by merchant and key: those that come meanwhile wait, instead of asking for invoices that nobody
  // gets. The look for the key's challenge is part of it: one made outside could answer only after the create that it
  // did not see had ended.
  readonly #running = new Map<string, Running>()

  constructor(parts: ProducerParts) {
    this.#parts = parts
  }

  /** Base of the problem types (decision 103). */
  get problemBase(): string {
    return `${this.#parts.publicUrl()}/problems`
  }

  /**
   * Makes a challenge, or gives the one that the idempotency key has already made.
   * @param headerKey of the request's header, which goes before the body's; null when there is none
   * @throws ProblemError 400, 402, 409, 503
   */
  async create(merchant: Merchant, input: ChallengeInput, headerKey: string | null): Promise<Created> {
    const { resource, priceSats } = input
    const wish: Wish = {
      resource,
      priceSats,
      description: plain(input.description ?? '') || resource,
      key: this.#key(headerKey ?? input.idempotencyKey ?? null)
    }
    if (wish.key === null) return this.#created(await this.#make(merchant, wish, null), false)
    const slot = `${merchant.id} ${wish.key}`
    for (;;) {
      const running = this.#running.get(slot)
      if (running === undefined) {
        const found = await this.#lead(slot, merchant, wish)
        if (found !== null) return this.#created(found.challenge, found.replayed)
      } else if (running.wish.resource === resource && running.wish.priceSats === priceSats) {
        // Its failure is ours too: what it was refused, we would be refused.
        const found = await running.found.catch(keyTaken)
        if (found !== null) return this.#created(found.challenge, true)
      } else {
        await running.found.catch(() => null) // Only waited for; the next look says whether it stands.
      }
    }
  }

  /** A page of the merchant's challenges. */
  async list(merchant: Merchant, query: ChallengeQuery): Promise<ChallengePage> {
    const { clock, store } = this.#parts
    const page = clamped(query)
    const now = clock.now()
    const since = query.since === undefined ? null : this.#time(query.since)
    const status = query.status ?? null
    const { rows, total } = await this.#asked(() => store.list(merchant.id, { ...page, status, since, now }))
    return {
      challenges: rows.map(row => view(row, now)),
      total,
      ...page,
      status,
      since: since === null ? null : new Date(since).toISOString()
    }
  }

  /** One challenge. @throws ProducerProblem 404 for an unknown one and for another merchant's alike */
  async get(merchant: Merchant, paymentHash: string): Promise<ChallengeView> {
    const { clock, store } = this.#parts
    const row = isHex32(paymentHash) ? await this.#asked(() => store.get(merchant.id, paymentHash)) : null
    if (row === null)
      throw new ProducerProblem(
        this.problemBase,
        'challenge-not-found',
        'This account has no challenge with this payment hash.'
      )
    return view(row, clock.now())
  }

  /** The merchant's resources, retired ones included. */
  async endpoints(merchant: Merchant, query: EndpointQuery): Promise<EndpointPage> {
    const page = clamped(query)
    const { rows, total } = await this.#asked(() => this.#parts.store.endpoints(merchant.id, page))
    return {
      endpoints: rows.map(row => ({
        resource: row.resource,
        createdAt: iso(row.createdAt),
        retiredAt: row.retiredAt === null ? null : iso(row.retiredAt)
      })),
      total,
      ...page
    }
  }

  /** Ends a resource: no more challenges for it, and its place under the cap is free. What was paid stays good. */
  async retire(merchant: Merchant, resource: string): Promise<void> {
    const { clock, store } = this.#parts
    const known = resource.isWellFormed() && (await this.#asked(() => store.retire(merchant.id, resource, clock.now())))
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
   * The live challenge of the wish's key; null when it is free. @throws ProducerProblem 409 when it was made for
   * something else
   */
  async #bound(merchant: Merchant, wish: Wish): Promise<SentChallenge | null> {
    const bound = await this.#parts.store.byKey(this.#parts.database.sql, merchant.id, wish.key ?? '')
    const held = bound === null ? null : this.#held(bound)
    if (held === null) return null
    if (held.resource === wish.resource && held.amountSats === wish.priceSats) return held
    throw new ProducerProblem(
      this.problemBase,
      'idempotency-conflict',
      'The idempotency key is bound to a live challenge for another resource or price.'
    )
  }

  /** A bound challenge that is still worth paying: its invoice lives, so do its keys, and it is not revoked. */
  #held(challenge: Challenge): SentChallenge | null {
    const { clock, keys, revocations } = this.#parts
    return live(challenge, clock.now()) && !revocations.covers(challenge) ? sentAgain(challenge, keys()) : null
  }

  /** Finds or makes the challenge of a key; null when another process was quicker. */
  async #lead(slot: string, merchant: Merchant, wish: Wish): Promise<Found | null> {
    const found = this.#find(merchant, wish)
    this.#running.set(slot, { wish, found })
    try {
      return await found.catch(keyTaken)
    } finally {
      this.#running.delete(slot)
    }
  }

  async #find(merchant: Merchant, wish: Wish): Promise<Found> {
    const before = await this.#recorded(() => this.#bound(merchant, wish))
    return before === null
      ? { challenge: await this.#make(merchant, wish, wish.key), replayed: false }
      : { challenge: before, replayed: true }
  }

  async #make(merchant: Merchant, wish: Wish, key: string | null): Promise<SentChallenge> {
    const { database, minting } = this.#parts
    // Once without a lock, so that what the caps refuse costs no invoice; what counts is the look under the lock.
    await this.#recorded(() => this.#check(database.sql, merchant, wish))
    try {
      const { challenge } = await minting.mint(this.#offer(merchant, wish), {
        clientKey: `merchant:${merchant.id}`,
        digest: null,
        idempotencyKey: key,
        uncapped: true,
        record: made => this.#recorded(() => database.transaction(tx => this.#record(tx, merchant, wish, made)))
      })
      return challenge
    } catch (error) {
      if (error instanceof ProviderKeyRequired)
        throw new ProducerProblem(
          this.problemBase,
          'provider-key-required',
          'Save a key for the payment provider first; nobody would be paid.'
        )
      if (error instanceof Unavailable)
        throw new ProducerProblem(this.problemBase, 'provider-unavailable', error.message, {
          retryAfter: Number(error.headers[1] ?? 5),
          cause: error
        })
      throw error
    }
  }

  /** All that a challenge needs to be counted and found again, or nothing. */
  async #record(tx: Sql, merchant: Merchant, wish: Wish, made: NewChallenge): Promise<void> {
    const { challengeStore, store } = this.#parts
    await store.lock(tx, merchant.id)
    if (wish.key !== null) {
      const bound = await store.byKey(tx, merchant.id, wish.key)
      if (bound !== null && this.#held(bound) !== null) throw new KeyTaken()
    }
    await this.#check(tx, merchant, wish)
    await challengeStore.insert(tx, made)
    await store.addEndpoint(tx, merchant.id, wish.resource, made.createdAt)
    if (wish.key !== null) await store.bindKey(tx, merchant.id, wish.key, made.paymentHash)
  }

  /** The plan's caps and retired resources (decisions 84, 85, 87 and 102). @throws ProblemError 402, 409 */
  async #check(sql: Sql, merchant: Merchant, wish: Wish): Promise<void> {
    const { store, clock } = this.#parts
    const caps = planCaps(this.#parts.config().plans, merchant.tier)
    const base = this.problemBase
    const tooDear = overCap('price', merchant, caps, { current: 0, requested: wish.priceSats }, base)
    if (tooDear !== null) throw tooDear
    const endpoint = await store.endpoint(sql, merchant.id, wish.resource)
    if (endpoint !== null && endpoint.retiredAt !== null)
      throw new ProducerProblem(base, 'endpoint-retired', `This resource was retired at ${iso(endpoint.retiredAt)}.`)
    if (caps.challengesPerMonth !== null) {
      const current = await store.countSince(sql, merchant.id, monthStart(clock.now()))
      const tooMany = overCap('monthly', merchant, caps, { current, requested: 1 }, base)
      if (tooMany !== null) throw tooMany
    }
    if (endpoint === null && caps.endpoints !== null) {
      const current = (await countEndpoints(sql, merchant.id)) + (await this.#parts.countProxies(sql, merchant.id))
      const tooMany = overCap('endpoint', merchant, caps, { current, requested: 1 }, base)
      if (tooMany !== null) throw tooMany
    }
  }

  #offer(merchant: Merchant, wish: Wish): Offer {
    const { tokenValidity, invoiceExpiry } = this.#parts.settings()
    return {
      amountSats: wish.priceSats,
      source: 'producer',
      service: PRODUCER_SERVICE,
      merchantId: String(merchant.id),
      proxyId: null,
      place: `producer:${merchant.id}`,
      path: wish.resource,
      tokenPath: wish.resource,
      wildcard: wish.resource.endsWith('/*'),
      // The producer serves the resource itself; which method it is asked with is not known here.
      method: '*',
      query: '',
      tokenValiditySeconds: Math.max(1, Math.floor(tokenValidity / 1000)),
      invoiceExpirySeconds: Math.max(1, Math.floor(invoiceExpiry / 1000)),
      description: wish.description,
      payee: 'merchant',
      ...UNROUTED
    }
  }

  #created(challenge: SentChallenge, replayed: boolean): Created {
    const { invoice, macaroon, paymentHash, expiresAt, resource, amountSats } = challenge
    const line = this.#parts.settings().schemes.includes('payment') ? paymentLine(challenge) : null
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

  /** What fails while a challenge is recorded leaves none, and nothing was sent (contract, Errors: 503). */
  #recorded<T>(step: () => Promise<T>): Promise<T> {
    return this.#or('challenge-not-recorded', 'The challenge could not be durably recorded, so none was issued.', step)
  }

  #asked<T>(step: () => Promise<T>): Promise<T> {
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
      // Recording must not fail in another way than by 503; a reading that fails for no outer reason is a fault of
      // ours.
      if (slug === 'service-unavailable' && !isConnectionFault(error)) throw error
      throw new ProducerProblem(this.problemBase, slug, detail, { cause: error })
    }
  }
}

function keyTaken(error: unknown): null {
  if (error instanceof KeyTaken) return null
  throw error
}

function live(challenge: Challenge, now: number): boolean {
  return challenge.expiresAt > now
}

function clamped(query: { readonly limit?: number; readonly offset?: number }): { limit: number; offset: number } {
  return { limit: Math.min(200, Math.max(1, query.limit ?? 50)), offset: Math.max(0, query.offset ?? 0) }
}

/** Paid from its first verification on, else expired from the invoice's expiry on (decision 109). */
function statusOf(challenge: Challenge, now: number): ChallengeStatus {
  return challenge.paidAt !== null ? 'paid' : live(challenge, now) ? 'unpaid' : 'expired'
}

function view(challenge: Challenge, now: number): ChallengeView {
  return {
    paymentHash: challenge.paymentHash,
    resource: challenge.resource,
    amountSats: challenge.amountSats,
    status: statusOf(challenge, now),
    createdAt: iso(challenge.createdAt),
    paidAt: challenge.paidAt === null ? null : iso(challenge.paidAt),
    expiresAt: iso(challenge.expiresAt),
    idempotencyKey: challenge.idempotencyKey
  }
}

/** Text for an invoice: the database and wallets take no control characters. */
function plain(text: string): string {
  return text
    .toWellFormed()
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
