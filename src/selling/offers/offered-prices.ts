import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Rerun } from '../../platform/system/rerun.ts'
import { priceText, type PriceGrace } from './price-grace.ts'

/** Longest time for which a former price may be taken, in milliseconds. */
const LONGEST_GRACE = 30 * 86_400_000
const REREAD = 30_000

/**
 * What the operator's routes cost before they cost what they do now, and until when. A change by a reload is known at
 * once, one by a restart from the database: the price that was asked last counts as asked until the new one is. Rows
 * are written when prices change and at the beginning and end of a process, so that the price of one that goes on with
 * an older file is known too.
 */
export class OfferedPrices {
  readonly #database: Database
  readonly #clock: Clock
  readonly #log: Log
  #now: ReadonlyMap<string, string> = new Map()
  readonly #former = new Map<string, Map<string, number>>()
  /** The database has not heard of the prices of now. */
  #unwritten = true
  #started = false
  #timer: Timer | null = null
  // Prices that change while it reads would be written half a minute later.
  readonly #syncing = new Rerun(() => this.#quietly(() => this.#sync()))

  constructor(database: Database, clock: Clock, log: Log) {
    this.#database = database
    this.#clock = clock
    this.#log = log
  }

  /** These prices are asked from now on, by place and as `priceText` writes them; the ones before them no longer. */
  ask(prices: ReadonlyMap<string, string>): void {
    const at = this.#clock.now()
    for (const [place, price] of this.#now) {
      if (prices.get(place) !== price) this.#asked(place, price, at)
    }
    this.#now = prices
    this.#unwritten = true
    if (this.#started) void this.sync()
  }

  /** The grace of what is priced in these places, such as a route and one of its values; null for none. */
  grace(places: readonly string[], duration: number): PriceGrace | null {
    if (duration === 0) return null
    return {
      duration,
      until: paid => {
        const text = priceText(paid)
        const ends = places.map(place => this.#former.get(place)?.get(text) ?? -Infinity)
        const last = Math.max(...ends)
        return last === -Infinity ? null : last
      }
    }
  }

  /**
   * Tells the database of the prices and hears of earlier ones. Resolves also where it is away: then it is tried again.
   */
  async start(): Promise<void> {
    this.#started = true
    this.#timer ??= this.#clock.every(REREAD, () => {
      void this.sync()
    })
    await this.sync()
  }

  async close(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    await this.#syncing.ended()
    if (!this.#started) return
    // The processes that go on with other prices hear until when these were asked.
    await this.#quietly(() => (this.#unwritten ? this.#sync() : this.#writeAsked(this.#database.sql, this.#now)))
  }

  /** Writes what is not written and reads again. Never rejects. */
  sync(): Promise<void> {
    return this.#syncing.run()
  }

  async #quietly(step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      this.#log.warn(
        { err: error },
        'Former prices could not be written and read; payments of a price before the last change may be refused'
      )
    }
  }

  async #sync(): Promise<void> {
    if (this.#unwritten) {
      this.#unwritten = false
      try {
        await this.#write()
      } catch (error) {
        this.#unwritten = true
        throw error
      }
    }
    const since = new Date(this.#clock.now() - LONGEST_GRACE)
    const rows = await this.#database.sql<{ place: string; price: string; asked_until: Date }[]>`
      select place, price, asked_until from offered_prices where place = any(${[...this.#now.keys()]}) and asked_until > ${since}`
    const latest = new Map<string, { readonly price: string; readonly until: number }>()
    for (const row of rows) {
      const { place, price } = row
      const until = row.asked_until.getTime()
      this.#asked(place, price, until)
      if (until > (latest.get(place)?.until ?? 0)) latest.set(place, { price, until })
    }
    // Where a process with another price has ended since, that would count as asked until the next change.
    const overtaken = [...this.#now].filter(([place, price]) => (latest.get(place)?.price ?? price) !== price)
    if (overtaken.length > 0) await this.#writeAsked(this.#database.sql, overtaken)
  }

  #asked(place: string, price: string, until: number): void {
    const prices = this.#former.get(place) ?? new Map<string, number>()
    prices.set(price, Math.max(until, prices.get(price) ?? 0))
    this.#former.set(place, prices)
  }

  async #write(): Promise<void> {
    const at = this.#clock.now()
    const now = [...this.#now]
    if (now.length === 0) return
    const former = [...this.#former].flatMap(([place, prices]) =>
      [...prices].map(([price, until]) => ({ place, price, until }))
    )
    await this.#database.transaction(async tx => {
      await tx`
        insert into offered_prices (place, price, asked_until)
        select place, price, asked_until::timestamptz
        from unnest(${former.map(row => row.place)}::text[], ${former.map(row => row.price)}::text[], ${former.map(row => new Date(row.until).toISOString())}::text[])
          as former (place, price, asked_until)
        on conflict (place, price) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
      // The price that was asked last, by whichever process, was asked until now.
      await tx`
        update offered_prices set asked_until = ${new Date(at)}
        from unnest(${now.map(([place]) => place)}::text[], ${now.map(([, price]) => price)}::text[]) as asked (place, price)
        where offered_prices.place = asked.place and offered_prices.price <> asked.price and offered_prices.asked_until < ${new Date(at)}
          and offered_prices.asked_until = (select max(last.asked_until) from offered_prices last where last.place = asked.place)`
      await this.#writeAsked(tx, now)
      await tx`delete from offered_prices where asked_until < ${new Date(at - 2 * LONGEST_GRACE)} and not place = any(${now.map(([place]) => place)})`
    })
  }

  /**
   * Prices that are asked at this moment, later than what they follow: so each is the one of its place that was asked
   * last.
   */
  async #writeAsked(sql: Sql, prices: Iterable<readonly [place: string, price: string]>): Promise<void> {
    const asked = [...prices]
    if (asked.length === 0) return
    await sql`
      insert into offered_prices (place, price, asked_until)
      select asked.place, asked.price, ${new Date(this.#clock.now() + 1)}
      from unnest(${asked.map(([place]) => place)}::text[], ${asked.map(([, price]) => price)}::text[]) as asked (place, price)
      on conflict (place, price) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
  }
}
