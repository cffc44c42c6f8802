import { eachItem, MAX_MEMBERS, outlineAt, readJson, textAt, type Outline } from '../../engine/formats/json-reader.ts'
import { afterSpace, JsonError, type Span } from '../../engine/formats/json-scan.ts'

/** Tool schemas of models nest deeply. */
const LIMITS = { depth: 128, members: MAX_MEMBERS, names: null }

export type Scalar = string | number | boolean

export type FieldRead = { readonly kind: 'value'; readonly value: Scalar } | NothingRead

export interface RequestItems {
  readonly kind: 'items'
  /** Texts and lists among its items; 0 if it is no list. */
  readonly inputs: number
  readonly objects: number
  /** An item, or a nested list's first, is a number: a token id. */
  readonly hasIds: boolean
}

export type NothingRead = { readonly kind: 'missing' } | { readonly kind: 'fault'; readonly message: string }

const QUOTE = 0x22
const LIST = 0x5b
const OBJECT = 0x7b

const MISSING: NothingRead = Object.freeze({ kind: 'missing' })

const read = new WeakMap<Uint8Array, JsonText | string>()

/** Members by which LiteLLM takes other values than those beside them, or leaves those out. */
const OVERRIDES = ['extra_body', 'additional_drop_params']

/**
 * Reads members of a JSON body so that no upstream reads another value: duplicate keys, also in another case or
 * escaped, are faults.
 */
export class JsonText {
  /** Cache of outlines by offset, since several fields are read. */
  readonly #outlines = new Map<number, Outline>()
  readonly #root: Outline
  /** Undefined until it is looked for. */
  #overrides: NothingRead | null | undefined

  private constructor(root: Outline) {
    this.#root = root
    this.#outlines.set(root.start, root)
  }

  /**
   * Parses a body once: valid JSON (RFC 8259) in UTF-8 without a byte order mark, at most 128 levels. Returns the fault
   * otherwise.
   */
  static of(bytes: Uint8Array): JsonText | string {
    let made = read.get(bytes)
    if (made === undefined) read.set(bytes, (made = orMessage(() => new JsonText(readJson(bytes, LIMITS)))))
    return made
  }

  /** `from`: the object to look in. */
  member(names: readonly string[], from: Span = this.#root): FieldRead {
    const at = this.#lead(names, from)
    return 'kind' in at ? at : this.#scalar(at, names)
  }

