import { afterSpace, closingQuote, JsonError, nameAt, Scan, syntax, type JsonLimits, type Span } from './json-scan.ts'

/** Most members of a scanned request: they take less than 20 ms of CPU in any form. */
export const MAX_MEMBERS = 32_768
const QUOTE = 0x22
const COMMA = 0x2c
const NO_PLACES: readonly number[] = []
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A value and the offsets of its members or items, without names or values. */
export class Outline implements Span {
  readonly text: string
  readonly start: number
  readonly end: number
  readonly isObject: boolean
  readonly isList: boolean
  readonly #places: readonly number[]
  #odd: ReadonlyMap<number, { readonly name: string; readonly folded: string }> | null = null

  constructor(text: string, { start, end }: Span, places: readonly number[]) {
    this.text = text
    this.start = start
    this.end = end
    this.isObject = text[start] === '{'
    this.isList = text[start] === '['
    this.#places = places
  }

  get size(): number {
    return this.#places.length / (this.isObject ? 4 : 2)
  }

  span(index: number): Span {
    const at = this.isObject ? index * 4 + 2 : index * 2
    return { start: this.#places[at] ?? 0, end: this.#places[at + 1] ?? 0 }
  }

  startOf(index: number): number {
    const start = this.#places[index * 4] ?? 0
    return start < 0 ? ~start : start
  }

  nameOf(index: number): string {
    const start = this.#places[index * 4] ?? 0
    return nameAt(this.text, this.startOf(index), this.#places[index * 4 + 1] ?? 0, start < 0)
  }

  /** Indexes of the members with this name. `inAnyCase` matches as a case-insensitive server does, such as Go's. */
  indexesOf(name: string, inAnyCase = false): number[] {
    const found: number[] = []
    if (!this.isObject) return found
    const places = this.#places
    const wanted = inAnyCase ? folded(name) : name
    for (let at = 0; at < places.length; at += 4) {
      const start = places[at] as number // within the list, as the next
      if (start < 0 || (places[at + 1] as number) - start - 2 !== wanted.length) continue
      if (inAnyCase ? isAlike(this.text, start + 1, wanted) : this.text.startsWith(name, start + 1)) found.push(at / 4)
    }
    this.#odd ??= this.#decoded()
    for (const [index, odd] of this.#odd)
      if (odd.name === name || (inAnyCase && odd.folded === wanted)) found.push(index)
    return found.sort((one, other) => one - other)
  }

  member(name: string): Span | null {
    const [first] = this.indexesOf(name)
    return first === undefined ? null : this.span(first)
  }

  #decoded(): Map<number, { readonly name: string; readonly folded: string }> {
    const odd = new Map<number, { name: string; folded: string }>()
    for (let at = 0; at < this.#places.length; at += 4) {
      if ((this.#places[at] as number) >= 0) continue
      const name = this.nameOf(at / 4)
      odd.set(at / 4, { name, folded: folded(name) })
    }
    return odd
  }
}

/**
 * Reads a body of one JSON value in UTF-8, without a byte order mark.
 * @throws JsonError
 */
export function readJson(bytes: Uint8Array, limits: JsonLimits): Outline {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) throw new JsonError('utf-8', 'is not UTF-8')
    throw error
  }
  return outlineOf(text, limits)
}

/** @throws JsonError */
export function outlineOf(text: string, limits: JsonLimits): Outline {
  const start = afterSpace(text, 0)
  const places: number[] = []
  const end = new Scan(text, limits).value(start, places)
  if (afterSpace(text, end) !== text.length) throw syntax()
  return new Outline(text, { start, end }, places)
}

/**
 * Reads one value within a validated text.
 * @throws JsonError of the kind `size`
 */
export function outlineAt(text: string, span: Span, members: number): Outline {
  const first = text[span.start]
  if (first !== '{' && first !== '[') return new Outline(text, span, NO_PLACES)
  const places: number[] = []
  new Scan(text, { depth: Number.POSITIVE_INFINITY, members, names: null }, true).value(span.start, places)
  return new Outline(text, span, places)
}

/**
 * Calls `visit` with the offset and the first character of each list item of a validated text. Stores nothing, so a list may have any number of
 * items.
 */
export function eachItem(text: string, { start, end }: Span, visit: (at: number, first: number) => void): void {
  let depth = 0
  let isNext = true
  for (let at = start + 1; at < end - 1; at++) {
    const code = text.charCodeAt(at)
    if (code === COMMA) {
      if (depth === 0) isNext = true
      continue
    }
    if (code <= 0x20) continue
    if (isNext) {
      isNext = false
      visit(at, code)
    }
    if (code === QUOTE) at = closingQuote(text, at + 1)
    else if (code === 0x5b || code === 0x7b) depth++
    else if (code === 0x5d || code === 0x7d) depth--
  }
}

/** Deepest nesting of a JSON body that is parsed into values. */
export const MAX_DEPTH = 32

/** `JSON.parse` is slow with deep nesting. False for invalid JSON. */
export function tooDeep(text: string, depth = MAX_DEPTH): boolean {
  try {
    outlineOf(text, { depth, members: Number.POSITIVE_INFINITY, names: null })
  } catch (error) {
    if (error instanceof JsonError) return error.kind === 'depth'
    throw error
  }
  return false
}

export function textAt(text: string, { start, end }: Span): string | null {
  return text[start] === '"' ? nameAt(text, start, end, text.slice(start, end).includes('\\')) : null
}

/** Normalizes what a server may treat as the same name: `MODEL`, `ſ` for `s`, and a C string's end at NUL. */
export function folded(name: string): string {
  const end = name.indexOf('\0')
  return (end < 0 ? name : name.slice(0, end)).toUpperCase().toLowerCase()
}

/** Compares ASCII letters case-insensitively; `wanted` is lower case. */
function isAlike(text: string, at: number, wanted: string): boolean {
  for (let index = 0; index < wanted.length; index++) {
    const code = text.charCodeAt(at + index)
    if ((code >= 0x41 && code <= 0x5a ? code | 0x20 : code) !== wanted.charCodeAt(index)) return false
  }
  return true
}
