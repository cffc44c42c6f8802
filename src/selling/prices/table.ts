import { selectorWords, type FieldTable } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { Scalar } from './json-text.ts'
import { readField, unreadable } from './request-field.ts'

export interface Chosen<T> {
  readonly entry: T
  /** The selecting value; null for the default. */
  readonly value: string | null
}

/** A price table by a request's field, laid out for lookup. */
export class FieldChoice<T> {
  readonly #table: FieldTable<T>
  readonly #entries: ReadonlyMap<string, Chosen<T>>
  readonly #rest: Chosen<T> | null

  readonly #keyOf: (value: string) => string

  /** `keyOf`: the part of the field's value that selects an entry. */
  constructor(table: FieldTable<T>, keyOf: (value: string) => string = value => value) {
    this.#table = table
    this.#keyOf = keyOf
    this.#entries = new Map(Object.entries(table.of).map(([value, entry]) => [value, Object.freeze({ entry, value })]))
    this.#rest = table.else === 'refuse' ? null : Object.freeze({ entry: table.else, value: null })
  }

  get entries(): ReadonlyArray<Chosen<T>> {
    return [...this.#entries.values(), ...(this.#rest === null ? [] : [this.#rest])]
  }

  /**
   * Returns a promise only if it must read the body.
   * @throws LongError 400 if the field is repeated, unreadable or without an entry; 413, 415
   */
  choose(ctx: Context): Maybe<Chosen<T>> {
    const value = readField(this.#table.by, ctx)
    return value instanceof Promise ? value.then(later => this.#of(later)) : this.#of(value)
  }

  #of(value: Scalar | null): Chosen<T> {
    const chosen = value === null ? undefined : this.#entries.get(this.#keyOf(String(value)))
    if (chosen !== undefined) return chosen
    if (this.#rest !== null) return this.#rest
    const field = selectorWords(this.#table.by)
    throw unreadable(
      value === null
        ? `${field} is missing`
        : `${field} must be one of ${[...this.#entries.keys()].map(key => JSON.stringify(key)).join(', ')}`
    )
  }
}
