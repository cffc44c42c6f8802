import { requireWritable } from '../../engine/formats/calendar.ts'
import type { TimeSpan } from '../../engine/operations/keyset.ts'
import { invalidField } from '../../engine/operations/validation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { add, nothingMeasured, summed, type Measured, type MeasuredStep } from './measured.ts'
import { GRAINS, KEPT, PROXY_HOURS_KEPT, type TrafficStore } from './store.ts'

/** Lengths of a step that merchants may ask for, by the sums that they are. */
export const PROXY_STEPS = { '1h': 'hour', '1d': 'day' } as const
export type ProxyStep = keyof typeof PROXY_STEPS

/** What requests of an account's proxies came to in some time. */
export interface ProxySums {
  readonly step: ProxyStep
  /** Milliseconds since the epoch; whole steps, and `to` is not among them. */
  readonly from: number
  readonly to: number
  readonly total: Measured
  /** Of all together. Steps without a request are left out. */
  readonly points: readonly MeasuredStep[]
  /** Each proxy that was asked, the busiest first; `route` is its id. */
  readonly proxies: readonly MeasuredStep[]
}

/** What requests of merchants' proxies came to, over all processes that share the database. */
export class ProxyTraffic {
  readonly #store: TrafficStore
  readonly #clock: Clock

  constructor(store: TrafficStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * Of one proxy of an account or of all: a day up to now unless said, by hour up to two days and else by day. Of a proxy
   * that is not the account's there is nothing. @throws ValidationError for a period that ends before it begins, or is not kept
   */
  async sums(
    merchantId: number,
    proxyId: string | null,
    { from, to }: TimeSpan,
    wanted: ProxyStep | undefined
  ): Promise<ProxySums> {
    const now = this.#clock.now()
    const end = to ?? now
    const begin = from ?? end - GRAINS.day
    if (begin >= end) throw invalidField('/from', 'Must be before `to`.')
    const step = wanted ?? (end - begin <= 2 * GRAINS.day && begin >= now - PROXY_HOURS_KEPT ? '1h' : '1d')
    const grain = PROXY_STEPS[step]
    const first = Math.floor(begin / GRAINS[grain]) * GRAINS[grain]
    const last = Math.ceil(end / GRAINS[grain]) * GRAINS[grain]
    if (grain === 'hour' && begin < now - PROXY_HOURS_KEPT)
      throw invalidField('/from', `Must be within the last ${PROXY_HOURS_KEPT / GRAINS.day} days by hour; ask by day.`)
    if (last - first > KEPT + 2 * GRAINS.day) throw invalidField('/from', 'Must be at most 30 days before `to`.')
    requireWritable(first, last)
    const rows = await this.#store.proxySteps({ merchantId, proxyId, grain, from: first, to: last })
    const total = nothingMeasured()
    for (const row of rows) add(total, row)
    return {
      step,
      from: first,
      to: last,
      total,
      points: summed(
        rows.map(row => ({ ...row, route: '' })),
        at => at
      ),
      proxies: summed(rows, () => first).sort((one, other) => other.requests - one.requests)
    }
  }
}
