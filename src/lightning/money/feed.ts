import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { type FiatCurrency, atPrice, pricesUnavailable, type Quote, type Quotes } from './prices.ts'
import { knownDecimal, type Decimal } from './decimal.ts'
import { SourceFault, type PriceSource } from './sources.ts'

/** Fetches the text of a 200. Rejects on any other status and when `signal` aborts. */
export type AskSource = (url: string, signal: AbortSignal) => Promise<string>

interface FeedSource {
  readonly name: string
  readonly url: string
  /** May hold a key. */
  readonly source: Pick<PriceSource, 'path' | 'read'>
}

interface FeedDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly ask: AskSource
  readonly sources: readonly FeedSource[]
}

interface Answer {
  readonly name: string
  readonly price: Decimal
  readonly at: number
}

type Result = 'ok' | 'failed' | 'stale' | 'outlier'

/** A cached price. Its limits are monotonic, so setting back the clock does not extend them. */
interface Found {
  readonly price: Decimal
  readonly at: number
  readonly freshUntil: number
  readonly goodUntil: number
}

interface Line {
  found: Found | null
  asking: Promise<void> | null
  /** Monotonic end of the backoff after a failed round. */
  restUntil: number
}

const TIMEOUT = 5_000
/** Milliseconds between requests to a source. */
const REFRESH = 60_000
/** Milliseconds after which an answer is rejected. */
const MAX_AGE = 300_000
/** Milliseconds between failed rounds, to spare the sources' limits in an outage. */
const REST = 10_000
/** Last part of a price's TTL, when it is refreshed in the background. */
const AHEAD_OF_END = 1 / 6
/** Clock skew allowed to a source. */
const AHEAD = 60_000

/**
 * Market price of bitcoin: asks all sources concurrently, rejects stale answers and outliers, and takes the median of
 * at least two. Cached per currency, with one request for concurrent callers. When sources fail, the last price serves
 * until too old.
 */
export class PriceFeed implements Quotes {
  readonly #dependencies: FeedDependencies
  readonly #lines: Readonly<Record<FiatCurrency, Line>> = { USD: freshLine(), EUR: freshLine(), GBP: freshLine() }
  /** Failing sources by name and currency, to log each outage once. */
  readonly #failing = new Set<string>()
  readonly #without = new Set<FiatCurrency>()
  readonly #answers

