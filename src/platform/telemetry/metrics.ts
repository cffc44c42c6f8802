import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics, type Metric } from 'prom-client'
import { inTime, systemClock, type Clock } from '../system/clock.ts'
import { Faults, Tallies } from './tallies.ts'
import { LATENCY_BOUNDS, LATENCY_PART_BOUNDS, LATENCY_PARTS, partOf } from './latency.ts'

export type { Counter, Gauge, Histogram } from 'prom-client'

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
    return this.#cells('counter', name, help, labels, NumberCell)
  }

  /** A gauge like `counterCells`. @throws TypeError like `counter`. */
  gaugeCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, GaugeCell> {
    return this.#cells('gauge', name, help, labels, NumberCell)
  }

  /** A histogram of seconds with the latency bounds, like `counterCells`. @throws TypeError like `counter`. */
  latencyCells<L extends string>(name: string, help: string, labels: readonly L[]): Cells<L, HistogramCell> {
    return this.#cells('histogram', name, help, labels, HistogramValue)
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
    return metric instanceof CellMetric ? metric.changed.filter(cell => cell instanceof HistogramValue) : []
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
          await inTime(this.#clock, SLOWEST_SAMPLE, sampling, undefined)
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

  #cells<C extends Cell>(
    type: CellMetric<C>['type'],
    name: string,
    help: string,
    labels: readonly string[],
    cell: NewCell<C>
  ): CellMetric<C> {
    return this.#once(`${type} of cells`, name, labels, () => {
      const metric = new CellMetric(name, help, type, cell)
      // Its type names classes; it only uses the name and `get`.
      this.#registry.registerMetric(metric as unknown as Metric)
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

export interface CounterCell {
  add(by: number): void
}

interface GaugeCell {
  add(by: number): void
}

interface HistogramCell {
  /** Throws TypeError for a non-finite number. */
  observe(value: number): void
}

export interface Cells<L extends string, C> {
  /** Always the same cell; labels are written in the order of the object. Keep it: this is a look-up. */
  cell(labels: Readonly<Record<L, string>>): C
}

type CellLabels = Readonly<Record<string, string>>

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly metricName?: string
  readonly value: number
}

interface Cell {
  readonly touched: boolean
  values(name: string): Value[]
}

/** `changed`: where it puts itself at its first change. */
type NewCell<C> = new (labels: CellLabels, changed: C[]) => C

/** Updated without prom-client, which resolves labels at every change and took a twentieth of a verified request. */
class CellMetric<C extends Cell> {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregator = 'sum'
  readonly #make: NewCell<C>
  readonly #byLabels = new Map<string, C>()
  /** In the order of their first change, like prom-client. */
  readonly changed: C[] = []

  constructor(name: string, help: string, type: CellMetric<C>['type'], make: NewCell<C>) {
    this.name = name
    this.help = help
    this.type = type
    this.#make = make
  }

  cell(labels: CellLabels): C {
    const key = JSON.stringify(labels)
    let cell = this.#byLabels.get(key)
    if (cell === undefined) this.#byLabels.set(key, (cell = new this.#make(labels, this.changed)))
    return cell
  }

  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Value[] }> {
    const { name, help, type, aggregator } = this
    return { name, help, type, aggregator, values: this.changed.flatMap(cell => cell.values(name)) }
  }
}

class NumberCell implements CounterCell, GaugeCell {
  touched = false
  readonly #labels: CellLabels
  readonly #changed: NumberCell[]
  #value = 0

  constructor(labels: CellLabels, changed: NumberCell[]) {
    this.#labels = labels
    this.#changed = changed
  }

  add(by: number): void {
    if (!this.touched) {
      this.touched = true
      this.#changed.push(this)
    }
    this.#value += by
  }

  values(): Value[] {
    return [{ labels: this.#labels, value: this.#value }]
  }
}

class HistogramValue implements HistogramCell {
  touched = false
  readonly labels: CellLabels
  /** Counts per part of a bucket; the last is above every bound. */
  readonly counts = new Float64Array(LATENCY_PART_BOUNDS.length + 1)
  readonly #changed: HistogramValue[]
  #count = 0
  #sum = 0

  constructor(labels: CellLabels, changed: HistogramValue[]) {
    this.labels = labels
    this.#changed = changed
  }

  observe(value: number): void {
    if (!Number.isFinite(value)) throw new TypeError(`Value is not a valid number: ${value}`)
    if (!this.touched) {
      this.touched = true
      this.#changed.push(this)
    }
    const at = partOf(value)
    this.counts[at] = (this.counts[at] as number) /* one more than there are bounds */ + 1
    this.#count++
    this.#sum += value
  }

  values(name: string): Value[] {
    const { labels } = this
    const metricName = `${name}_bucket`
    let below = 0
    const values: Value[] = LATENCY_BOUNDS.map((le, at) => {
      for (let part = at * LATENCY_PARTS; part < (at + 1) * LATENCY_PARTS; part++) below += this.counts[part] ?? 0
      return { metricName, labels: { le, ...labels }, value: below }
    })
    values.push(
      { metricName, labels: { le: '+Inf', ...labels }, value: this.#count },
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: this.#count }
    )
    return values
  }
}
