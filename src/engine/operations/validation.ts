import { Compile } from 'typebox/compile'
import { Settings } from 'typebox/system'
import type { TSchema } from 'typebox'
import { ValidationError } from './errors.ts'
import { asciiEmail } from '../formats/text-patterns.ts'
import { MAX_DEPTH, tooDeep, outlineOf } from '../formats/json-reader.ts'
import { isObject } from '../../platform/system/json.ts'
import { invalidField, collect } from './field-errors.ts'

// The library's default of 8 is used up by one union of a few more values; the schemas bound lists and members.
Settings.Set({ maxErrors: 256 })

/** Most values read per body; the largest operation, a proxy with all its lists, needs a fifth. */
const MAX_VALUES = 5000
/** Longest query; each name costs time, known or not. */
const MAX_QUERY = 8192

export const BODY_REQUIRED = 'A JSON body is required.'

/** What is read of a schema here: a typebox schema is a JSON Schema object. */
interface Shape {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Shape[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly patternProperties?: unknown
  readonly additionalProperties?: unknown
  readonly required?: readonly string[]
  readonly items?: Shape
  readonly maxItems?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly 'x-email'?: boolean
  readonly 'x-judged'?: boolean
}

/** Whether the schema, or a branch of it, names the type. */
function takes({ type, anyOf }: Shape, name: string): boolean {
  return (
    type === name ||
    (Array.isArray(type) && type.includes(name)) ||
    (anyOf?.some(branch => takes(branch, name)) ?? false)
  )
}

/** Whether unknown members can be skipped: copying 100,000 of them would dominate. */
function namesAll({ properties, patternProperties, additionalProperties }: Shape): boolean {
  return properties !== undefined && patternProperties === undefined && additionalProperties === undefined
}

function mayTake(schema: Shape, kind: 'array' | 'object'): boolean {
  const { type, anyOf, enum: values } = schema
  if (anyOf !== undefined) return anyOf.some(branch => mayTake(branch, kind))
  return type === undefined ? values === undefined : takes(schema, kind)
}

/** False where the operation validates the text itself. */
function refusesEmpty(schema: Shape): boolean {
  const { anyOf, enum: values, minLength = 0, pattern, format } = schema
  if (anyOf !== undefined) {
    const texts = anyOf.filter(branch => takes(branch, 'string'))
    return texts.length > 0 && texts.every(refusesEmpty)
  }
  if (values !== undefined) return values.some(value => typeof value === 'string') && !values.includes('')
  if (!takes(schema, 'string')) return false
  return minLength > 0 || format !== undefined || (pattern !== undefined && !new RegExp(pattern, 'u').test(''))
}

function objectOf(schema: Shape): Shape {
  const objects = schema.anyOf?.filter(branch => mayTake(branch, 'object')) ?? []
  return objects.length === 1 && objects[0] !== undefined ? objects[0] : schema
}

/** Of what a schema does not describe. */
const ANY: Shape = {}

/**
 * Copies a body for validation. Null members are absent (decision 4), unless the schema takes null, which clears
 * (decision 67). Empty text in an optional member whose schema refuses it is null. Drops undeclared members. Stops at
 * the first list that is too long and after `MAX_VALUES` values, which bounds the work.
 */
class Copying {
  #values = 0

