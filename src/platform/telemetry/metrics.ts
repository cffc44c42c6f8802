import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

import { Faults } from './faults.ts'
import { LATENCY_BOUNDS, LATENCY_PARTS } from './latency.ts'
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

type MetricLabels = Readonly<Record<string, string | number | undefined>>

/**
 * The gateway's measurements, in Prometheus' text form. Each is made once by its name: a second plugin that asks for
 * the same one gets the same one, so that a reload does not fail.
 */
export class Metrics {
  /** How requests failed lately. */
  readonly faults = new Faults()
  /** Requests by what of a route they were for. */
  readonly tallies = new Tallies()
  readonly #registry = new Registry()
  readonly #shapes = new Map<string, string>()

  /** What `render` gives, for the Content-Type header. */
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
   * A counter for what every request changes: rendered like a `counter`, and by far cheaper to change. It is of cells
   * alone;
   * `counter` does not give it. @throws TypeError like `counter`.
   */
  counterCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, CounterCell> {
    return this.#cells('counter', name, labels, () => new NumberMetric(name, help, 'counter'))
  }

  /** A gauge like `counterCells`. @throws TypeError like `counter`. */
  gaugeCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, GaugeCell> {
    return this.#cells('gauge', name, labels, () => new NumberMetric(name, help, 'gauge'))
  }

  /** A histogram like `counterCells`; `buckets` are upper bounds, ascending. @throws TypeError like `counter`. */
  histogramCells<L extends string>(
    name: string,
    help: string,
    labels: readonly L[],
    buckets: readonly number[]
  ): Cells<L, HistogramCell> {
    return this.#cells('histogram', name, labels, () => new HistogramMetric(name, help, buckets))
  }

  /** A histogram of seconds like `histogramCells`, with the bounds that latencies have. @throws TypeError like `counter`. */
  latencyCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, HistogramCell> {
    return this.#cells('latency', name, labels, () => new HistogramMetric(name, help, LATENCY_BOUNDS, LATENCY_PARTS))
  }

  /** What a counter or gauge stands at, by labels; nothing where nobody has made it. */
  async numbers(name: string): Promise<ReadonlyArray<{ readonly labels: MetricLabels; readonly value: number }>> {
    return (await this.#registry.getSingleMetric(name)?.get())?.values ?? []
  }

  /**
   * What a `latencyCells` has counted, by labels: one count for each bound of `LATENCY_PART_BOUNDS`, and one more; nothing
   * where nobody has made it.
   */
  latencies(name: string): ReadonlyArray<{ readonly labels: MetricLabels; readonly counts: ArrayLike<number> }> {
    const metric: unknown = this.#registry.getSingleMetric(name)
    return metric instanceof HistogramMetric ? metric.changed : []
  }

  /**
   * A gauge whose values are asked for when the measurements are rendered; it has none where `sample` rejects, since
   * the others must be seen all the same. @throws TypeError like `counter`.
   */
  sampled<L extends string>(
    name: string,
    help: string,
    labels: readonly L[],
    sample: () => Promise<ReadonlyArray<{ readonly labels: Readonly<Record<L, string>>; readonly value: number }>>
  ): void {
    this.#once('sampled gauge', name, labels, () => {
      const gauge: Gauge<L> = new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers: [this.#registry],
        collect: async () => {
          const samples = await sample().catch(() => [])
          gauge.reset()
          for (const { labels, value } of samples) gauge.set(labels, value)
        }
      })
      return gauge
    })
  }

  /** Adds the process's own measurements (CPU, memory, event loop, garbage collection). Call at most once. */
  measureProcess(): void {
    collectDefaultMetrics({ register: this.#registry })
  }

  /** Everything measured so far, as text. */
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
