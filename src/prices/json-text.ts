import { decodeJson, isObject, membersOf, rootOf, textOf, type Member, type Span } from '../gateway/json-spans.ts'

/** Deepest nesting of a body that is read for a price: tools of models are described by schemas of many levels. */
const MAX_LEVELS = 128

/** A value that something can hang on. */
export type Scalar = string | number | boolean

/** What a request's field holds: a value, nothing (missing or null), or what is wrong with it, in words. */
export type FieldRead = { readonly kind: 'value'; readonly value: Scalar } | NothingRead

/** Why there is no value. */
type NothingRead = { readonly kind: 'missing' } | { readonly kind: 'fault'; readonly message: string }

const MISSING: NothingRead = Object.freeze({ kind: 'missing' })

const read = new WeakMap<Uint8Array, JsonText | string>()

/**
 * The text of a JSON body, of which single members are read so that whoever stands behind the gateway cannot read
 * another value: a key that stands twice, also in other letters or written with escapes, is a fault and never the first
 * or the last of them.
 */
export class JsonText {
  readonly #text: string
  readonly #root: Span
  #outer: readonly Member[] | null = null

  private constructor(text: string) {
    this.#text = text
    this.#root = rootOf(text)
  }

  /**
   * Reads a whole body, once for all who ask: it must be UTF-8 without a mark in front, valid JSON (RFC 8259), and not
   * nested deeper than 128 levels. A text says what it is not.
   */
  static of(bytes: Uint8Array): JsonText | string {
    let made = read.get(bytes)
    if (made === undefined) {
      made = JsonText.#read(bytes)
      read.set(bytes, made)
    }
    return made
  }

  static #read(bytes: Uint8Array): JsonText | string {
    const text = decodeJson(bytes, MAX_LEVELS)
    if (typeof text === 'string') return new JsonText(text)
    if (text.fault === 'depth') return `is nested deeper than ${MAX_LEVELS} levels`
    return text.fault === 'utf-8' ? 'is not UTF-8' : 'is not valid JSON'
  }

  /** The member that a name leads to, of the outermost object; each name but the last to an object within. */
  member(names: readonly string[]): FieldRead {
    const at = this.#lead(names)
    return 'kind' in at ? at : this.#scalar(at, names)
  }

  /** The text of a member's value, as it stands in the body. */
  raw(name: string): { readonly kind: 'raw'; readonly text: string } | NothingRead {
    const at = this.#lead([name])
    return 'kind' in at ? at : { kind: 'raw', text: this.#text.slice(at.start, at.end) }
  }

  /** The value that the names lead to. */
  #lead(names: readonly string[]): Span | NothingRead {
    let at = this.#root
    for (const [index, name] of names.entries()) {
      if (!isObject(this.#text, at)) {
        // null is as good as nothing, where something was to stand in it.
        if (index > 0 && this.#text.startsWith('null', at.start)) return MISSING
        return fault(
          index === 0 ? 'the body must be a JSON object' : `${show(names.slice(0, index))} must be a JSON object`
        )
      }
      // Several are asked of one body, and each would read all of it.
      const members = index === 0 ? (this.#outer ??= this.#members(at)) : this.#members(at)
      const found = only(members, name, names.slice(0, index + 1))
      if ('kind' in found) return found
      at = found
    }
    return at
  }

  #members(object: Span): readonly Member[] {
    return membersOf(this.#text, object) ?? []
  }

  #scalar(at: Span, names: readonly string[]): FieldRead {
    const string = textOf(this.#text, at)
    if (string !== null) return { kind: 'value', value: string }
    const text = this.#text.slice(at.start, at.end)
    if (text === 'null') return MISSING
    if (text === 'true' || text === 'false') return { kind: 'value', value: text === 'true' }
    // `1.0` and `1e0` are other texts of 1; whoever reads them may see another value than we.
    if (/^(?:-?[1-9][0-9]{0,14}|0)$/.test(text)) return { kind: 'value', value: Number(text) }
    return fault(`${show(names)} must be a text, a whole number, or true or false`)
  }
}

/** The value of the only member of this name. */
function only(members: readonly Member[], name: string, path: readonly string[]): Span | NothingRead {
  const wanted = folded(name)
  let found: Span | null = null
  for (const member of members) {
    if (member.name === name) {
      if (found !== null) return fault(`${show(path)} stands twice in the body`)
      found = member.value
    } else if (folded(member.name) === wanted) {
      // Some servers take any spelling for the same member.
      return fault(`${JSON.stringify(member.name)} stands in the body; ${show(path)} must be written as it is here`)
    }
  }
  return found ?? MISSING
}

/** How a member is called in messages: as it is written in the file. */
function show(names: readonly string[]): string {
  return JSON.stringify(names.join('.'))
}

function fault(message: string): NothingRead {
  return { kind: 'fault', message }
}

/** One spelling for all that somebody may take for the same name: `MODEL`, and `ſ` for `s`. */
export function folded(name: string): string {
  return name.toUpperCase().toLowerCase()
}