  copy(value: unknown, schema: Shape, path: string): unknown {
    if (++this.#values > MAX_VALUES) throw invalidField('', `The body has more than ${MAX_VALUES} values.`)
    if (typeof value === 'string' && (schema.format === 'email' || schema['x-email'] === true)) return asciiEmail(value)
    if (Array.isArray(value)) {
      if (!mayTake(schema, 'array')) return []
      const { items = ANY, maxItems = Number.POSITIVE_INFINITY } = schema
      if (value.length > maxItems) throw invalidField(path, `Must have at most ${maxItems} items.`)
      const copy: unknown[] = []
      for (const item of value) copy.push(this.copy(item, items, `${path}/${copy.length}`))
      return copy
    }
    if (!isObject(value)) return value
    if (!mayTake(schema, 'object')) return {}
    const object = objectOf(schema)
    const { properties = {}, required = [] } = object
    const copy: Record<string, unknown> = {}
    for (const name of namesAll(object) ? Object.keys(properties) : Object.keys(value)) {
      if (!Object.hasOwn(value, name)) continue
      let member = value[name]
      if (name === '__proto__') {
        // Setting this name on a copy would change its prototype; dropping it would accept a different record.
        if (member !== null) throw invalidField(`${path}/__proto__`, 'Must have another name.')
        continue
      }
      const property = ownProperty(properties, name) ?? ANY
      if (member === '' && !required.includes(name) && refusesEmpty(property)) member = null
      if (member !== null || takes(property, 'null')) copy[name] = this.copy(member, property, `${path}/${name}`)
    }
    return copy
  }
}

/**
 * JSON pointer to the first text that PostgreSQL would not return unchanged: with NUL or an unpaired surrogate. Null
 * for none. Skips texts with the keyword `x-judged`, such as credentials, which are never stored and get the
 * operation's own verdict.
 */
function unstorable(value: unknown, schema: Shape | undefined, path = ''): string | null {
  if (schema === undefined || schema['x-judged'] === true) return null
  if (typeof value === 'string') return takes(schema, 'string') && !isStorable(value) ? path : null
  if (typeof value !== 'object' || value === null) return null
  const { items, properties = {} } = schema
  for (const [name, member] of Object.entries(value)) {
    const found = unstorable(member, Array.isArray(value) ? items : ownProperty(properties, name), `${path}/${name}`)
    if (found !== null) return found
  }
  return null
}

export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

const ROUNDED = 'Must not have more digits than a JSON number keeps, which is 15.'

export const UNSTORABLE = 'Must not hold the character U+0000 or half of a surrogate pair.'

/** Decimal members of an object; the range of integers keeps them exact. */
function decimalsOf({ properties = {} }: Shape): ReadonlySet<string> {
  return new Set(Object.keys(properties).filter(name => takes(properties[name] ?? ANY, 'number')))
}

function requireStorable(value: unknown, schema: Shape): void {
  const path = unstorable(value, schema)
  if (path !== null) throw invalidField(path, UNSTORABLE)
}

/**
 * Validates JSON bodies; unknown members are ignored, null is absent, strings are never numbers (decision 4). With
 * `optional`, no body and `null` read as an empty object.
 */
export function bodyReader(
  schema: TSchema,
  { optional = false }: { readonly optional?: boolean } = {}
): (bytes: Uint8Array) => unknown {
  const validator = Compile(schema)
  const decimals = decimalsOf(schema)
  const decoder = new TextDecoder('utf-8', { fatal: true })
  return bytes => {
    if (bytes.byteLength === 0 && !optional) throw invalidField('', BODY_REQUIRED)
    let parsed: unknown
    let text = ''
    try {
      text = decoder.decode(bytes)
      if (tooDeep(text)) throw invalidField('', `The body is nested deeper than ${MAX_DEPTH} levels.`)
      parsed = bytes.byteLength === 0 ? null : JSON.parse(text)
    } catch (cause) {
      if (cause instanceof ValidationError) throw cause
      throw invalidField(
        '',
        cause instanceof SyntaxError
          ? `The body is not valid JSON: ${plainSyntaxError(cause)}`
          : 'The body is not valid UTF-8.'
      )
    }
    const value = new Copying().copy(optional ? (parsed ?? {}) : parsed, schema, '')
    if (!validator.Check(value)) throw collect(validator.Errors(value), schema)
    requireStorable(value, schema)
    const rounded = roundedMember(text, decimals)
    if (rounded !== null) throw invalidField(`/${rounded}`, ROUNDED)
    return value
  }
}

/** Keeps the position of a JSON error and drops the quoted body. */
function plainSyntaxError(error: SyntaxError): string {
  const at = /position (\d+)/.exec(error.message)
  return at === null ? 'it ends too early.' : `unexpected text at position ${at[1] ?? ''}.`
}

/** Validates a query string; parses integers and booleans from text. The last of repeated names wins. */
export function queryReader(schema: TSchema): (query: string) => unknown {
  const validator = Compile(schema)
  const { properties = {} }: Shape = schema
  return query => {
    if (query.length > MAX_QUERY) throw invalidField('', `The query must have at most ${MAX_QUERY} characters.`)
    const values: Record<string, unknown> = {}
    for (const [name, text] of new URLSearchParams(query)) {
      const property = ownProperty(properties, name)
      if (property === undefined || text === '') continue
      values[name] = fromText(property, text)
    }
    if (!validator.Check(values)) throw collect(validator.Errors(values), schema)
    requireStorable(values, schema)
    return values
  }
}

/** False for a mismatch or an unstorable text, which makes the path unknown. */
export function paramsFit(schema: TSchema): (params: Readonly<Record<string, string>>) => boolean {
  const validator = Compile(schema)
  return params => {
    if (!validator.Check(params)) return false
    // Runs for every request; unstorable texts are rare.
    for (const name in params) if (!isStorable(params[name] ?? '')) return unstorable(params, schema) === null
    return true
  }
}

function ownProperty(properties: Readonly<Record<string, Shape>>, name: string): Shape | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined
}

function fromText({ type }: Shape, text: string): unknown {
  // Paging out of range is clamped and not refused (decision 12).
  if (type === 'integer' && /^-?\d+$/.test(text))
    return Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
  // Clients in .NET and Python write True and False.
  if (type === 'boolean' && /^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  return text
}

/** Numbers that a double may round: more than 15 digits, or a three-digit exponent. */
const LONG = /\d[\d.]{15,}|\d[eE][+-]?\d{3}/

/** The first of these members with a number that parsing rounded; null for none. `text` must be the JSON as sent. */
function roundedMember(text: string, names: ReadonlySet<string>): string | null {
  if (names.size === 0 || !LONG.test(text)) return null
  const outline = outlineOf(text, { depth: MAX_DEPTH, members: Number.POSITIVE_INFINITY, names: null })
  for (const name of names) {
    // Of duplicate names the parser takes the last.
    const index = outline.indexesOf(name).at(-1)
    if (index === undefined) continue
    const { start, end } = outline.span(index)
    const source = text.slice(start, end)
    if (/^[-\d]/.test(source) && isRounded(source)) return name
  }
  return null
}

function isRounded(source: string): boolean {
  return plainest(source) !== plainest(String(Number(source)))
}

function plainest(number: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const kept = digits.replace(/(?<!0)0+$/, '')
  // Zero has no sign and no exponent.
  return kept === ''
    ? `${whole === '' ? number : '0'}`
    : `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`
}
