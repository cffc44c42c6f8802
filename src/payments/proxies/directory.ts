import { isProxyId } from '../../accounts/merchants/holdings.ts'
import { LRUCache } from 'lru-cache'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Tallies, Tally } from '../../platform/telemetry/tallies.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { merchantsChannel } from '../../accounts/merchants/store.ts'
import { PROXY_CHANNEL, type ProxyRow, type ProxyStore } from './store.ts'
import { PROXY_UNAVAILABLE } from '../../selling/offers/offer.ts'

export interface ListedProxy {
  readonly row: ProxyRow
  readonly merchant: Merchant
  /** Upstream header value, unsealed at reading; null for none. */
  readonly authValue: string | null
  readonly tally: Tally
}

interface DirectorySources {
  readonly store: ProxyStore
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly tallies: Tallies
  merchants(ids: readonly number[]): Promise<ReadonlyMap<number, Merchant>>
  open(row: ProxyRow): string | null
}

/** Refresh interval: price changes reach every process within 5 seconds. */
const REREAD_MS = 4_000
/** TTL of unknown ids, which shields the database from made-up ids. */
const UNKNOWN_MS = 2_000
const MOST_HELD = 10_000

interface Held {
  readonly proxy: ListedProxy
  readonly reading: number
}

/**
 * Cache of requested proxies. Hits are synchronous. Changes arrive by notification, and everything is read again every
 * 4 seconds, in case one is lost. During a database outage the last state is served.
 */
export class ProxyDirectory {
  readonly #sources: DirectorySources
  readonly #held: LRUCache<string, Held>
  /** Number of the reading that did not find each id. */
  readonly #unknown: LRUCache<string, number>
  readonly #loading = new Map<string, Promise<ListedProxy | null>>()
  #timer: Timer | null = null
  #unlisten: (() => Promise<void>) | null = null
  #unlistenMerchants: (() => Promise<void>) | null = null
  #readings = 0
  #rereading: Promise<void> | null = null

  constructor(sources: DirectorySources) {
    this.#sources = sources
    const perf = { now: () => sources.clock.now() }
    this.#held = new LRUCache({ max: MOST_HELD })
    this.#unknown = new LRUCache({ max: MOST_HELD, ttl: UNKNOWN_MS, ttlResolution: 0, perf })
  }

  async start(): Promise<void> {
    // Runs again when a start failed without the database.
    this.#timer ??= this.#sources.clock.every(REREAD_MS, () => {
      void this.reread()
    })
    this.#unlisten ??= await this.#sources.database.listen(PROXY_CHANNEL, proxyId => {
      void this.refresh(proxyId)
    })
    this.#unlistenMerchants ??= await this.#sources.database.listen(merchantsChannel, merchantId => {
      void this.#merchantChanged(Number(merchantId))
    })
  }

  async stop(): Promise<void> {
    this.#timer?.cancel()
    await this.#unlisten?.()
    await this.#unlistenMerchants?.()
  }

  /**
   * The proxy, or null; a promise only for an uncached one.
   * @throws Unavailable (in the promise) when it cannot be read
   */
  find(proxyId: string): ListedProxy | null | Promise<ListedProxy | null> {
    const held = this.#held.get(proxyId)
    if (held !== undefined) return held.proxy
    if (!isProxyId(proxyId) || this.#unknown.has(proxyId)) return null
    let loading = this.#loading.get(proxyId)
    if (loading === undefined) {
      loading = this.#read(proxyId).finally(() => {
        this.#loading.delete(proxyId)
      })
      this.#loading.set(proxyId, loading)
    }
    return loading
  }

  /** Reads a changed proxy; resolves when requests see the change. Never throws. */
  async refresh(proxyId: string): Promise<void> {
    this.#unknown.delete(proxyId)
    // A reading in flight may return the old state.
    if (!this.#held.has(proxyId) && !this.#loading.has(proxyId)) return
    try {
      await this.#load([proxyId])
    } catch (error) {
      this.#sources.log.warn(
        { err: error, proxyId },
        'a changed proxy could not be read; its last known state stays until the next reading'
      )
    }
  }

  /** Reads a merchant's proxies again, so that a deactivated account stops selling. Never throws. */
  async #merchantChanged(merchantId: number): Promise<void> {
    const theirs = [...this.#held]
      .filter(([, { proxy }]) => proxy.merchant.id === merchantId)
      .map(([proxyId]) => proxyId)
    // The owners of proxies in flight are unknown.
    const proxyIds = [...new Set([...theirs, ...this.#loading.keys()])]
    try {
      await this.#load(proxyIds)
    } catch (error) {
      this.#sources.log.warn(
        { err: error, merchantId },
        'proxies of a changed merchant could not be read; their last known state stays until the next reading'
      )
    }
  }

  /** Refreshes the cache; concurrent calls share one reading. Never throws. */
  reread(): Promise<void> {
    this.#rereading ??= this.#load([...this.#held.keys()])
      .catch((error: unknown) => {
        this.#sources.log.warn({ err: error }, 'proxies could not be read again; the last known ones stay')
      })
      .finally(() => {
        this.#rereading = null
      })
    return this.#rereading
  }

  async #read(proxyId: string): Promise<ListedProxy | null> {
    try {
      await this.#load([proxyId])
    } catch (error) {
      throw new Unavailable(
        PROXY_UNAVAILABLE,
        'The proxy cannot be looked up at the moment. Nothing was charged.',
        5,
        { proxy_id: proxyId },
        error
      )
    }
    return this.#held.get(proxyId)?.proxy ?? null
  }

  async #load(proxyIds: readonly string[]): Promise<void> {
    if (proxyIds.length === 0) return
    const reading = ++this.#readings
    const overtaken = (proxyId: string): boolean =>
      (this.#held.peek(proxyId)?.reading ?? this.#unknown.peek(proxyId) ?? 0) > reading
    const rows = await this.#sources.store.byIds(proxyIds)
    const merchants = await this.#sources.merchants([...new Set(rows.map(row => row.merchantId))])
    const found = new Set<string>()
    for (const row of rows) {
      const merchant = merchants.get(row.merchantId)
      if (merchant === undefined) continue
      found.add(row.proxyId)
      if (overtaken(row.proxyId)) continue
      const held = this.#held.peek(row.proxyId)?.proxy
      try {
        const authValue =
          held !== undefined && held.row.authValue === row.authValue ? held.authValue : this.#sources.open(row)
        const tally = held?.tally ?? this.#sources.tallies.of(row.proxyId)
        this.#held.set(row.proxyId, { proxy: { row, merchant, authValue, tally }, reading })
      } catch (error) {
        // Sealed with another key. The old state must not be sold, and the others must not wait.
        this.#held.delete(row.proxyId)
        if (proxyIds.length === 1) throw error
        this.#sources.log.error(
          { err: error, proxyId: row.proxyId },
          'the upstream header of a proxy cannot be opened; the proxy is not served'
        )
      }
    }
    for (const proxyId of proxyIds) {
      if (found.has(proxyId) || overtaken(proxyId)) continue
      this.#held.delete(proxyId)
      this.#unknown.set(proxyId, reading)
    }
  }
}
