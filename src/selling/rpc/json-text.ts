/**
 * Edits JSON by splicing, to keep everything else byte for byte: numbers too long for a double, member order, spaces.
 */
import { outlineAt, textAt, type Outline } from '../../engine/formats/json-reader.ts'
import { afterSpace, JsonError, type Span } from '../../engine/formats/json-scan.ts'
import { canonicalize, JcsError } from '../../lightning/payment-scheme/jcs.ts'

/** An upstream's objects may have any number of members. */
export const ANY_SIZE = Number.POSITIVE_INFINITY

export function replaced(text: string, { start, end }: Span, by: string): string {
  return text.slice(0, start) + by + text.slice(end)
}

export function memberPlace(object: Outline, name: string): Span | null {
  const [at] = object.indexesOf(name)
  if (at === undefined) return null
  if (at + 1 < object.size) return { start: object.startOf(at), end: object.startOf(at + 1) }
  return { start: at === 0 ? object.startOf(at) : object.span(at - 1).end, end: object.span(at).end }
}

/**
 * Sets the member at `path` to `value` (JSON). Creates missing objects on the way, and replaces other values by
 * objects.
 */
export function withMember(text: string, object: Span, path: readonly [string, ...string[]], value: string): string {
  const [name, next, ...rest] = path
  const outline = outlineAt(text, object, ANY_SIZE)
  const there = outline.member(name)
  const json =
    next === undefined
      ? value
      : there !== null && text[there.start] === '{'
        ? withMember(text, there, [next, ...rest], value)
        : nested([next, ...rest], value)
  const member = `${JSON.stringify(name)}:${json}`
  if (!outline.isObject) return `{${member}}`
  const [before, behind] = [
    text.slice(object.start, there?.start ?? object.start + 1),
    text.slice(there?.end ?? object.start + 1, object.end)
  ]
  return there !== null ? before + json + behind : before + member + (outline.size === 0 ? '' : ',') + behind
}

function nested(path: readonly string[], value: string): string {
  return path.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value)
}

/** Values that may still be canonicalized, over all calls of a body. */
export interface Budget {
  left: number
}

/**
 * Canonical JSON (RFC 8785), but numbers beyond a double stay as written, so that different ones never collide. Single
 * pass; omits the member with value `without`.
 * @throws JsonError for a lone surrogate, which readers replace differently, and beyond the budget
 */
export function canonicalText(text: string, { start }: Span, budget: Budget, without: Span | null = null): string {
  return new Canonical(text, start, budget, without).value()
}

class Canonical {
  readonly #text: string
  readonly #budget: Budget
  readonly #without: Span | null
  #at: number

  constructor(text: string, at: number, budget: Budget, without: Span | null) {
    this.#text = text
    this.#at = at
    this.#budget = budget
    this.#without = without
  }

  value(): string {
    if (--this.#budget.left < 0) throw new JsonError('size', 'has too many values for a call that costs something')
    const first = this.#text[this.#at]
    if (first === '"') return quoted(this.#string())
    if (first === '{') return this.#object()
    if (first === '[') return this.#list()
    const start = this.#at
    while (isInScalar(this.#text.charCodeAt(this.#at))) this.#at++
    const raw = this.#text.slice(start, this.#at)
    return first === 't' || first === 'f' || first === 'n' ? raw : canonicalNumber(raw)
  }

  #object(): string {
    const members = new Map<string, string>()
    while (!this.#isOver('}')) {
      const name = this.#string()
      this.#at = afterSpace(this.#text, afterSpace(this.#text, this.#at) + 1)
      if (this.#at === this.#without?.start) this.#at = this.#without.end
      else members.set(name, this.value())
    }
    const names = [...members.keys()].sort()
    return `{${names.map(name => `${quoted(name)}:${members.get(name)}`).join(',')}}`
  }

  #list(): string {
    const items: string[] = []
    while (!this.#isOver(']')) items.push(this.value())
    return `[${items.join(',')}]`
  }

  #isOver(close: string): boolean {
    const text = this.#text
    let at = afterSpace(text, this.#at)
    // At the opening bracket, or a comma.
    if (text[at] !== close) at = afterSpace(text, at + 1)
    const isOver = text[at] === close
    this.#at = isOver ? at + 1 : at
    return isOver
  }

  #string(): string {
    const text = this.#text
    const start = this.#at
    let end = start
    do end = text.indexOf('"', end + 1)
    while (isEscaped(text, end))
    this.#at = end + 1
    return textAt(text, { start, end: end + 1 }) ?? ''
  }
}

function isInScalar(code: number): boolean {
  // Ends at white space, a comma, a bracket, or the end of the text.
  return code > 0x20 && code !== 0x2c && code !== 0x5d && code !== 0x7d
}

/** An odd number of backslashes precedes. */
function isEscaped(text: string, at: number): boolean {
  let from = at
  while (text[from - 1] === '\\') from--
  return (at - from) % 2 === 1
}

function quoted(value: string): string {
  try {
    return canonicalize(value)
  } catch (error) {
    if (error instanceof JcsError) throw new JsonError('utf-8', 'has a string with half of a surrogate pair')
    throw error
  }
}

/** Fifteen digits are exact in every double. */
function canonicalNumber(raw: string): string {
  if (/^(?:0|-?[1-9][0-9]{0,14})$/.test(raw)) return raw
  const digits = raw
    .replace(/[eE].*$/, '')
    .replace(/[-.]/g, '')
    .replace(/^0+/, '')
  const value = Number(raw)
  const isExact = digits.length <= 15 && Number.isFinite(value) && (value !== 0 || digits === '')
  return isExact ? canonicalize(value) : raw
}
