/**
 * JSON that is changed by cutting and inserting, so that all that nobody asked to change stays byte for byte (numbers
 * too long for a double, the order of members, spaces).
 */
import {
  afterSpace,
  decodeJson,
  endOfString,
  isObject,
  itemsOf,
  membersOf,
  stringAt,
  type Span
} from '../gateway/json-spans.ts'
import { canonicalize, JcsError } from '../lightning/jcs.ts'

/** A text that is no JSON, or that two readers could read as two different values. */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError'
  /** Whether it is JSON, though not to be taken. */
  readonly isJson: boolean

  constructor(message: string, isJson: boolean) {
    super(message)
    this.isJson = isJson
  }
}

/**
 * The text of a body that is one JSON value. Refuses what readers take differently: bytes that are not UTF-8, an object
 * that has a name twice (however it is escaped), a member `__proto__`, and more than `depth` levels.
 * @throws JsonTextError
 */
export function readJson(bytes: Uint8Array, depth: number): string {
  const text = decodeJson(bytes, depth)
  if (typeof text !== 'string') {
    const { fault } = text
    if (fault === 'depth') throw new JsonTextError(`it has more than ${depth} levels`, true)
    throw new JsonTextError(fault === 'utf-8' ? 'it is not UTF-8' : 'it is not JSON', false)
  }
  requireUnique(text)
  return text
}

/** Of JSON: no object has a name twice, and none a member `__proto__`. */
function requireUnique(text: string): void {
  const open: (Set<string> | null)[] = []
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = endOfString(text, at)
        const names = open.at(-1)
        if (names !== null && names !== undefined && text.charCodeAt(afterSpace(text, end)) === 0x3a) {
          const name = stringAt(text, { start: at, end })
          if (names.has(name)) throw new JsonTextError(`an object has the member ${shown(name)} twice`, true)
          if (name === '__proto__') throw new JsonTextError('an object has the member "__proto__"', true)
          names.add(name)
        }
        at = end - 1
        break
      }
      case 0x7b:
        open.push(new Set())
        break
      case 0x5b:
        open.push(null)
        break
      case 0x5d:
      case 0x7d:
        open.pop()
        break
    }
  }
}

function shown(name: string): string {
  return JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}…` : name)
}

/** The text with something else in the place of a span. */
export function replaced(text: string, { start, end }: Span, by: string): string {
  return text.slice(0, start) + by + text.slice(end)
}

/** The text of an object without one member; as it is where there is none of that name. */
export function withoutMember(text: string, object: Span, name: string): string {
  const members = membersOf(text, object) ?? []
  const at = members.findIndex(member => member.name === name)
  const gone = members[at]
  if (gone === undefined) return text
  const next = members[at + 1]
  const before = members[at - 1]
  if (next !== undefined) return replaced(text, { start: gone.start, end: next.start }, '')
  return replaced(text, { start: before?.value.end ?? gone.start, end: gone.value.end }, '')
}

/**
 * The text with `value` (JSON) as the member at `path` of an object, in the place of what stands there. Objects on the
 * way are made where they are missing; a value on the way that is no object is replaced by one.
 */
export function withMember(text: string, object: Span, path: readonly [string, ...string[]], value: string): string {
  const [name, next, ...rest] = path
  const members = membersOf(text, object)
  const there = members?.find(member => member.name === name)?.value
  if (next !== undefined && there !== undefined && isObject(text, there))
    return withMember(text, there, [next, ...rest], value)
  const json = next === undefined ? value : nested([next, ...rest], value)
  if (there !== undefined) return replaced(text, there, json)
  const first = members?.[0]
  const member = `${JSON.stringify(name)}:${json}`
  if (members === null) return replaced(text, object, `{${member}}`)
  const at = object.start + 1
  return replaced(text, { start: at, end: at }, first === undefined ? member : `${member},`)
}

function nested(path: readonly string[], value: string): string {
  return path.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value)
}

/**
 * One text for each value, whatever its spaces, the order of its members and its escapes: RFC 8785, but a number that a
 * double does not hold stays as it is written, so that two of them are never one.
 * @throws JsonTextError for a string with a lone surrogate, which readers replace with different characters
 */
export function canonicalText(text: string, span: Span, without?: string): string {
  const members = membersOf(text, span)
  if (members !== null) {
    const kept = members.filter(({ name }) => name !== without)
    kept.sort((one, other) => (one.name < other.name ? -1 : 1))
    return `{${kept.map(({ name, value }) => `${quoted(name)}:${canonicalText(text, value)}`).join(',')}}`
  }
  const items = itemsOf(text, span)
  if (items !== null) return `[${items.map(item => canonicalText(text, item)).join(',')}]`
  const raw = text.slice(span.start, span.end)
  if (raw.startsWith('"')) return quoted(stringAt(text, span))
  return /^[-0-9]/.test(raw) ? canonicalNumber(raw) : raw
}

function quoted(value: string): string {
  try {
    return canonicalize(value)
  } catch (error) {
    if (error instanceof JcsError) throw new JsonTextError('a string holds half of a surrogate pair', true)
    throw error
  }
}

/** Fifteen digits are exact in every double. */
function canonicalNumber(raw: string): string {
  const digits = raw
    .replace(/[eE].*$/, '')
    .replace(/[-.]/g, '')
    .replace(/^0+/, '')
  const value = Number(raw)
  const isExact = digits.length <= 15 && Number.isFinite(value) && (value !== 0 || /^0*$/.test(digits))
  return isExact ? canonicalize(value) : raw
}
