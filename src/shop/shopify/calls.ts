import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { orNull, part, readResponse } from '../../engine/formats/response-schema.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import { pause, type Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { StorePlatformError, type StoreAccess } from '../platform.ts'
import { graphFault, statusFault, throttled, requireShopHost, ShopifyHttp, type ShopifyHttpOptions } from './http.ts'
import type { ShopifyOperation } from './operations.ts'
import { credentialsKey, ShopifyTokens } from './tokens.ts'

const THROTTLED_RETRIES = 3
/** Longest wait before one attempt. A page of a catalog needs at most 5.3 s at the slowest rate. */
const MAX_WAIT = 6000
/** The same for a paid order: longer, so that it gets its turn behind any number of unpaid queries. */
const MAX_WAIT_PAID = 10_000
/**
 * Milliseconds after which no attempt starts. A query takes at most 21 seconds and two timeouts, one for a paid order
 * 25, which the lease of an order's claim relies on.
 */
const REPEATED_WITHIN = 15_000
/** Milliseconds to wait without a hint: after a 429, and for limits of single mutations. */
const BLIND_WAIT = 1000

interface Cost {
  readonly requested: number | null
  readonly status: ThrottleStatus | null
}

const Positive = Type.Number({ exclusiveMinimum: 0 })
/** Unusable parts of the cost are left out, since only waiting depends on it. */
const Reply = Type.Object({
  data: Type.Unknown(),
  errors: Type.Unknown(),
  extensions: part({
    cost: part({
      requestedQueryCost: orNull(Positive),
      throttleStatus: part({ maximumAvailable: Positive, currentlyAvailable: Type.Number(), restoreRate: Positive })
    })
  })
})

/** The body is null unless the status is 2xx. */
interface Sent {
  readonly status: number
  readonly data: unknown
  readonly errors: unknown
  readonly cost: Cost
}

/**
 * Calls Shopify's Admin API. Retries only calls without effect: the day's token had expired (once), or points were
 * missing (a few times). Other faults are the caller's to judge.
 */
export class ShopifyCalls {
  readonly #http: ShopifyHttp
  readonly #tokens: ShopifyTokens
  readonly #budgets: CostBudgets
  readonly #clock: Clock
  readonly #log: Log
  readonly #apiVersion: string
  readonly #costs = new Map<string, number>()

  constructor(options: ShopifyHttpOptions & { readonly log: Log }) {
    this.#http = new ShopifyHttp(options)
    this.#tokens = new ShopifyTokens(this.#http, options.clock)
    this.#budgets = new CostBudgets(options.clock)
    this.#clock = options.clock
    this.#log = options.log
    this.#apiVersion = options.config.apiVersion
  }

  /**
   * Returns `data`.
   * @throws StorePlatformError
   */
  async ask(
    store: StoreAccess,
    operation: ShopifyOperation,
    variables: Readonly<Record<string, unknown>> = {}
  ): Promise<unknown> {
    requireShopHost(store.domain)
    const key = credentialsKey(store)
    const begun = this.#clock.monotonic()
    let isRenewed = false
    for (let throttledTimes = 0; ;) {
      const token = await this.#tokens.get(store)
      await this.#waitForPoints(key, operation)
      const sent = await this.#send(store, token, operation, variables)
      this.#learn(key, operation, sent.cost)
      const mayRepeat = this.#clock.monotonic() - begun <= REPEATED_WITHIN
      if (sent.status === 401 && (await this.#tokens.drop(store, token)) && !isRenewed && mayRepeat) {
        isRenewed = true
        continue
      }
      const fault = this.#fault(sent, operation, hiddenOf(store, token))
      if (fault === null) return sent.data
      if (fault.fault !== 'throttled' || throttledTimes >= THROTTLED_RETRIES || !mayRepeat) throw fault
      throttledTimes++
      this.#log.debug(
        { storefrontId: store.storefrontId, purpose: operation.purpose },
        'the store platform was asked too often; asking again'
      )
      if (sent.cost.status === null || this.#budgets.waitFor(key, this.#costOf(operation)) === 0)
        await pause(this.#clock, BLIND_WAIT)
    }
  }

  #fault(sent: Sent, { purpose }: ShopifyOperation, hidden: readonly string[]): StorePlatformError | null {
    const { status } = sent
    if (status < 200 || status >= 300) return statusFault(status, purpose)
    if (sent.errors !== undefined) return graphFault(sent.errors, purpose, hidden)
    if (sent.data === undefined)
      return new StorePlatformError(
        'away',
        `The store platform gave an answer without data when asked to ${purpose}.`,
        { upstreamStatus: status }
      )
    return null
  }

  async #waitForPoints(key: string, operation: ShopifyOperation): Promise<void> {
    const cost = this.#costOf(operation)
    const wait = this.#budgets.waitFor(key, cost)
    if (wait > (operation.isPaid === true ? MAX_WAIT_PAID : MAX_WAIT)) throw throttled(null, wait)
    this.#budgets.spend(key, cost)
    if (wait > 0) await pause(this.#clock, wait)
  }

  #costOf(operation: ShopifyOperation): number {
    return this.#costs.get(operation.text) ?? operation.cost
  }

