import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { FiatCurrency } from './currencies.ts'
import { knownDecimal, type Decimal } from './decimal.ts'
import { agree } from './median.ts'
import { atPrice, pricesUnavailable, type Quote, type Quotes } from './prices.ts'
import { SourceFault, type PriceSource, type SourceName } from './sources.ts'

/** Asks a source: the text of a 200. Rejects when it answers anything else, or when `signal` is aborted. */
export type AskSource = (url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<string>

/** One source as this gateway asks it. */
export interface FeedSource {
  readonly name: SourceName
  /** Address, without a slash at the end. */
  readonly url: string
  /** Sent with every question; may hold a key. */
  readonly headers: Readonly<Record<string, string>>
  readonly source: Pick<PriceSource, 'path' | 'read'>
}

/** What the feed works with. Times in milliseconds. */
export interface FeedParts {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly ask: AskSource
  readonly sources: readonly FeedSource[]
  /** Time for one source. */
  readonly timeout: number
  /** How long a price is used before the sources are asked again. */
  readonly refresh: number
  /** Answers older than this are refused. */
  readonly maxAge: number
}

interface Answer {
  readonly name: SourceName
  readonly price: Decimal
  readonly at: number
}

type Result = 'ok' | 'failed' | 'stale' | 'outlier'

/** A price that was found. Its limits are monotonic, so that a clock that is set back does not prolong them. */
interface Found {
  readonly price: Decimal
  readonly at: number
  /** Until when nobody needs to be asked again. */
  readonly freshUntil: number
  /** Until when it may be used at all. */
  readonly goodUntil: number
}

interface Line {
  found: Found | null
  asking: Promise<void> | null
  /** Monotonic: after answers that came to no price the sources have a rest. */
  restUntil: number
}

/** Milliseconds between questions while no price comes about, so that an outage does not use up the sources' limits. */
const REST = 10_000
/** The last part of a price's time, in which the next one is asked for: a source that hangs then holds up nobody. */
const AHEAD_OF_END = 1 / 6
/** Milliseconds that a source's time may be ahead of ours, as clocks are. */
const AHEAD = 60_000

/**
 * What a bitcoin costs on the market: all sources are asked at once, stale answers and those far from the others are
 * refused, and the median of at least two is the price. Kept for a while, for each currency of its own; however many
 * ask meanwhile, the sources are asked once. When they fail, the last price is used until it is too old.
 */
export class PriceFeed implements Quotes {
  readonly #parts: FeedParts
  readonly #lines: Readonly<Record<FiatCurrency, Line>> = { USD: freshLine(), EUR: freshLine(), GBP: freshLine() }
  /** Sources that fail at the moment, by name and currency, so that each outage is logged once. */
  readonly #failing = new Set<string>()
  readonly #without = new Set<FiatCurrency>()
  readonly #answers

  constructor(parts: FeedParts) {
    this.#parts = parts
    this.#answers = parts.metrics.counter(
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
    const before = this.#parts.clock.monotonic()
    const fresh = line.found === null ? 0 : line.found.freshUntil - before
    if (fresh <= this.#parts.refresh * AHEAD_OF_END && line.restUntil <= before) {
      line.asking ??= this.#ask(currency, line).finally(() => {
        line.asking = null
      })
    }
    // While the price is fresh nobody waits for the next one.
    if (fresh <= 0 && line.asking !== null) await line.asking
    const now = this.#parts.clock.monotonic()
    const { found } = line
    const rest = Math.max(line.restUntil - now, 0)
    if (found === null || found.goodUntil <= now) throw pricesUnavailable(Math.max(Math.ceil(rest / 1000), 1))
    const left = Math.min(found.goodUntil - now, found.freshUntil > now ? found.freshUntil - now : Math.max(rest, 1000))
    return { price: found.price, at: found.at, expiresAt: Math.floor(this.#parts.clock.now() + left) }
  }

  /** Never rejects: a question that comes to no price is an outcome. */
  async #ask(currency: FiatCurrency, line: Line): Promise<void> {
    const { clock, refresh, maxAge, sources, log } = this.#parts
    const answers = (await Promise.all(sources.map(source => this.#answer(source, currency)))).filter(
      answer => answer !== null
    )
    const now = clock.now()
    const tick = clock.monotonic()
    const inTime = answers.filter(({ name, at }) => {
      if (now - at <= maxAge && at - now <= AHEAD) return true
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
    // As old as the oldest that it rests on; a time ahead of ours is no younger than now.
    const at = Math.min(now, ...kept.map(answer => answer.at))
    const goodUntil = tick + maxAge - (now - at)
    line.found = { price, at, freshUntil: Math.min(tick + refresh, goodUntil), goodUntil }
    line.restUntil = 0
  }

  /** Never rejects: what goes wrong with one source is its own affair. */
  async #answer({ name, url, headers, source }: FeedSource, currency: FiatCurrency): Promise<Answer | null> {
    const { clock, ask, timeout } = this.#parts
    const limit = new AbortController()
    const late = Promise.withResolvers<never>()
    const timer = clock.after(timeout, () => {
      limit.abort()
      late.reject(limit.signal.reason)
    })
    try {
      // The HTTP client hears of the signal only once it is connected.
      const body = await Promise.race([ask(`${url}${source.path(currency)}`, headers, limit.signal), late.promise])
      const { price, at } = source.read(body, currency)
      return { name, price, at: at ?? clock.now() }
    } catch (error) {
      this.#note(name, currency, 'failed', limit.signal.aborted ? `no answer within ${timeout} ms` : reasonOf(error))
      return null
    } finally {
      timer.cancel()
    }
  }

  #note(name: SourceName, currency: FiatCurrency, result: Result, reason: string): void {
    const { log } = this.#parts
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

/** Without the library's own error, which may hold what was sent. */
function reasonOf(error: unknown): string {
  if (error instanceof SourceFault) return error.message
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return error instanceof Error ? error.name : 'it failed'
}
