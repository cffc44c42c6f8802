import { EventReader, type Boundary, type EventVisitor } from '../../engine/formats/event-reader.ts'
import { isFailure, isLast, isUsageChunk, RunningTotals, type UsageForm } from './forms.ts'
import { JsonScan } from './json-scan.ts'
import type { Usage, UsageReader } from './usage.ts'

/** Events of a stream without a unit: roles, starts and ends. */
const EVENTS_BESIDE = 8

/** Called at the end of an event or comment, with its `isUsageChunk` set. `end` is an offset in the fed bytes. */
type OnEvent = (end: number) => void

export class EventUsage implements UsageReader, EventVisitor {
  onEvent: OnEvent | null = null
  isUsageChunk = false
  readonly #form: UsageForm
  readonly #inputEstimate: number
  readonly #reader = new EventReader(this)
  readonly #scan: JsonScan
  readonly #totals: RunningTotals
  /** The final event came; many clients leave on it. */
  #isOver = false
  #hasFailed = false
  #hasEvents = false
  /** Since the last total. */
  #events = 0
  #delivered = 0
  #output = 0
  /** In the current event. */
  #isNewOutput = false
  #hasContent = false
  #isUsageOnly = false

  /** `inputEstimate`: for a stream that fails before its report. */
  constructor(form: UsageForm, inputEstimate = 0) {
    this.#form = form
    this.#inputEstimate = inputEstimate
    this.#totals = new RunningTotals(form)
    this.#scan = new JsonScan(form.wanted, () => {
      this.#text()
    })
  }

  get seen(): number {
    const since = this.#form.isUnitByEvent ? Math.max(0, this.#events - EVENTS_BESIDE) : 0
    return this.#output + since
  }

  /** The stream can be cut here. */
  get isBetween(): boolean {
    return this.#reader.isBetween
  }

  chunk(bytes: Uint8Array): void {
    this.#reader.feed(bytes)
  }

  read(isWhole: boolean): Usage | null {
    if (isWhole) this.#reader.end()
    if (isWhole && !this.#hasEvents) return { input: 0, output: 0 }
    if (!isWhole && !this.#isOver) return null
    const { input, output, ...rest } = this.#totals.usage
    if (this.#hasFailed) {
      const delivered = this.#form.isUnitByEvent ? this.#delivered : (output ?? 0)
      if (delivered === 0) return { input: 0, output: 0 }
      return { input: input ?? this.#inputEstimate, output: Math.max(delivered, output ?? 0), ...rest }
    }
    return input === undefined || output === undefined ? null : { input, output, ...rest }
  }

  data(bytes: Buffer, from: number, to: number): void {
    this.#scan.feed(bytes, from, to)
  }

  field(name: string, value: string): void {
    // An event of this name, or llama.cpp's field.
    if (name === 'error' || (name === 'event' && value === 'error')) this.#fail()
  }

  boundary(end: number, kind: Boundary): void {
    if (kind === 'done') this.#isOver = true
    else if (kind === 'data') {
      this.#hasEvents = true
      this.#events = this.#isNewOutput ? 0 : this.#events + 1
      if (this.#hasContent) this.#delivered++
    }
    if (kind !== 'none') this.#scan.reset()
    this.isUsageChunk = kind === 'data' && this.#isUsageOnly
    this.onEvent?.(end)
    this.#hasContent = this.#isUsageOnly = this.#isNewOutput = false
  }

  #text(): void {
    const { values, hasContent } = this.#scan
    if (this.#totals.take(values)) {
      const { output: said = 0, isTotal = false } = this.#totals.usage
      const output = isTotal ? 0 : said
      this.#isNewOutput = output !== this.#output
      this.#output = output
    }
    if (hasContent) this.#hasContent = true
    this.#isUsageOnly = isUsageChunk(values)
    if (isLast(values)) this.#isOver = true
    if (isFailure(values)) this.#fail()
  }

  #fail(): void {
    this.#hasFailed = true
    this.#isOver = true
  }
}

/** Counts events with data, optionally without `[DONE]`. */
export class EventCount implements UsageReader, EventVisitor {
  readonly seen = 0
  readonly #isDoneFree: boolean
  readonly #reader = new EventReader(this)
  #count = 0

  constructor(isDoneFree = false) {
    this.#isDoneFree = isDoneFree
  }

  get isBetween(): boolean {
    return this.#reader.isBetween
  }

  chunk(bytes: Uint8Array): void {
    this.#reader.feed(bytes)
  }

  read(): Usage {
    return { input: 0, output: this.#count }
  }

  boundary(_end: number, kind: Boundary): void {
    if (kind === 'data' || (kind === 'done' && !this.#isDoneFree)) this.#count++
  }
}
