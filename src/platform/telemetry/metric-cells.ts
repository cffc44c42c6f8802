import type { Metric } from 'prom-client'
import { partOf, splitOf, type Split } from './latency.ts'

/** A number that only grows. */
export interface CounterCell {
  add(by: number): void
}

/** A number that goes up and down. */
export interface GaugeCell {
  add(by: number): void
}

/** How values are distributed. */
export interface HistogramCell {
  /** Throws TypeError on what is no finite number. */
  observe(value: number): void
}

/** A measurement that consists of cells, one for each combination of labels. */
export interface Cells<L extends string, C> {
  /**
   * The cell of these labels, always the same one; labels are written in the order of the object. Keep it: this looks
   * it up.
   */
  cell(labels: Readonly<Record<L, string>>): C
}

type CellLabels = Readonly<Record<string, string>>

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly metricName?: string
  readonly value: number
}

/**
 * A measurement whose numbers are added to without prom-client, which works out a cell from its labels at every change
 * and took a twentieth of a verified request. The registry asks for the numbers when somebody reads them.
 */
abstract class CellMetric<C extends { readonly touched: boolean; values(name: string): Value[] }> {
  readonly name: string
  readonly help: string
  abstract readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregator = 'sum'
  readonly #byLabels = new Map<string, C>()
  /** In the order of their first change, which is that of prom-client. */
  readonly changed: C[] = []

  constructor(name: string, help: string) {
    this.name = name
    this.help = help
  }

  protected abstract make(labels: CellLabels): C

  /** The cell of these labels, always the same one. It is not shown before its first change. */
  cell(labels: CellLabels): C {
    const key = JSON.stringify(labels)
    let cell = this.#byLabels.get(key)
    if (cell === undefined) this.#byLabels.set(key, (cell = this.make(labels)))
    return cell
  }

  /** As the registry asks for it. */
  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Value[] }> {
    const { name, help, type, aggregator } = this
    return { name, help, type, aggregator, values: this.changed.flatMap(cell => cell.values(name)) }
  }

  /** This metric for `Registry.registerMetric`, whose type names classes; it asks for the name and calls `get`. */
  forRegistry(): Metric {
    return this as unknown as Metric
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

/** Counters and gauges with cells. */
export class NumberMetric extends CellMetric<NumberCell> {
  readonly type: 'counter' | 'gauge'

  constructor(name: string, help: string, type: 'counter' | 'gauge') {
    super(name, help)
    this.type = type
  }

  protected make(labels: CellLabels): NumberCell {
    return new NumberCell(labels, this.changed)
  }
}

class HistogramValue implements HistogramCell {
  touched = false
  readonly labels: CellLabels
  /** How many fell into each part of a bucket; the last takes what is above every bound. */
  readonly counts: Float64Array
  readonly #bounds: Split
  readonly #changed: HistogramValue[]
  #count = 0
  #sum = 0

  constructor(labels: CellLabels, bounds: Split, changed: HistogramValue[]) {
    this.labels = labels
    this.#bounds = bounds
    this.counts = new Float64Array(bounds.ofParts.length + 1)
    this.#changed = changed
  }

  observe(value: number): void {
    if (!Number.isFinite(value)) throw new TypeError(`Value is not a valid number: ${value}`)
    if (!this.touched) {
      this.touched = true
      this.#changed.push(this)
    }
    const at = partOf(this.#bounds, value)
    this.counts[at] = (this.counts[at] as number) /* one more than there are bounds */ + 1
    this.#count++
    this.#sum += value
  }

  values(name: string): Value[] {
    const { labels } = this
    const { whole, parts } = this.#bounds
    const metricName = `${name}_bucket`
    let below = 0
    const values: Value[] = whole.map((le, at) => {
      for (let part = at * parts; part < (at + 1) * parts; part++) below += this.counts[part] ?? 0
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

/** Histograms with cells. `bounds` are upper bounds, ascending, each counted in so many `parts`. */
export class HistogramMetric extends CellMetric<HistogramValue> {
  readonly type = 'histogram'
  readonly #bounds: Split

  constructor(name: string, help: string, bounds: readonly number[], parts = 1) {
    super(name, help)
    this.#bounds = splitOf(bounds, parts)
  }

  protected make(labels: CellLabels): HistogramValue {
    return new HistogramValue(labels, this.#bounds, this.changed)
  }
}