  #learn(key: string, operation: ShopifyOperation, { requested, status }: Cost): void {
    if (requested !== null) this.#costs.set(operation.text, requested)
    if (status !== null) this.#budgets.learn(key, status)
  }

  async #send(
    store: StoreAccess,
    token: Secret<string>,
    operation: ShopifyOperation,
    variables: Readonly<Record<string, unknown>>
  ): Promise<Sent> {
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      'x-shopify-access-token': token.reveal(),
      'user-agent': 'boltgate'
    }
    const body = JSON.stringify({ query: operation.text, variables })
    const { status, body: bytes } = await this.#http.post(
      store.domain,
      `/admin/api/${this.#apiVersion}/graphql.json`,
      headers,
      body
    )
    const reply = status >= 200 && status < 300 ? readResponse(Reply, jsonOrUndefined(bytes)) : null
    const cost = reply?.extensions?.cost
    return {
      status,
      data: reply?.data ?? undefined,
      errors: reply?.errors ?? undefined,
      cost: { requested: cost?.requestedQueryCost ?? null, status: cost?.throttleStatus ?? null }
    }
  }
}

function hiddenOf(store: StoreAccess, token: Secret<string>): string[] {
  return [token.reveal(), store.clientSecret?.reveal() ?? '', store.adminApiToken?.reveal() ?? '']
}

/** Stores whose bucket is remembered. */
const MOST = 10_000

interface Bucket {
  available: number
  maximum: number
  /** Points per second. */
  restoreRate: number
  /** Monotonic milliseconds. */
  at: number
}

interface ThrottleStatus {
  readonly maximumAvailable: number
  readonly currentlyAvailable: number
  readonly restoreRate: number
}

/**
 * Points left for each store's calls, as of its last response, refilled by time. Calls in flight are deducted
 * immediately, so that concurrent ones do not count the same points.
 */
class CostBudgets {
  readonly #clock: Clock
  readonly #buckets = new LRUCache<string, Bucket>({ max: MOST })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Milliseconds until `cost` points are available; 0 when unknown. */
  waitFor(key: string, cost: number): number {
    const bucket = this.#filled(key)
    if (bucket === null) return 0
    // A cost above the maximum would wait forever; the platform judges it.
    const missing = Math.min(cost, bucket.maximum) - bucket.available
    return missing <= 0 ? 0 : Math.ceil((missing / bucket.restoreRate) * 1000)
  }

  spend(key: string, cost: number): void {
    const bucket = this.#filled(key)
    if (bucket !== null) bucket.available -= cost
  }

  learn(key: string, status: ThrottleStatus): void {
    this.#buckets.set(key, {
      available: status.currentlyAvailable,
      maximum: status.maximumAvailable,
      restoreRate: status.restoreRate,
      at: this.#clock.monotonic()
    })
  }

  #filled(key: string): Bucket | null {
    const bucket = this.#buckets.get(key)
    if (bucket === undefined) return null
    const now = this.#clock.monotonic()
    bucket.available = Math.min(bucket.maximum, bucket.available + ((now - bucket.at) / 1000) * bucket.restoreRate)
    bucket.at = now
    return bucket
  }
}
