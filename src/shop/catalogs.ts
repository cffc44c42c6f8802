import { LRUCache } from 'lru-cache'
import { Unavailable } from '../engine/operations/errors.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { StorePlatformError, type Catalog, type StoreAccess, type StorePlatform } from './platform.ts'
import type { Integration } from './schema.ts'
import { STORE_UNAVAILABLE } from './store-errors.ts'

/** What catalogs are read with. */
export interface CatalogsParts {
  readonly platform: Pick<StorePlatform, 'catalog'>
  readonly clock: Clock
  readonly log: Log
  /** Opens the seals of a store's credentials. */
  access(integration: Integration): StoreAccess
  /** Milliseconds that a catalog is served before the platform is asked again. */
  ttl(): number
}

/** A catalog with when it was asked for, in milliseconds, and the generation of that request. */
interface Read {
  readonly catalog: Catalog
  readonly at: number
  readonly generation: number
}

interface Entry {
  /** The newest: one that was asked for before must not take its place. */
  last: Read | null
  /** Milliseconds until which the catalog is served without asking, or, after a failure, nobody is asked. */
  freshUntil: number
  /** As the integration was when the platform was asked: what changed since may be another shop. */
  updatedAt: number
  /** Raised by `invalidate`, so that an answer that was on its way by then is not taken for a fresh one. */
  generation: number
  asking: { readonly generation: number; readonly answer: Promise<Read> } | null
}

/** Stores whose catalogs are kept in memory; beyond it the one that was asked for longest ago goes. */
const MOST_STORES = 500
/**
 * Milliseconds after which nothing is sold at the prices of a catalog, however long the platform gives no newer one.
 */
const SOLD_FROM = 3_600_000

/**
 * Catalogs of the stores, kept for a while (contract, Storefront: cached; decision 144). Of any number of requests one
 * asks the platform; while it is away, the last catalog is served, and it is not asked again before it said it may be.
 */
export class Catalogs {
  readonly #parts: CatalogsParts
  readonly #entries = new LRUCache<number, Entry>({ max: MOST_STORES })

  constructor(parts: CatalogsParts) {
    this.#parts = parts
  }

  /** Milliseconds that a catalog is served. */
  get ttl(): number {
    return this.#parts.ttl()
  }

  /**
   * The catalog of a store, to be looked at. @throws Unavailable 503 when the platform is away and none was ever read
   */
  async get(integration: Integration): Promise<Catalog> {
    return (await this.#newest(integration, this.#entryOf(integration))).catalog
  }

  /**
   * The catalog of a store, to be sold from. Whoever keeps the platform from giving a catalog, by using up what it
   * answers in a minute, must not get yesterday's prices by it, nor those from before the merchant had the catalog read
   * anew.
   * @throws Unavailable 503 as `get`, and where the last one is too old
   */
  async forSale(integration: Integration): Promise<Catalog> {
    const entry = this.#entryOf(integration)
    const { generation } = entry
    const read = await this.#newest(integration, entry)
    const now = this.#parts.clock.now()
    if (read.generation < generation || now - read.at > SOLD_FROM + this.ttl)
      throw unavailable((entry.freshUntil - now) / 1000)
    return read.catalog
  }

  /** Has the next request ask the platform; what was read before is served only while the platform is away. */
  invalidate(storefrontId: number): void {
    const entry = this.#entries.get(storefrontId)
    if (entry !== undefined) expire(entry)
  }

  async #newest(integration: Integration, entry: Entry): Promise<Read> {
    if (this.#parts.clock.now() < entry.freshUntil) return served(entry.last)
    if (entry.asking?.generation !== entry.generation) {
      const { generation } = entry
      entry.asking = { generation, answer: this.#ask(integration, entry, generation) }
    }
    return await entry.asking.answer
  }

  #entryOf(integration: Integration): Entry {
    const known = this.#entries.get(integration.id)
    if (known === undefined) {
      const entry: Entry = { last: null, freshUntil: 0, updatedAt: integration.updatedAt, generation: 0, asking: null }
      this.#entries.set(integration.id, entry)
      return entry
    }
    if (known.updatedAt !== integration.updatedAt) {
      // Other gateways that share the database learn of a change by it.
      known.updatedAt = integration.updatedAt
      expire(known)
    }
    return known
  }

  async #ask(integration: Integration, entry: Entry, generation: number): Promise<Read> {
    const { platform, clock, log } = this.#parts
    // The caller must have noted that somebody asks before that can be over.
    await Promise.resolve()
    const at = clock.now()
    try {
      const read = { catalog: await platform.catalog(this.#parts.access(integration)), at, generation }
      if (entry.last === null || generation >= entry.last.generation) entry.last = read
      if (entry.generation === generation) entry.freshUntil = clock.now() + this.ttl
      return read
    } catch (error) {
      if (!(error instanceof StorePlatformError)) throw error
      log.warn(
        { err: error, slug: integration.slug, merchantId: integration.merchantId, fault: error.fault },
        'the catalog of a store could not be read'
      )
      if (entry.generation === generation) entry.freshUntil = clock.now() + error.retryAfter * 1000
      return served(entry.last, error)
    } finally {
      if (entry.asking?.generation === generation) entry.asking = null
    }
  }
}

function expire(entry: Entry): void {
  entry.freshUntil = 0
  entry.generation++
}

function served(last: Read | null, cause?: unknown): Read {
  if (last !== null) return last
  throw unavailable(cause instanceof StorePlatformError ? cause.retryAfter : 5, cause)
}

/** `retryAfter` in seconds. */
function unavailable(retryAfter: number, cause?: unknown): Unavailable {
  return new Unavailable(
    { ...STORE_UNAVAILABLE, title: 'Catalog unavailable' },
    'The store cannot be asked for its catalog at the moment.',
    Math.max(1, Math.ceil(retryAfter)),
    {},
    cause
  )
}
