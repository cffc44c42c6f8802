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

/** A proxy with what its requests need to know of its merchant. */
export interface ListedProxy {
  readonly row: ProxyRow
  readonly merchant: Merchant
  /** Value of the upstream header, opened once when the proxy was read; null when there is none. */
  readonly authValue: string | null
  /** Counts its requests, for as long as it is held. */
  readonly tally: Tally
}

/** What the directory reads from. */
export interface DirectorySources {
  readonly store: ProxyStore
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly tallies: Tallies
  merchants(ids: readonly number[]): Promise<ReadonlyMap<number, Merchant>>
  /** Opens the sealed value of the upstream header. */
  open(row: ProxyRow): string | null
}

/** How often everything that is held is read again: a changed price reaches every process within these 5 seconds. */
const REREAD_MS = 4_000
/**
 * An id that was not there is asked for again after this, so that a flood of made-up ids seldom reaches the database.
 */
const UNKNOWN_MS = 2_000
const MOST_HELD = 10_000

/**
 * What is held of a proxy, with the number of the reading that it came from: one that began earlier never replaces it.
 */
interface Held {
  readonly proxy: ListedProxy
  readonly reading: number
}

/**
 * The proxies that this process has seen requests for. A hit is synchronous; what is held is told of changes, its
 * merchant's too, by notification, and read again every 4 seconds, whole, for those that were lost. While the database
 * is away the last known state stays: a proxy that was bought from is still served.
 */
export class ProxyDirectory {
  readonly #sources: DirectorySources
  readonly #held: LRUCache<string, Held>
  /** By id the reading that did not find it. */
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

  /** Begins to follow changes. */
  async start(): Promise<void> {
    // A start that found the database away is repeated.
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
   * The proxy, null when there is none; a promise only for one that is not held yet.
   * @throws Unavailable (in the promise) when it cannot be read: a proxy that may exist is neither 404 nor sold
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

  /** Reads one proxy again that has changed; resolves when its next request sees the change. Never throws. */
  async refresh(proxyId: string): Promise<void> {
    this.#unknown.delete(proxyId)
    // One that is being read may be read as it was before.
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

  /** Reads a merchant's proxies again, so that an account that was deactivated sells nothing more. Never throws. */
  async #merchantChanged(merchantId: number): Promise<void> {
    const theirs = [...this.#held]
      .filter(([, { proxy }]) => proxy.merchant.id === merchantId)
      .map(([proxyId]) => proxyId)
    // Whose those are is known once they are read.
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

  /** Reads everything that is held again; two calls at once share one reading. Never throws. */
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
        // Sealed with a key that this process does not have. Its old state must not be sold, and the others must not
        // wait for it.
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
