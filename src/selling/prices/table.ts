import { selectorWords, type FieldTable } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { Scalar } from './json-text.ts'
import { readField, unreadable } from './request-field.ts'

export interface Chosen<T> {
  readonly entry: T
  readonly value: string | null
}

/** Entries that a refusal lists. */
const MOST_NAMED = 20

/** A price table by a request's field, laid out for lookup. */
export class FieldChoice<T> {
  readonly #table: FieldTable<T>
  readonly #entries: ReadonlyMap<string, Chosen<T>>
  readonly #rest: Chosen<T> | null

  readonly #keyOf: (value: string) => string

  /** `api`: whose requests these are; Gemini's have the model in the path, before a colon and the method. */
  constructor(table: FieldTable<T>, api: unknown = null) {
    this.#table = table
    this.#keyOf = api === 'gemini' && 'path' in table.by ? withoutMethod : value => value
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

  /** @throws as `choose` */
  of(value: string): Chosen<T> {
    return this.#of(value)
  }

  /**
   * Refuses a value without an entry, and leaves a request without the field to `choose`, since it may be a probe.
   * @throws as `choose`
   */
  requireKnown(ctx: Context): Maybe<void> {
    const known = (value: Scalar | null): void => {
      if (value !== null) this.#of(value)
    }
    const value = readField(this.#table.by, ctx)
    return value instanceof Promise ? value.then(known) : known(value)
  }

  #of(value: Scalar | null): Chosen<T> {
    const chosen = value === null ? undefined : this.#entries.get(this.#keyOf(String(value)))
    if (chosen !== undefined) return chosen
    if (this.#rest !== null) return this.#rest
    const field = selectorWords(this.#table.by)
    throw unreadable(value === null ? `${field} is missing` : `${field} must be ${this.#names()}`)
  }
  #names(): string {
    const names = [...this.#entries.keys()].slice(0, MOST_NAMED).map(key => JSON.stringify(key))
    const more = this.#entries.size - names.length
    return more > 0 ? `one with a price, such as ${names.join(', ')}` : `one of ${names.join(', ')}`
  }
}

function withoutMethod(value: string): string {
  return value.replace(/:[A-Za-z]+$/, '')
}
