import type { Clock, Timer } from '../system/clock.ts'
import type { Database, Sql } from '../database/database.ts'
import type { Log } from '../telemetry/log.ts'
import type { PriceGrace } from './price-grace.ts'

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
  #now: ReadonlyMap<string, number> = new Map()
  readonly #former = new Map<string, Map<number, number>>()
  /** The database has not heard of the prices of now. */
  #unwritten = true
  #started = false
  #timer: Timer | null = null
  #syncing: Promise<void> | null = null

  constructor(database: Database, clock: Clock, log: Log) {
    this.#database = database
    this.#clock = clock
    this.#log = log
  }

  /** These prices are asked from now on, by place; the ones before them no longer. 0 is free. */
  ask(prices: ReadonlyMap<string, number>): void {
    const at = this.#clock.now()
    for (const [place, amountSats] of this.#now) {
      if (prices.get(place) !== amountSats) this.#asked(place, amountSats, at)
    }
    this.#now = prices
    this.#unwritten = true
    if (this.#started) void this.sync()
  }

  /** The grace of a place; null for none. */
  grace(place: string, duration: number): PriceGrace | null {
    return duration === 0 ? null : { duration, until: amountSats => this.#former.get(place)?.get(amountSats) ?? null }
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
    await this.#syncing
    if (!this.#started) return
    // The processes that go on with other prices hear until when these were asked.
    await this.#quietly(() => (this.#unwritten ? this.#sync() : this.#writeAsked(this.#database.sql, this.#now)))
  }

  /** Writes what is not written and reads again. Never rejects. */
  sync(): Promise<void> {
    return (this.#syncing ??= this.#quietly(() => this.#sync()).finally(() => {
      this.#syncing = null
    }))
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
    while (this.#unwritten) {
      this.#unwritten = false
      try {
        await this.#write()
      } catch (error) {
        this.#unwritten = true
        throw error
      }
    }
    const since = new Date(this.#clock.now() - LONGEST_GRACE)
    const rows = await this.#database.sql<{ place: string; amount_sats: bigint; asked_until: Date }[]>`
      select place, amount_sats, asked_until from offered_prices where place = any(${[...this.#now.keys()]}) and asked_until > ${since}`
    const latest = new Map<string, { readonly amountSats: number; readonly until: number }>()
    for (const row of rows) {
      const [amountSats, until] = [Number(row.amount_sats), row.asked_until.getTime()]
      this.#asked(row.place, amountSats, until)
      if (until > (latest.get(row.place)?.until ?? 0)) latest.set(row.place, { amountSats, until })
    }
    // Where a process with another price has ended since, that would count as asked until the next change.
    const overtaken = [...this.#now].filter(
      ([place, amountSats]) => (latest.get(place)?.amountSats ?? amountSats) !== amountSats
    )
    if (overtaken.length > 0) await this.#writeAsked(this.#database.sql, overtaken)
  }

  #asked(place: string, amountSats: number, until: number): void {
    const prices = this.#former.get(place) ?? new Map<number, number>()
    prices.set(amountSats, Math.max(until, prices.get(amountSats) ?? 0))
    this.#former.set(place, prices)
  }

  async #write(): Promise<void> {
    const at = this.#clock.now()
    const now = [...this.#now]
    if (now.length === 0) return
    const former = [...this.#former].flatMap(([place, prices]) =>
      [...prices].map(([amountSats, until]) => ({ place, amountSats, until }))
    )
    await this.#database.transaction(async tx => {
      await tx`
        insert into offered_prices (place, amount_sats, asked_until)
        select place, amount_sats, asked_until::timestamptz
        from unnest(${former.map(row => row.place)}::text[], ${former.map(row => row.amountSats)}::bigint[], ${former.map(row => new Date(row.until).toISOString())}::text[])
          as former (place, amount_sats, asked_until)
        on conflict (place, amount_sats) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
      // The price that was asked last, by whichever process, was asked until now.
      await tx`
        update offered_prices set asked_until = ${new Date(at)}
        from unnest(${now.map(([place]) => place)}::text[], ${now.map(([, amountSats]) => amountSats)}::bigint[]) as asked (place, amount_sats)
        where offered_prices.place = asked.place and offered_prices.amount_sats <> asked.amount_sats and offered_prices.asked_until < ${new Date(at)}
          and offered_prices.asked_until = (select max(last.asked_until) from offered_prices last where last.place = asked.place)`
      await this.#writeAsked(tx, now)
      await tx`delete from offered_prices where asked_until < ${new Date(at - 2 * LONGEST_GRACE)} and not place = any(${now.map(([place]) => place)})`
    })
  }

  /**
   * Prices that are asked at this moment, later than what they follow: so each is the one of its place that was asked
   * last.
   */
  async #writeAsked(sql: Sql, prices: Iterable<readonly [place: string, amountSats: number]>): Promise<void> {
    const asked = [...prices]
    if (asked.length === 0) return
    await sql`
      insert into offered_prices (place, amount_sats, asked_until)
      select asked.place, asked.amount_sats, ${new Date(this.#clock.now() + 1)}
      from unnest(${asked.map(([place]) => place)}::text[], ${asked.map(([, amountSats]) => amountSats)}::bigint[]) as asked (place, amount_sats)
      on conflict (place, amount_sats) do update set asked_until = greatest(offered_prices.asked_until, excluded.asked_until)`
  }
}
