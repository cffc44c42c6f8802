import { hostname } from 'node:os'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import { freshId } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { type MeasuredStep, add, nothingMeasured } from './measured.ts'
import { TrafficReading } from './reading.ts'
import type { TrafficBatch, TrafficStore } from './store.ts'
import type { Tallied } from '../../platform/telemetry/tallies.ts'

/** Rows per statement: serializing ten thousand would block the event loop. */
const AT_ONCE = 500
/** Rows buffered during a database outage; further ones are dropped. */
const MOST = 20_000

/** Unwritten proxy traffic by proxy and hour. */
class PendingProxies {
  readonly #rows = new Map<string, MeasuredStep>()

  /** @param at start of the hour, in milliseconds since the epoch */
  add(at: number, tallied: readonly Tallied[]): void {
    for (const { key, ...counted } of tallied) {
      const id = `${at} ${key}`
      let row = this.#rows.get(id)
      if (row === undefined) {
        if (this.#rows.size >= MOST) continue
        this.#rows.set(id, (row = { at, route: key, ...nothingMeasured() }))
      }
      add(row, { ...counted, sales: 0, sats: 0 })
    }
  }

  /** Removes and returns the rows of the next statement. */
  take(): MeasuredStep[] {
    const taken: MeasuredStep[] = []
    for (const [id, row] of this.#rows) {
      if (taken.length === AT_ONCE) break
      taken.push(row)
      this.#rows.delete(id)
    }
    return taken
  }
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** Minutes buffered during a database outage; then the oldest is dropped. */
const MOST_MINUTES = 60

/** Milliseconds that a shutdown waits for the last write. */
const LAST_WRITE = 2_000

export interface RecorderDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly store: Pick<TrafficStore, 'write'>
  /** Generation of the configuration. */
  generation(): number
}

/** Writes this process's measurements to the database once a minute, usually in one statement. */
export class TrafficRecorder {
  readonly #dependencies: RecorderDependencies
  readonly #reading: TrafficReading
  readonly #id = freshId()
  readonly #startedAt: number
  /** Unsent rows of each minute, oldest first. */
  #minutes: MeasuredStep[][] = []
  /** Sent with an unknown outcome; sent again unchanged. */
  #unsure: TrafficBatch | null = null
  /** Unsent sums of proxies by hour. */
  readonly #proxies = new PendingProxies()
  #written = 0
  #lostMinutes = 0
  #since: number
  #timer: Timer | null = null
  #writing: Promise<void> | null = null

  constructor(dependencies: RecorderDependencies) {
    this.#dependencies = dependencies
    this.#reading = new TrafficReading(dependencies.metrics)
    this.#startedAt = this.#since = dependencies.clock.now()
  }

  /** Starts writing at the end of each minute. Idempotent. */
  start(): void {
    if (this.#timer === null) this.#wait()
  }

  /** Flushes, unless the database was just down; bounded, so as not to delay a shutdown. Never throws. */
  async close(): Promise<void> {
    if (this.#timer === null) return
    this.#timer.cancel()
    this.#timer = null
    const late = Promise.withResolvers<void>()
    const timer = this.#dependencies.clock.after(LAST_WRITE, late.resolve)
    await Promise.race([this.#last(), late.promise])
    timer.cancel()
  }

  async #last(): Promise<void> {
    await this.#writing
    if (this.#unsure === null) await this.tell()
  }

  /** Reads new measurements and writes all unwritten ones. Never throws: failed writes are buffered. */
  tell(): Promise<void> {
    this.#writing ??= this.#tell().finally(() => {
      this.#writing = null
    })
    return this.#writing
  }

  #wait(): void {
    const { clock } = this.#dependencies
    this.#timer = clock.after(MINUTE - (clock.now() % MINUTE), () => {
      if (this.#timer !== null) this.#wait()
      void this.tell()
    })
  }

  async #tell(): Promise<void> {
    const { log, store } = this.#dependencies
    await this.#read()
    try {
      do {
        if (this.#unsure !== null) await store.write(this.#unsure)
        this.#unsure = this.#batch()
      } while (this.#unsure !== null)
    } catch (error) {
      log.warn(
        { err: error, minutes: this.#minutes.length + 1 },
        'measurements could not be written; they are kept and written later'
      )
    }
  }

  async #read(): Promise<void> {
    const { clock, log } = this.#dependencies
    const at = Math.floor(this.#since / MINUTE) * MINUTE
    this.#since = clock.now()
    this.#proxies.add(Math.floor(at / HOUR) * HOUR, this.#dependencies.metrics.tallies.take())
    const rows = [...(await this.#reading.read())].map(([route, measured]) => ({ at, route, ...measured }))
    if (rows.length === 0) return
    this.#minutes.push(rows)
    if (this.#minutes.length <= MOST_MINUTES) return
    this.#minutes.shift()
    this.#lostMinutes++
    log.warn(
      { lost: this.#lostMinutes },
      'a minute of measurements was dropped: the database has been away for too long'
    )
  }

  /** The unsent batch; null when empty. */
  #batch(): TrafficBatch | null {
    const { clock, generation, metrics } = this.#dependencies
    const faults = metrics.faults.take()
    const rows = this.#minutes.flat()
    const proxies = this.#proxies.take()
    if (rows.length === 0 && faults.length === 0 && proxies.length === 0) return null
    this.#minutes = []
    return {
      process: {
        id: this.#id,
        pid: process.pid,
        host: hostname(),
        generation: generation(),
        startedAt: this.#startedAt,
        seenAt: clock.now(),
        written: ++this.#written,
        lostMinutes: this.#lostMinutes
      },
      rows,
      proxies,
      faults
    }
  }
}
