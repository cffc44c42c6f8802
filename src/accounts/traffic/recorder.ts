import { hostname } from 'node:os'
import { inTime, type Clock, type Timer } from '../../platform/system/clock.ts'
import { freshId } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { TrafficBatch, TrafficStore } from './store.ts'
import { type MeasuredStep, add, nothingMeasured, type MeasuredNumber, type Measured } from './measured.ts'

/** Rows per statement: serializing ten thousand would block the event loop. */
const AT_ONCE = 500
/** Rows buffered during a database outage; further ones are dropped. */
const MOST = 20_000

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** Minutes buffered during a database outage; then the oldest is dropped. */
const MOST_MINUTES = 60

/** Milliseconds that a shutdown waits for the last write. */
const LAST_WRITE = 2_000

interface RecorderDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly store: Pick<TrafficStore, 'write'>
  generation(): number
}

export class TrafficRecorder {
  readonly #dependencies: RecorderDependencies
  readonly #reading: TrafficReading
  readonly #id = freshId()
  readonly #startedAt: number
  #minutes: MeasuredStep[][] = []
  /** Sent with an unknown outcome; sent again unchanged. */
  #unsure: TrafficBatch | null = null
  readonly #proxies = new Map<string, MeasuredStep>()
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

  start(): void {
    if (this.#timer === null) this.#wait()
  }

  /** Flushes, unless the database was just down; bounded, so as not to delay a shutdown. Never throws. */
  async close(): Promise<void> {
    if (this.#timer === null) return
    this.#timer.cancel()
    this.#timer = null
    await inTime(this.#dependencies.clock, LAST_WRITE, this.#last(), undefined)
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
    this.#addProxies(Math.floor(at / HOUR) * HOUR)
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

  #addProxies(hour: number): void {
    for (const { key, ...counted } of this.#dependencies.metrics.tallies.take()) {
      const id = `${hour} ${key}`
      let row = this.#proxies.get(id)
      if (row === undefined) {
        if (this.#proxies.size >= MOST) continue
        this.#proxies.set(id, (row = { at: hour, route: key, ...nothingMeasured() }))
      }
      add(row, counted)
    }
  }

  #batch(): TrafficBatch | null {
    const { clock, generation, metrics } = this.#dependencies
    const faults = metrics.faults.take()
    const rows = this.#minutes.flat()
    const proxies: MeasuredStep[] = []
    for (const [id, row] of this.#proxies) {
      if (proxies.length === AT_ONCE) break
      proxies.push(row)
      this.#proxies.delete(id)
    }
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

/** Distinct routes per minute, which bounds disk usage. */
const MOST_ROUTES = 200
/** Name for all further routes; no route can have it. */
const OTHER_ROUTES = '…'

const OF_ROUTES = {
  // Before the 402s, which include them.
  boltgate_probes_total: 'probes',
  boltgate_payment_required_total: 'asked',
  boltgate_paid_requests_total: 'paidRequests',
  boltgate_upstream_failures_total: 'upstreamFailures',
  boltgate_requests_unfinished_total: 'unfinished'
} as const satisfies Readonly<Record<string, MeasuredNumber>>

/** Counters without a route: requests, jobs and notifications all sell. */
const OF_ALL = {
  boltgate_payments_total: 'sales',
  boltgate_satoshis_earned_total: 'sats'
} as const satisfies Readonly<Record<string, MeasuredNumber>>

/** Reads the gateway's Prometheus metrics as increments since the last reading. Adds no work to requests. */
class TrafficReading {
  readonly #metrics: Metrics
  readonly #before = new Map<string, number>()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
  }

  /** By route, with the total under the empty name; without empty routes. */
  async read(): Promise<Map<string, Measured>> {
    const routes = new Map<string, Measured>()
    const of = (route: unknown): Measured => {
      const name = String(route)
      const held = routes.get(name)
      if (held !== undefined) return held
      const fresh = nothingMeasured()
      routes.set(name, fresh)
      return fresh
    }
    for (const { labels, value } of await this.#metrics.numbers('boltgate_requests_total')) {
      const gained = this.#gained(['requests', labels], value)
      if (gained === 0) continue
      const measured = of(labels['route'])
      measured.requests += gained
      if (labels['status'] === '4xx') measured.clientErrors += gained
      if (labels['status'] === '5xx') measured.serverErrors += gained
    }
    for (const [name, counted] of Object.entries(OF_ROUTES))
      for (const { labels, value } of await this.#metrics.numbers(name)) {
        const gained = this.#gained([name, labels], value)
        if (gained > 0) of(labels['route'])[counted] += gained
      }
    for (const { labels, counts } of this.#metrics.latencies('boltgate_request_duration_seconds'))
      for (let bucket = 0; bucket < counts.length; bucket++) {
        const gained = this.#gained(['latency', labels, bucket], counts[bucket] ?? 0)
        if (gained > 0) of(labels['route']).latencies.set(bucket, gained)
      }
    // 402 is the expected answer of a priced route.
    for (const measured of routes.values()) {
      measured.clientErrors = Math.max(0, measured.clientErrors - measured.asked)
      measured.asked = Math.max(0, measured.asked - measured.probes)
    }
    const all = nothingMeasured()
    for (const measured of routes.values()) add(all, measured)
    for (const [name, counted] of Object.entries(OF_ALL))
      for (const { labels, value } of await this.#metrics.numbers(name))
        all[counted] += this.#gained([name, labels], value)
    const reduced = fewer(routes)
    if (reduced.size > 0 || all.sales > 0 || all.sats > 0) reduced.set('', all)
    return reduced
  }

  #gained(key: unknown, value: number): number {
    if (value === 0) return 0
    const name = JSON.stringify(key)
    const gained = value - (this.#before.get(name) ?? 0)
    if (gained !== 0) this.#before.set(name, value)
    return gained
  }
}

function fewer(routes: Map<string, Measured>): Map<string, Measured> {
  if (routes.size <= MOST_ROUTES) return routes
  const byRequests = [...routes].sort(([, one], [, other]) => other.requests - one.requests)
  const others = nothingMeasured()
  for (const [, measured] of byRequests.slice(MOST_ROUTES - 1)) add(others, measured)
  return new Map([...byRequests.slice(0, MOST_ROUTES - 1), [OTHER_ROUTES, others]])
}
