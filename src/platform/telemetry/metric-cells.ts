import type { Metric } from 'prom-client'
import { LATENCY_SPLIT, partOf, type Split } from './latency.ts'

export interface CounterCell {
  add(by: number): void
}

export interface GaugeCell {
  add(by: number): void
}

export interface HistogramCell {
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

/** Updated without prom-client, which resolves labels at every change and took a twentieth of a verified request. */
abstract class CellMetric<C extends { readonly touched: boolean; values(name: string): Value[] }> {
  readonly name: string
  readonly help: string
  abstract readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregator = 'sum'
  readonly #byLabels = new Map<string, C>()
  /** In the order of their first change, like prom-client. */
  readonly changed: C[] = []

  constructor(name: string, help: string) {
    this.name = name
    this.help = help
  }

  protected abstract make(labels: CellLabels): C

  cell(labels: CellLabels): C {
    const key = JSON.stringify(labels)
    let cell = this.#byLabels.get(key)
    if (cell === undefined) this.#byLabels.set(key, (cell = this.make(labels)))
    return cell
  }

  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Value[] }> {
    const { name, help, type, aggregator } = this
    return { name, help, type, aggregator, values: this.changed.flatMap(cell => cell.values(name)) }
  }

  /** For `Registry.registerMetric`, whose type names classes; it only uses the name and `get`. */
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
  /** Counts per part of a bucket; the last is above every bound. */
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

/** `bounds` are ascending upper bounds, each counted in so many `parts`. */
export class HistogramMetric extends CellMetric<HistogramValue> {
  readonly type = 'histogram'
  protected make(labels: CellLabels): HistogramValue {
    return new HistogramValue(labels, LATENCY_SPLIT, this.changed)
  }
}
