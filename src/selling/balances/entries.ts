import type { EntryBasis, NewEntry } from './balance.ts'

export interface Use extends Omit<NewEntry, 'msat' | 'unpaidMsat'> {
  /** Factor on the provider's prices, such as 1.05; null for prices of the seller's own. */
  readonly markup: number | null
}

interface WrittenEntry extends NewEntry {
  /** What the provider charges; for the seller only. */
  readonly costMsat: number | null
}

type Column = ReadonlyArray<string | number | null>

export class Entries {
  #first: WrittenEntry | null = null
  /** Milliseconds after the first; negative if the clock was set back. */
  readonly #after: number[] = []
  readonly #request: string[] = []
  readonly #model: Array<string | null> = []
  readonly #input: Array<number | null> = []
  readonly #output: Array<number | null> = []
  readonly #msat: number[] = []
  readonly #unpaid: number[] = []
  readonly #cost: Array<number | null> = []
  readonly #basis: EntryBasis[] = []

  get first(): WrittenEntry | null {
    return this.#first
  }

  get count(): number {
    return this.#first === null ? 0 : 1 + this.#request.length
  }

  add(use: Use, msat: number, unpaidMsat: number): void {
    const costMsat = use.markup === null ? null : Math.round((msat + unpaidMsat) / use.markup)
    if (this.#first === null) {
      this.#first = { ...use, msat, unpaidMsat, costMsat }
      return
    }
    this.#after.push(use.at - this.#first.at)
    this.#request.push(use.request)
    this.#model.push(use.model)
    this.#input.push(use.input)
    this.#output.push(use.output)
    this.#msat.push(msat)
    this.#unpaid.push(unpaidMsat)
    this.#cost.push(costMsat)
    this.#basis.push(use.basis)
  }

  /**
   * The other entries as JSON for `balance_entries.more`: `request` is a list, other columns a list or one shared
   * value. Null if there are none.
   */
  others(): string | null {
    if (this.#request.length === 0) return null
    const cost = together(this.#cost)
    return JSON.stringify({
      after: together(this.#after),
      request: this.#request,
      model: together(this.#model),
      input: together(this.#input),
      output: together(this.#output),
      msat: together(this.#msat),
      unpaid: together(this.#unpaid),
      ...(cost === null ? {} : { cost }),
      basis: together(this.#basis)
    })
  }
}

function together(column: Column): Column | Column[number] {
  const [first = null] = column
  return column.every(value => value === first) ? first : column
}