  /** Items of a list, by member name; another value is its own item. */
  list(name: string): readonly Span[] | NothingRead {
    const at = this.#lead([name])
    if ('kind' in at) return at
    if (this.textOf(at) === 'null') return MISSING
    const list = orMessage(() => this.#outline(at))
    if (typeof list === 'string') return fault(`${show([name])} ${list}`)
    return list.isList ? Array.from({ length: list.size }, (_, index) => list.span(index)) : [at]
  }

  /** Names of an object's members; none for other values. A text is the fault. */
  namesAt(at: Span): readonly string[] | string {
    const object = orMessage(() => this.#outline(at))
    if (typeof object === 'string') return object
    return object.isObject ? Array.from({ length: object.size }, (_, index) => object.nameOf(index)) : []
  }

  /** A fault for the first of these names with a value other than null or an empty list or object; null for none. */
  refuseFilled(names: readonly string[]): NothingRead | null {
    for (const name of names) {
      const read = this.raw(name)
      if (read.kind === 'fault') return read
      if (read.kind === 'raw' && !/^(?:null|\[\s*\]|\{\s*\})$/.test(read.text))
        return fault(`${show([name])} must be left out`)
    }
    return null
  }

  get whole(): Span {
    return this.#root
  }

  /** A fault where others may take another value than this member's; null for none. */
  overridden([first = '']: readonly string[]): NothingRead | null {
    if (this.#overrides === undefined) this.#overrides = this.refuseFilled(OVERRIDES)
    return OVERRIDES.includes(first) ? null : this.#overrides
  }

  /** Position of a member's value. */
  place(names: readonly string[]): Span | NothingRead {
    return this.#lead(names)
  }

  textOf({ start, end }: Span): string {
    return this.#root.text.slice(start, end)
  }

  /** The body with another value in this place. */
  replaced({ start, end }: Span, value: string): Buffer {
    const { text } = this.#root
    return Buffer.from(text.slice(0, start) + value + text.slice(end))
  }

  /** The body with one more member in the object of this place. */
  inserted(at: Span, member: string): Buffer {
    const start = at.start + 1
    const isEmpty = this.#outline(at).size === 0
    return this.replaced({ start, end: start }, isEmpty ? member : `${member},`)
  }

  raw(name: string): { readonly kind: 'raw'; readonly text: string } | NothingRead {
    const at = this.#lead([name])
    return 'kind' in at ? at : { kind: 'raw', text: this.textOf(at) }
  }

  items(name: string): RequestItems | NothingRead {
    const at = this.#lead([name])
    if ('kind' in at) return at
    const { text } = this.#root
    if (text.startsWith('null', at.start)) return MISSING
    let [inputs, objects] = [0, 0]
    let hasIds = false
    if (text[at.start] === '[')
      eachItem(text, at, (item, first) => {
        if (first === LIST || first === QUOTE) inputs++
        else if (first === OBJECT) objects++
        hasIds ||= isNumber(first === LIST ? text.charCodeAt(afterSpace(text, item + 1)) : first)
      })
    return { kind: 'items', inputs, objects, hasIds }
  }

  #lead(names: readonly string[], from: Span = this.#root): Span | NothingRead {
    let at: Span = from
    for (const [index, name] of names.entries()) {
      const outline = orMessage(() => this.#outline(at))
      if (typeof outline === 'string') return fault(`${show(names.slice(0, index))} ${outline}`)
      if (!outline.isObject) {
        // Null or a boolean on the way, such as `"thinking":true`, also means missing.
        if (index > 0 && /^(?:null|true|false)$/.test(this.textOf(at))) return MISSING
        return fault(
          index === 0 ? 'the body must be a JSON object' : `${show(names.slice(0, index))} must be a JSON object`
        )
      }
      const found = only(outline, name, names.slice(0, index + 1))
      if ('kind' in found) return found
      at = found
    }
    return at
  }

  #outline(at: Span): Outline {
    let outline = this.#outlines.get(at.start)
    if (outline === undefined) this.#outlines.set(at.start, (outline = outlineAt(this.#root.text, at, MAX_MEMBERS)))
    return outline
  }

  #scalar(at: Span, names: readonly string[]): FieldRead {
    const string = textAt(this.#root.text, at)
    if (string !== null) return { kind: 'value', value: string }
    const text = this.textOf(at)
    if (text === 'null') return MISSING
    if (text === 'true' || text === 'false') return { kind: 'value', value: text === 'true' }
    // Readers disagree on `1.0` and `1e0`.
    if (/^(?:-?[1-9][0-9]{0,14}|0)$/.test(text)) return { kind: 'value', value: Number(text) }
    return fault(`${show(names)} must be a text, a whole number, or true or false`)
  }
}

function isNumber(code: number): boolean {
  return code === 0x2d || (code >= 0x30 && code <= 0x39)
}

function only(outline: Outline, name: string, path: readonly string[]): Span | NothingRead {
  const found = outline.indexesOf(name, true)
  // Some servers ignore case.
  const other = found.map(index => outline.nameOf(index)).find(spelled => spelled !== name)
  if (other !== undefined) return fault(`the body has ${JSON.stringify(other)}; write ${show(path)} exactly as here`)
  const [index, second] = found
  if (second !== undefined) return fault(`the body has ${show(path)} twice`)
  return index === undefined ? MISSING : outline.span(index)
}

function orMessage<T>(read: () => T): T | string {
  try {
    return read()
  } catch (error) {
    if (error instanceof JsonError) return error.message
    throw error
  }
}

function show(names: readonly string[]): string {
  return JSON.stringify(names.join('.'))
}

function fault(message: string): NothingRead {
  return { kind: 'fault', message }
}
