import { LRUCache } from 'lru-cache'
import { Unavailable } from '../engine/operations/errors.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Log } from '../platform/telemetry/log.ts'
import { StorePlatformError, type Catalog, type StorePlatform } from './platform.ts'
import type { Integration } from './schema.ts'
import type { Storefronts } from './stores/integrations.ts'
import { STORE_UNAVAILABLE } from './store-errors.ts'

interface CatalogsOptions {
  readonly platform: Pick<StorePlatform, 'catalog'>
  readonly clock: Clock
  readonly log: Log
  readonly stores: Storefronts
}

/** A catalog, the time of its request, and that request's generation. */
interface Read {
  readonly catalog: Catalog
  readonly at: number
  readonly generation: number
}

interface Entry {
  /** The newest; an older response must not replace it. */
  last: Read | null
  /** Milliseconds until which the platform is not asked: the catalog is fresh, or the last request failed. */
  freshUntil: number
  /** The integration's version at the request: a later change may be another shop. */
  updatedAt: number
  /** Raised by `invalidate`, so that a response in flight does not count as fresh. */
  generation: number
  pending: { readonly generation: number; readonly answer: Promise<Read> } | null
}

/** Milliseconds for which a catalog is cached. */
export const CATALOG_TTL = 300_000
/** Catalogs kept in memory; the least recently requested is evicted. */
const MOST_STORES = 500
/** Maximum age of prices that are sold, however long the platform is unreachable. */
const SOLD_FROM = 3_600_000

/**
 * Cached catalogs (contract, Storefront: cached; decision 144). Concurrent requests share one call. While the platform
 * fails, the last catalog is served, and the platform is not asked before its retry time.
 */
export class Catalogs {
  readonly #options: CatalogsOptions
  readonly #entries = new LRUCache<number, Entry>({ max: MOST_STORES })

  constructor(options: CatalogsOptions) {
    this.#options = options
  }

  /**
   * The catalog to display.
   * @throws Unavailable 503 when the platform fails and no catalog is cached
   */
  async get(integration: Integration): Promise<Catalog> {
    return (await this.#newest(integration, this.#entryOf(integration))).catalog
  }

  /**
   * The catalog to sell from. Exhausting the platform's rate limit must not yield yesterday's prices, nor those from
   * before an invalidation.
   * @throws Unavailable 503 as `get`, and when the cached one is too old
   */
  async forSale(integration: Integration): Promise<Catalog> {
    const entry = this.#entryOf(integration)
    const { generation } = entry
    const read = await this.#newest(integration, entry)
    const now = this.#options.clock.now()
    if (read.generation < generation || now - read.at > SOLD_FROM + CATALOG_TTL)
      throw unavailable((entry.freshUntil - now) / 1000)
    return read.catalog
  }

  /** Makes the next request ask the platform; the cached catalog is served only if that fails. */
  invalidate(storefrontId: number): void {
    const entry = this.#entries.get(storefrontId)
    if (entry !== undefined) expire(entry)
  }

  async #newest(integration: Integration, entry: Entry): Promise<Read> {
    if (this.#options.clock.now() < entry.freshUntil) return served(entry.last)
    if (entry.pending?.generation !== entry.generation) {
      const { generation } = entry
      entry.pending = { generation, answer: this.#ask(integration, entry, generation) }
    }
    return await entry.pending.answer
  }

  #entryOf(integration: Integration): Entry {
    const known = this.#entries.get(integration.id)
    if (known === undefined) {
      const entry: Entry = { last: null, freshUntil: 0, updatedAt: integration.updatedAt, generation: 0, pending: null }
      this.#entries.set(integration.id, entry)
      return entry
    }
    if (known.updatedAt !== integration.updatedAt) {
      // Other processes of the same database see a change by it.
      known.updatedAt = integration.updatedAt
      expire(known)
    }
    return known
  }

  async #ask(integration: Integration, entry: Entry, generation: number): Promise<Read> {
    const { platform, stores, clock, log } = this.#options
    // The caller must store this promise before it can settle.
    await Promise.resolve()
    const at = clock.now()
    try {
      const read = { catalog: await platform.catalog(stores.access(integration)), at, generation }
      if (entry.last === null || generation >= entry.last.generation) entry.last = read
      if (entry.generation === generation) entry.freshUntil = clock.now() + CATALOG_TTL
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
      if (entry.pending?.generation === generation) entry.pending = null
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