  constructor(dependencies: FeedDependencies) {
    this.#dependencies = dependencies
    this.#answers = dependencies.metrics.counter(
      'boltgate_price_answers_total',
      'Answers of price sources, by source and what became of them.',
      ['source', 'result']
    )
  }

  async satoshis(currency: FiatCurrency, amount: string): Promise<number> {
    const { price } = await this.quote(currency)
    return atPrice(knownDecimal(amount), price)
  }

  async quote(currency: FiatCurrency): Promise<Quote> {
    const line = this.#lines[currency]
    const before = this.#dependencies.clock.monotonic()
    const fresh = line.found === null ? 0 : line.found.freshUntil - before
    if (fresh <= REFRESH * AHEAD_OF_END && line.restUntil <= before) {
      line.asking ??= this.#ask(currency, line).finally(() => {
        line.asking = null
      })
    }
    // A fresh price never waits for its refresh.
    if (fresh <= 0 && line.asking !== null) await line.asking
    const now = this.#dependencies.clock.monotonic()
    const { found } = line
    const rest = Math.max(line.restUntil - now, 0)
    if (found === null || found.goodUntil <= now) throw pricesUnavailable(Math.max(Math.ceil(rest / 1000), 1))
    const left = Math.min(found.goodUntil - now, found.freshUntil > now ? found.freshUntil - now : Math.max(rest, 1000))
    return { price: found.price, at: found.at, expiresAt: Math.floor(this.#dependencies.clock.now() + left) }
  }

  /** Never rejects. */
  async #ask(currency: FiatCurrency, line: Line): Promise<void> {
    const { clock, sources, log } = this.#dependencies
    const answers = (await Promise.all(sources.map(source => this.#answer(source, currency)))).filter(
      answer => answer !== null
    )
    const now = clock.now()
    const tick = clock.monotonic()
    const inTime = answers.filter(({ name, at }) => {
      if (now - at <= MAX_AGE && at - now <= AHEAD) return true
      this.#note(name, currency, 'stale', `its price is of ${new Date(at).toISOString()}`)
      return false
    })
    const { price, kept, outliers } = agree(inTime)
    for (const { name } of outliers) this.#note(name, currency, 'outlier', 'its price is more than 2 % from the median')
    for (const { name } of kept) this.#note(name, currency, 'ok', '')
    if (price === null) {
      line.restUntil = tick + REST
      if (!this.#without.has(currency))
        log.error({ currency, answers: kept.length }, 'there is no price: fewer than two sources agree')
      this.#without.add(currency)
      return
    }
    if (this.#without.delete(currency)) log.info({ currency }, 'there is a price again')
    // As old as its oldest answer, and never in the future.
    const at = Math.min(now, ...kept.map(answer => answer.at))
    const goodUntil = tick + MAX_AGE - (now - at)
    line.found = { price, at, freshUntil: Math.min(tick + REFRESH, goodUntil), goodUntil }
    line.restUntil = 0
  }

  /** Never rejects. */
  async #answer({ name, url, source }: FeedSource, currency: FiatCurrency): Promise<Answer | null> {
    const { clock, ask } = this.#dependencies
    const limit = new AbortController()
    const late = Promise.withResolvers<never>()
    const timer = clock.after(TIMEOUT, () => {
      limit.abort()
      late.reject(limit.signal.reason)
    })
    try {
      // The HTTP client notices the signal only once connected.
      const body = await Promise.race([ask(`${url}${source.path(currency)}`, limit.signal), late.promise])
      const { price, at } = source.read(body, currency)
      return { name, price, at: at ?? clock.now() }
    } catch (error) {
      this.#note(name, currency, 'failed', limit.signal.aborted ? `no answer within ${TIMEOUT} ms` : reasonOf(error))
      return null
    } finally {
      timer.cancel()
    }
  }

  #note(name: string, currency: FiatCurrency, result: Result, reason: string): void {
    const { log } = this.#dependencies
    this.#answers.inc({ source: name, result })
    const key = `${name} ${currency}`
    if (result === 'ok') {
      if (this.#failing.delete(key)) log.info({ source: name, currency }, 'a price source is used again')
    } else if (!this.#failing.has(key)) {
      this.#failing.add(key)
      log.warn({ source: name, currency, reason }, 'a price source is left out until it gives a good answer')
    }
  }
}

function freshLine(): Line {
  return { found: null, asking: null, restUntil: 0 }
}

/** Omits the library's error, which may hold what was sent. */
function reasonOf(error: unknown): string {
  if (error instanceof SourceFault) return error.message
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.name : 'it failed'
}

const LEAST_ANSWERS = 2

/** Percent from the median. */
const TOLERANCE = 2n

interface Agreement<T> {
  /** Median of the accepted answers; null for too few. */
  readonly price: Decimal | null
  readonly kept: readonly T[]
  /** More than 2 % from the overall median. */
  readonly outliers: readonly T[]
}

/** Rejects answers over 2 % from the median and takes the exact median of the rest. */
export function agree<T extends { readonly price: Decimal }>(answers: readonly T[]): Agreement<T> {
  const middle = median(answers.map(answer => answer.price))
  if (middle === null) return { price: null, kept: answers, outliers: [] }
  const kept = answers.filter(({ price }) => isNear(price, middle))
  const outliers = answers.filter(({ price }) => !isNear(price, middle))
  return { price: median(kept.map(answer => answer.price)), kept, outliers }
}

export function median(prices: readonly Decimal[]): Decimal | null {
  if (prices.length < LEAST_ANSWERS) return null
  const places = Math.max(...prices.map(price => price.places))
  const sorted = prices.map(price => atPlaces(price, places)).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  const half = sorted.length / 2
  // Equal for an odd count.
  const low = sorted[Math.ceil(half) - 1] ?? 0n
  const high = sorted[Math.floor(half)] ?? 0n
  // Half of a sum is five times it with one more place.
  return { digits: (low + high) * 5n, places: places + 1 }
}

function isNear(price: Decimal, middle: Decimal): boolean {
  const places = Math.max(price.places, middle.places)
  const wanted = atPlaces(middle, places)
  const distance = atPlaces(price, places) - wanted
  return (distance < 0n ? -distance : distance) * 100n <= wanted * TOLERANCE
}

function atPlaces(value: Decimal, places: number): bigint {
  return value.digits * 10n ** BigInt(places - value.places)
}
