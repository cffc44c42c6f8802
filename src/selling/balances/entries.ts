import type { EntryBasis, NewEntry } from './balance.ts'

/** An entry before it is known what it takes. */
export type Use = Omit<NewEntry, 'msat' | 'unpaidMsat'>

type Column = ReadonlyArray<string | number | null>

/**
 * The entries of one write of a slice: the first as it is, and the others column by column. An object for each of
 * thousands a second would outlive its request and be moved by the garbage collector, twice.
 */
export class Entries {
  #first: NewEntry | null = null
  /** Milliseconds after the first; the clock may have been set back. */
  readonly #after: number[] = []
  readonly #request: string[] = []
  readonly #model: Array<string | null> = []
  readonly #input: Array<number | null> = []
  readonly #output: Array<number | null> = []
  readonly #msat: number[] = []
  readonly #unpaid: number[] = []
  readonly #basis: EntryBasis[] = []

  get first(): NewEntry | null {
    return this.#first
  }

  get count(): number {
    return this.#first === null ? 0 : 1 + this.#request.length
  }

  /** Adds what a request was charged and what it was not, in millisatoshis. */
  add(use: Use, msat: number, unpaidMsat: number): void {
    if (this.#first === null) {
      this.#first = { ...use, msat, unpaidMsat }
      return
    }
    this.#after.push(use.at - this.#first.at)
    this.#request.push(use.request)
    this.#model.push(use.model)
    this.#input.push(use.input)
    this.#output.push(use.output)
    this.#msat.push(msat)
    this.#unpaid.push(unpaidMsat)
    this.#basis.push(use.basis)
  }

  /**
   * The others as JSON for `balance_entries.more`: `request` is a list, and each other column a list, or the value that
   * they all have. Null where there are none.
   */
  others(): string | null {
    if (this.#request.length === 0) return null
    return JSON.stringify({
      after: together(this.#after),
      request: this.#request,
      model: together(this.#model),
      input: together(this.#input),
      output: together(this.#output),
      msat: together(this.#msat),
      unpaid: together(this.#unpaid),
      basis: together(this.#basis)
    })
  }
}

function together(column: Column): Column | Column[number] {
  const [first = null] = column
  return column.every(value => value === first) ? first : column
}
