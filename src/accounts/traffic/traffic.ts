import { invalidField } from '../../engine/operations/field-errors.ts'
import { requireWritable } from '../../engine/formats/iso-time.ts'
import type { TimeSpan } from '../../engine/operations/keyset.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { FaultSum } from '../../platform/telemetry/tallies.ts'
import { summed, totalOf, type Measured, type MeasuredStep } from './measured.ts'
import { GRAINS, KEPT, PROXY_HOURS_KEPT, type Grain, type TrafficProcess, type TrafficStore } from './store.ts'

const MINUTE = 60_000

export const TRAFFIC_STEPS = {
  '1m': MINUTE,
  '5m': 5 * MINUTE,
  '15m': 15 * MINUTE,
  '1h': 60 * MINUTE,
  '6h': 360 * MINUTE,
  '1d': 1440 * MINUTE
} as const
export type TrafficStep = keyof typeof TRAFFIC_STEPS

const MOST_STEPS = 1_500
const MOST_STEPS_OF_ROUTES = 100

interface TrafficSums {
  readonly step: TrafficStep
  /** Whole steps, `to` exclusive. */
  readonly from: number
  readonly to: number
  readonly total: Measured
  /** Without empty steps. */
  readonly points: readonly MeasuredStep[]
}

/** Step lengths for merchants and their grains. */
export const PROXY_STEPS = { '1h': 'hour', '1d': 'day' } as const
export type ProxyStep = keyof typeof PROXY_STEPS

interface ProxySums extends Omit<TrafficSums, 'step'> {
  readonly step: ProxyStep
  /** Busiest first; `route` is the proxy's id. */
  readonly proxies: readonly MeasuredStep[]
}

export class Traffic {
  readonly #store: TrafficStore
  readonly #clock: Clock

  constructor(store: TrafficStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /**
   * Sums by step of one route, or of all (empty name). Defaults: the last day, about a hundred steps.
   * @throws ValidationError for an invalid period or too many steps
   */
  async sums(span: TimeSpan, wanted: TrafficStep | undefined, route = ''): Promise<TrafficSums> {
    const { step, from, to } = this.#period(span, wanted, MOST_STEPS)
    const rows = await this.#store.steps({ grain: grainOf(TRAFFIC_STEPS[step]), from, to, route })
    const points = summed(rows, at => Math.floor(at / TRAFFIC_STEPS[step]) * TRAFFIC_STEPS[step])
    return { step, from, to, total: totalOf(points), points }
  }

  /**
   * By route, busiest first.
   * @throws ValidationError like `sums`
   */
  async byRoute(
    span: TimeSpan,
    wanted: TrafficStep | undefined
  ): Promise<Omit<TrafficSums, 'points'> & { routes: MeasuredStep[] }> {
    const { step, from, to } = this.#period(span, wanted ?? '1h', MOST_STEPS_OF_ROUTES)
    const rows = await this.#store.steps({ grain: grainOf(TRAFFIC_STEPS[step]), from, to, route: { each: true } })
    const all = await this.#store.steps({ grain: grainOf(TRAFFIC_STEPS[step]), from, to, route: '' })
    const routes = summed(rows, () => from).sort((one, other) => other.requests - one.requests)
    return { step, from, to, total: totalOf(all), routes }
  }

  async recent(minutes: number): Promise<Measured> {
    const now = Math.floor(this.#clock.now() / MINUTE) * MINUTE
    return totalOf(await this.#store.steps({ grain: 'minute', from: now - minutes * MINUTE, to: now, route: '' }))
  }

  async latelyByRoute(minutes: number): Promise<MeasuredStep[]> {
    const now = Math.floor(this.#clock.now() / MINUTE) * MINUTE
    const from = now - minutes * MINUTE
    return summed(await this.#store.steps({ grain: 'minute', from, to: now, route: { each: true } }), () => from)
  }

  /** Failures of the last day, newest first, at most `most` per route. */
  async faults(most: number): Promise<FaultSum[]> {
    return await this.#store.faults(this.#clock.now() - GRAINS.day, most)
  }

  async processes(): Promise<TrafficProcess[]> {
    return await this.#store.processes(this.#clock.now() - 3 * MINUTE)
  }

  /**
   * Sums of one or all proxies of an account; default: the last day. By hour up to two days, else by day. Empty for
   * another account's proxy.
   * @throws ValidationError for an invalid period or one beyond retention
   */
  async ofProxies(
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
  #period(
    { from, to }: TimeSpan,
    wanted: TrafficStep | undefined,
    most: number
  ): { step: TrafficStep; from: number; to: number } {
    const end = to ?? this.#clock.now()
    const begin = from ?? end - GRAINS.day
    if (begin >= end) throw invalidField('/from', 'Must be before `to`.')
    const step = wanted ?? fitting(end - begin)
    const length = TRAFFIC_STEPS[step]
    const steps = Math.ceil(end / length) - Math.floor(begin / length)
    if (steps > most) throw invalidField('/from', `Must be at most ${most} steps of ${step} before \`to\`.`)
    const [first, last] = wholeSteps(begin, end, length)
    return { step, from: first, to: last }
  }
}

/**
 * The whole steps of a period.
 * @throws ValidationError for a period beyond retention or the calendar
 */
function wholeSteps(begin: number, end: number, length: number): [first: number, last: number] {
  const [first, last] = [Math.floor(begin / length) * length, Math.ceil(end / length) * length]
  if (last - first > KEPT + 2 * GRAINS.day) throw invalidField('/from', 'Must be at most 30 days before `to`.')
  requireWritable(first, last)
  return [first, last]
}

/** The shortest step with at most some hundred in the period. */
function fitting(period: number): TrafficStep {
  const steps = Object.entries(TRAFFIC_STEPS) as Array<[TrafficStep, number]> /* the object's own entries */
  return steps.find(([, length]) => period / length <= 200)?.[0] ?? '1d'
}

function grainOf(step: number): Grain {
  return (['day', 'hour', 'quarter'] as const).find(grain => step % GRAINS[grain] === 0) ?? 'minute'
}
