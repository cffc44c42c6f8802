import { wholeSteps } from './traffic.ts'
import type { TimeSpan } from '../../engine/operations/keyset.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { GRAINS, PROXY_HOURS_KEPT, type TrafficStore } from './store.ts'
import { summed, totalOf, type Measured, type MeasuredStep } from './measured.ts'

/** Step lengths for merchants and their grains. */
export const PROXY_STEPS = { '1h': 'hour', '1d': 'day' } as const
export type ProxyStep = keyof typeof PROXY_STEPS

interface ProxySums {
  readonly step: ProxyStep
  /** Whole steps, `to` exclusive. */
  readonly from: number
  readonly to: number
  readonly total: Measured
  /** All proxies together, without empty steps. */
  readonly points: readonly MeasuredStep[]
  /** Busiest first; `route` is the proxy's id. */
  readonly proxies: readonly MeasuredStep[]
}

export class ProxyTraffic {
  readonly #store: TrafficStore
  readonly #clock: Clock

  constructor(store: TrafficStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * Sums of one or all proxies of an account; default: the last day. By hour up to two days, else by day. Empty for
   * another account's proxy.
   * @throws ValidationError for an invalid period or one beyond retention
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
    if (grain === 'hour' && begin < now - PROXY_HOURS_KEPT)
      throw invalidField('/from', `Must be within the last ${PROXY_HOURS_KEPT / GRAINS.day} days by hour; ask by day.`)
    const [first, last] = wholeSteps(begin, end, GRAINS[grain])
    const rows = await this.#store.proxySteps({ merchantId, proxyId, grain, from: first, to: last })
    return {
      step,
      from: first,
      to: last,
      total: totalOf(rows),
      points: summed(
        rows.map(row => ({ ...row, route: '' })),
        at => at
      ),
      proxies: summed(rows, () => first).sort((one, other) => other.requests - one.requests)
    }
  }
}
