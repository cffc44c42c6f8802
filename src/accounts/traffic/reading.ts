import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { add, nothingMeasured, type MeasuredNumber, type Measured } from './measured.ts'

/** Distinct routes per minute, which bounds disk usage. */
const MOST_ROUTES = 200
/** Name for all further routes; no route can have it. */
export const OTHER_ROUTES = '…'

/** Counters of `metrics` that are one number each. */
const OF_ROUTES = {
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
export class TrafficReading {
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
    for (const measured of routes.values()) measured.clientErrors = Math.max(0, measured.clientErrors - measured.asked)
    const all = nothingMeasured()
    for (const measured of routes.values()) add(all, measured)
    for (const [name, counted] of Object.entries(OF_ALL))
      for (const { labels, value } of await this.#metrics.numbers(name))
        all[counted] += this.#gained([name, labels], value)
    const told = fewer(routes)
    if (told.size > 0 || all.sales > 0 || all.sats > 0) told.set('', all)
    return told
  }

  #gained(key: unknown, value: number): number {
    if (value === 0) return 0
    const name = JSON.stringify(key)
    const gained = value - (this.#before.get(name) ?? 0)
    if (gained !== 0) this.#before.set(name, value)
    return gained
  }
}

/** Keeps the busiest routes and merges the others. */
function fewer(routes: Map<string, Measured>): Map<string, Measured> {
  if (routes.size <= MOST_ROUTES) return routes
  const byRequests = [...routes].sort(([, one], [, other]) => other.requests - one.requests)
  const others = nothingMeasured()
  for (const [, measured] of byRequests.slice(MOST_ROUTES - 1)) add(others, measured)
  return new Map([...byRequests.slice(0, MOST_ROUTES - 1), [OTHER_ROUTES, others]])
}
