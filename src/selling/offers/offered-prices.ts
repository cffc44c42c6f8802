import { iso } from '../../engine/formats/iso-time.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Rerun } from '../../platform/system/rerun.ts'
import { priceText, type PriceGrace } from './price-grace.ts'

/** Maximum grace of a former price. */
const LONGEST_GRACE = 30 * 86_400_000
const REREAD = 30_000

/**
 * Former prices of the operator's routes, and until when they were offered. A reload's change is known immediately, a
 * restart's from the database: the last price counts until the new one is offered. Rows are written on changes and at a
 * process's start and end, which covers processes with an older configuration.
 */
export class OfferedPrices {
  readonly #database: Database
  readonly #clock: Clock
  readonly #log: Log
  #now: ReadonlyMap<string, string> = new Map()
  readonly #former = new Map<string, Map<string, number>>()
  /** The database lacks the current prices. */
  #unwritten = true
  #started = false
  #timer: Timer | null = null
  // Prices that change during a read would be written half a minute late.
  readonly #syncing = new Rerun(() => this.#quietly(() => this.#sync()))

  constructor(database: Database, clock: Clock, log: Log) {
    this.#database = database
    this.#clock = clock
    this.#log = log
  }

  /** Replaces the offered prices, by place and as `priceText` writes them. */
  ask(prices: ReadonlyMap<string, string>): void {
    const at = this.#clock.now()
    for (const [place, price] of this.#now) {
      if (prices.get(place) !== price) this.#offered(place, price, at)
    }
    this.#now = prices
    this.#unwritten = true
    if (this.#started) void this.sync()
  }

  /** Grace of what is priced in these places, such as a route and one of its values. */
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

  /** Writes the prices and reads earlier ones. Resolves and retries if the database is down. */
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
    // Tells processes with other prices until when these were offered.
    await this.#quietly(() => (this.#unwritten ? this.#sync() : this.#writePrices(this.#database.sql, this.#now)))
  }

  /** Writes and rereads. Never rejects. */
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
      this.#offered(place, price, until)
      if (until > (latest.get(place)?.until ?? 0)) latest.set(place, { price, until })
    }
    // A process with another price may have ended since; its price would count as offered until the next change.
    const overtaken = [...this.#now].filter(([place, price]) => (latest.get(place)?.price ?? price) !== price)
    if (overtaken.length > 0) await this.#writePrices(this.#database.sql, overtaken)
  }

  #offered(place: string, price: string, until: number): void {
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
        from unnest(${former.map(row => row.place)}::text[], ${former.map(row => row.price)}::text[], ${former.map(row => iso(row.until))}::text[])
          as former (place, price, asked_until)
        on conflict (place, price) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
      // The last offered price, of whichever process, ends now.
      await tx`
        update offered_prices set asked_until = ${new Date(at)}
        from unnest(${now.map(([place]) => place)}::text[], ${now.map(([, price]) => price)}::text[]) as asked (place, price)
        where offered_prices.place = asked.place and offered_prices.price <> asked.price and offered_prices.asked_until < ${new Date(at)}
          and offered_prices.asked_until = (select max(last.asked_until) from offered_prices last where last.place = asked.place)`
      await this.#writePrices(tx, now)
      await tx`delete from offered_prices where asked_until < ${new Date(at - 2 * LONGEST_GRACE)} and not place = any(${now.map(([place]) => place)})`
    })
  }

  /** Marks these prices as offered now, later than what they follow: each becomes the last of its place. */
  async #writePrices(sql: Sql, prices: Iterable<readonly [place: string, price: string]>): Promise<void> {
    const offered = [...prices]
    if (offered.length === 0) return
    await sql`
      insert into offered_prices (place, price, asked_until)
      select asked.place, asked.price, ${new Date(this.#clock.now() + 1)}
      from unnest(${offered.map(([place]) => place)}::text[], ${offered.map(([, price]) => price)}::text[]) as asked (place, price)
      on conflict (place, price) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
  }
}
