import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

import { systemClock, type Clock } from '../system/clock.ts'
import { Faults } from './faults.ts'
import { Tallies } from './tallies.ts'
import {
  HistogramMetric,
  NumberMetric,
  type Cells,
  type CounterCell,
  type GaugeCell,
  type HistogramCell
} from './metric-cells.ts'

export type { Counter, Gauge, Histogram } from 'prom-client'
export type { Cells, CounterCell, GaugeCell, HistogramCell } from './metric-cells.ts'

/** Milliseconds that a render waits for a sample. */
const SLOWEST_SAMPLE = 500

type MetricLabels = Readonly<Record<string, string | number | undefined>>

/** Each name is registered once: a second request returns the same metric, so that a reload does not fail. */
export class Metrics {
  readonly faults = new Faults()
  readonly tallies = new Tallies()
  readonly #registry = new Registry()
  readonly #shapes = new Map<string, string>()
  readonly #clock: Pick<Clock, 'after'>

  constructor(clock: Pick<Clock, 'after'> = systemClock) {
    this.#clock = clock
  }

  get contentType(): string {
    return this.#registry.contentType
  }

  /** @throws TypeError when the name is taken by another kind, or with other labels. */
  counter<L extends string = never>(name: string, help: string, labels: readonly L[] = []): Counter<L> {
    return this.#once(
      'counter',
      name,
      labels,
      () => new Counter({ name, help, labelNames: [...labels], registers: [this.#registry] })
    )
  }

  /** @throws TypeError like `counter`. */
  gauge<L extends string = never>(name: string, help: string, labels: readonly L[] = []): Gauge<L> {
    return this.#once(
      'gauge',
      name,
      labels,
      () => new Gauge({ name, help, labelNames: [...labels], registers: [this.#registry] })
    )
  }

  /** `buckets` are upper bounds in the unit of the name (seconds, bytes). @throws TypeError like `counter`. */
  histogram<L extends string = never>(
    name: string,
    help: string,
    labels: readonly L[],
    buckets: readonly number[]
  ): Histogram<L> {
    return this.#once(
      'histogram',
      name,
      labels,
      () => new Histogram({ name, help, labelNames: [...labels], buckets: [...buckets], registers: [this.#registry] })
    )
  }

  /**
   * A `counter` for the hot path, much cheaper to change. `counter` does not return it. @throws TypeError like
   * `counter`.
   */
  counterCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, CounterCell> {
    return this.#cells('counter', name, labels, () => new NumberMetric(name, help, 'counter'))
  }

  /** A gauge like `counterCells`. @throws TypeError like `counter`. */
  gaugeCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, GaugeCell> {
    return this.#cells('gauge', name, labels, () => new NumberMetric(name, help, 'gauge'))
  }

  /** A histogram of seconds with the latency bounds, like `counterCells`. @throws TypeError like `counter`. */
  latencyCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, HistogramCell> {
    return this.#cells('latency', name, labels, () => new HistogramMetric(name, help))
  }

  /** A counter's or gauge's values by labels; empty when unregistered. */
  async numbers(name: string): Promise<ReadonlyArray<{ readonly labels: MetricLabels; readonly value: number }>> {
    return (await this.#registry.getSingleMetric(name)?.get())?.values ?? []
  }

  /**
   * Counts of a `latencyCells` by labels: one per bound of `LATENCY_PART_BOUNDS`, and one more; empty when
   * unregistered.
   */
  latencies(name: string): ReadonlyArray<{ readonly labels: MetricLabels; readonly counts: ArrayLike<number> }> {
    const metric: unknown = this.#registry.getSingleMetric(name)
    return metric instanceof HistogramMetric ? metric.changed : []
  }

  /**
   * A gauge sampled on render, one sample at a time. While a sample is late or fails, the last values are shown: a
   * scrape must not wait for a database. @throws TypeError like `counter`.
   */
  sampled<L extends string>(
    name: string,
    help: string,
    labels: readonly L[],
    sample: () => Promise<ReadonlyArray<{ readonly labels: Readonly<Record<L, string>>; readonly value: number }>>
  ): void {
    this.#once('sampled gauge', name, labels, () => {
      let sampling: Promise<void> | null = null
      const show = async (): Promise<void> => {
        const samples = await sample()
        gauge.reset()
        for (const { labels, value } of samples) gauge.set(labels, value)
      }
      const gauge: Gauge<L> = new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers: [this.#registry],
        collect: async () => {
          sampling ??= show()
            .catch(() => {})
            .finally(() => {
              sampling = null
            })
          const late = Promise.withResolvers<void>()
          const timer = this.#clock.after(SLOWEST_SAMPLE, late.resolve)
          await Promise.race([sampling, late.promise])
          timer.cancel()
        }
      })
      return gauge
    })
  }

  /** Adds process metrics (CPU, memory, event loop, garbage collection). Call at most once. */
  measureProcess(): void {
    collectDefaultMetrics({ register: this.#registry })
  }

  render(): Promise<string> {
    return this.#registry.metrics()
  }

  #cells<M extends NumberMetric | HistogramMetric>(
    kind: string,
    name: string,
    labels: readonly string[],
    make: () => M
  ): M {
    return this.#once(`${kind} of cells`, name, labels, () => {
      const metric = make()
      this.#registry.registerMetric(metric.forRegistry())
      return metric
    })
  }

  #once<M>(kind: string, name: string, labels: readonly string[], make: () => M): M {
    const shape = `${kind}(${labels.join(', ')})`
    const known = this.#shapes.get(name)
    if (known === undefined) {
      this.#shapes.set(name, shape)
      return make()
    }
    if (known !== shape) throw new TypeError(`The metric ${name} is a ${known} already and cannot be a ${shape} too`)
    // The same name and shape were made by the same method above, so it is of this type.
    return this.#registry.getSingleMetric(name) as M
  }
}
