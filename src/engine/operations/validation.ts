import { Compile } from 'typebox/compile'
import { Settings } from 'typebox/system'
import type { TSchema } from 'typebox'
import { didYouMean, formatNames, nearest, quote } from '../config/diagnose.ts'
import { ValidationError } from './errors.ts'
import { asciiEmail } from '../formats/ascii-email.ts'
import { MAX_DEPTH, tooDeep } from '../formats/json-reader.ts'
import { roundedMember } from '../formats/rounded-numbers.ts'

// The library's default of 8 is used up by one union of a few more values; the schemas bound lists and members.
Settings.Set({ maxErrors: 256 })

/** Most values read per body; the largest operation, a proxy with all its lists, needs a fifth. */
const MAX_VALUES = 5000
/** Longest query; each name costs time, known or not. */
const MAX_QUERY = 8192

/** `orderId` → `OrderId`, `items/0/quantity` → `Items[0].Quantity`, '' → `$` (decision 2). */
export function fieldName(instancePath: string): string {
  if (instancePath === '' || instancePath === '/') return '$'
  let name = ''
  for (const part of instancePath.slice(1).split('/')) {
    const key = unescaped(part)
    if (/^\d+$/.test(key)) name += `[${key}]`
    else name += `${name === '' ? '' : '.'}${key.charAt(0).toUpperCase()}${key.slice(1)}`
  }
  return name
}

/** A violation in the shape of the schemas' own. `path` is a JSON pointer such as `/items/0/quantity`. */
export function invalidField(path: string, message: string): ValidationError {
  return new ValidationError({ [fieldName(path)]: [message] })
}

export const FIELD_REQUIRED = 'This field is required.'

export const BODY_REQUIRED = 'A JSON body is required.'

interface SchemaError {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly message: string
  /**
   * By keyword: `limit`, `type`, `allowedValue`, `allowedValues`, `pattern`, `format`, `multipleOf`,
   * `requiredProperties`.
   */
  readonly params: Readonly<Record<string, unknown>>
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object'
}

function kindsOf(error: SchemaError): string[] {
  const { type } = error.params
  return (Array.isArray(type) ? type : [type])
    .filter(name => name !== 'null')
    .map(name => KINDS[String(name)] ?? String(name))
}

function valuesOf(error: SchemaError): string[] {
  const { allowedValue, allowedValues } = error.params
  return (Array.isArray(allowedValues) ? allowedValues : [allowedValue]).map(value =>
    typeof value === 'string' ? value : JSON.stringify(value)
  )
}

function isChoice(error: SchemaError): boolean {
  return error.keyword === 'const' || error.keyword === 'enum'
}

function oneOf(values: readonly string[], kinds: readonly string[] = []): string {
  const distinct = [...new Set(values)]
  const [only] = distinct
  const listed = distinct.length === 1 ? (only ?? '') : `one of: ${distinct.join(', ')}`
  return `Must be ${[listed, ...new Set(kinds)].join(', or ')}.`
}

function mustBe(kinds: readonly string[]): string {
  return `Must be ${[...new Set(kinds)].join(' or ')}.`
}

/** Schema keyword with the message for a failed `pattern` or union, whose own errors do not help people. */
const RULE = 'x-rule'

function schemaAt(path: string, schema: TSchema): Readonly<Record<string, unknown>> | null {
  let at: unknown = schema
  for (const part of path.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return null
    // A step that the library made while it walked this schema.
    at = (at as Record<string, unknown>)[unescaped(part)]
  }
  // An object, as a schema is one.
  return typeof at === 'object' && at !== null ? (at as Record<string, unknown>) : null
}

function ruleOf(error: SchemaError, schema: TSchema): string | null {
  const rule = schemaAt(error.schemaPath, schema)?.[RULE]
  return typeof rule === 'string' ? rule : null
}

/** For objects with strict members; decision 4 has most objects ignore unknown ones. */
function unknownMember(error: SchemaError, schema: TSchema): string {
  const object = schemaAt(error.schemaPath.replace(/\/additionalProperties$/, ''), schema) ?? {}
  const name = unescaped(error.instancePath.split('/').at(-1) ?? '')
  const names = Object.keys(object['properties'] ?? {})
  if (names.length === 0)
    return `Must have a name that matches the pattern ${Object.keys(object['patternProperties'] ?? {}).join(' or ')}.`
  return `There is no member ${quote(name)}. Must be one of: ${formatNames(names)}${didYouMean(nearest(name, names)) || '.'}`
}

function unescaped(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~')
}

function messageOf(error: SchemaError, schema: TSchema): string {
  const { limit } = error.params
  switch (error.keyword) {
    case 'type':
      return mustBe(kindsOf(error))
    case 'const':
    case 'enum':
      return oneOf(valuesOf(error))
    case 'minLength':
      return limit === 1 ? 'Must not be empty.' : `Must have at least ${limit} characters.`
    case 'maxLength':
      return `Must have at most ${limit} characters.`
    case 'minItems':
      return limit === 1 ? 'Must have at least 1 item.' : `Must have at least ${limit} items.`
    case 'maxItems':
      return `Must have at most ${limit} items.`
    case 'minProperties':
      return `Must have at least ${limit} ${limit === 1 ? 'member' : 'members'}.`
    case 'maxProperties':
      return `Must have at most ${limit} members.`
    case 'boolean':
      return unknownMember(error, schema)
    case 'minimum':
      return `Must be at least ${limit}.`
    case 'maximum':
      return `Must be at most ${limit}.`
    case 'pattern':
      return ruleOf(error, schema) ?? `Must match the pattern ${String(error.params['pattern'])}.`
    case 'format':
      return `Must be a valid ${String(error.params['format'])}.`
    default: {
      const text = error.message.charAt(0).toUpperCase() + error.message.slice(1)
      return text.endsWith('.') ? text : `${text}.`
    }
  }
}

/** Reports what a union accepts once instead of each branch's errors; returns the errors left to report. */
function ofUnion(
  union: SchemaError,
  branches: readonly SchemaError[],
  schema: TSchema,
  add: (path: string, message: string) => void
): readonly SchemaError[] {
  const rule = ruleOf(union, schema)
  if (rule !== null) {
    add(union.instancePath, rule)
    return []
  }
  // A branch that went deeper is the intended one.
  const deeper = branches.filter(error => error.instancePath !== union.instancePath || error.keyword === 'required')
  if (deeper.length > 0) return deeper
  const choices = branches.filter(isChoice)
  const kinds = branches
    .filter(error => error.keyword === 'type' && !choices.some(choice => choice.schemaPath === error.schemaPath))
    .flatMap(kindsOf)
  if (choices.length > 0) {
    add(union.instancePath, oneOf(choices.flatMap(valuesOf), kinds))
    return []
  }
  const rest = branches.filter(error => error.keyword !== 'type' && error.keyword !== 'anyOf')
  if (rest.length === 0) add(union.instancePath, kinds.length === 0 ? 'Has a form that is not allowed.' : mustBe(kinds))
  return rest
}

function collect(errors: Iterable<SchemaError>, schema: TSchema): ValidationError {
  const fields: Record<string, string[]> = {}
  const add = (path: string, message: string): void => {
    const list = (fields[fieldName(path)] ??= [])
    if (!list.includes(message)) list.push(message)
  }
  // Each unknown member has its own error beside the object's.
  let left: readonly SchemaError[] = [...errors].filter(({ keyword }) => keyword !== 'additionalProperties')
  const unions = left
    .filter(error => error.keyword === 'anyOf')
    .sort((a, b) => a.schemaPath.length - b.schemaPath.length)
  for (const union of unions) {
    if (!left.includes(union)) continue
    const inside = (error: SchemaError): boolean =>
      error.schemaPath.startsWith(`${union.schemaPath}/anyOf/`) && error.instancePath.startsWith(union.instancePath)
    const branches = left.filter(inside)
    left = [...left.filter(error => error !== union && !inside(error)), ...ofUnion(union, branches, schema, add)]
  }
  for (const error of left) {
    if (error.keyword === 'required') {
      // `requiredProperties` is what typebox gives with this keyword.
      for (const name of (error.params['requiredProperties'] as readonly string[] | undefined) ?? [])
        add(`${error.instancePath}/${name}`, FIELD_REQUIRED)
    } else if (
      error.keyword !== 'type' ||
      !left.some(other => isChoice(other) && other.instancePath === error.instancePath)
    ) {
      // The allowed values imply the type.
      add(error.instancePath, messageOf(error, schema))
    }
  }
  return new ValidationError(fields)
}

function isEmail(schema: TSchema | undefined): boolean {
  const { format, 'x-email': email } = (schema ?? {}) as { format?: unknown; 'x-email'?: unknown }
  return format === 'email' || email === true
}

function takesNull(schema: TSchema | undefined): boolean {
  const { type, anyOf } = (schema ?? {}) as { type?: unknown; anyOf?: readonly TSchema[] }
  return type === 'null' || (Array.isArray(type) && type.includes('null')) || (anyOf?.some(takesNull) ?? false)
}

/** Whether unknown members can be skipped: copying 100,000 of them would dominate. */
function namesAll(schema: TSchema): boolean {
  const { properties, patternProperties, additionalProperties } = schema as {
    properties?: unknown
    patternProperties?: unknown
    additionalProperties?: unknown
  }
  return properties !== undefined && patternProperties === undefined && additionalProperties === undefined
}

function mayTake(schema: TSchema, kind: 'array' | 'object'): boolean {
  const { type, anyOf, enum: values } = schema as { type?: unknown; anyOf?: readonly TSchema[]; enum?: unknown }
  if (anyOf !== undefined) return anyOf.some(branch => mayTake(branch, kind))
  if (type === undefined) return values === undefined
  return type === kind || (Array.isArray(type) && type.includes(kind))
}

/** False where the operation validates the text itself. */
function refusesEmpty(schema: TSchema): boolean {
  const { anyOf, type, enum: values, minLength, pattern, format } = schema as Readonly<Record<string, unknown>>
  if (Array.isArray(anyOf))
    return anyOf.some(takesText) && !anyOf.some(branch => takesText(branch) && !refusesEmpty(branch))
  if (Array.isArray(values)) return values.some(value => typeof value === 'string') && !values.includes('')
  if (type === undefined || !takesText(schema)) return false
  return (
    (typeof minLength === 'number' && minLength > 0) ||
    format !== undefined ||
    (typeof pattern === 'string' && !new RegExp(pattern, 'u').test(''))
  )
}

function isOptional(schema: TSchema, name: string): boolean {
  return !((schema as { required?: readonly string[] }).required ?? []).includes(name)
}

function objectOf(schema: TSchema | undefined): TSchema | undefined {
  const { anyOf } = (schema ?? {}) as { anyOf?: readonly TSchema[] }
  const objects = anyOf?.filter(branch => mayTake(branch, 'object')) ?? []
  return objects.length === 1 ? objects[0] : schema
}

/**
 * Copies a body for validation. Null members are absent (decision 4), unless the schema takes null, which clears
 * (decision 67). Empty text in an optional member whose schema refuses it is null. Drops undeclared members. Stops at
 * the first list that is too long and after `MAX_VALUES` values, which bounds the work.
 */
class Copying {
  #values = 0

  copy(value: unknown, schema: TSchema | undefined, path: string): unknown {
    if (++this.#values > MAX_VALUES) throw invalidField('', `The body has more than ${MAX_VALUES} values.`)
    if (typeof value === 'string' && isEmail(schema)) return asciiEmail(value)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) {
      if (schema !== undefined && !mayTake(schema, 'array')) return []
      const { items, maxItems = Number.POSITIVE_INFINITY } = (schema ?? {}) as { items?: TSchema; maxItems?: number }
      if (value.length > maxItems) throw invalidField(path, `Must have at most ${maxItems} items.`)
      const copy: unknown[] = []
      for (const item of value) copy.push(this.copy(item, items, `${path}/${copy.length}`))
      return copy
    }
    if (schema !== undefined && !mayTake(schema, 'object')) return {}
    const members = value as Record<string, unknown> /* what JSON.parse made of an object */
    const object = objectOf(schema)
    const properties = object === undefined ? {} : propertiesOf(object)
    const copy: Record<string, unknown> = {}
    for (const name of object !== undefined && namesAll(object) ? Object.keys(properties) : Object.keys(members)) {
      if (!Object.hasOwn(members, name)) continue
      let member = members[name]
      if (name === '__proto__') {
        // Setting this name on a copy would change its prototype; dropping it would accept a different record.
        if (member !== null) throw invalidField(`${path}/__proto__`, 'Must have another name.')
        continue
      }
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (
        member === '' &&
        object !== undefined &&
        property !== undefined &&
        isOptional(object, name) &&
        refusesEmpty(property)
      )
        member = null
      if (member !== null || takesNull(property)) copy[name] = this.copy(member, property, `${path}/${name}`)
    }
    return copy
  }
}

function takesText(schema: TSchema): boolean {
  const { type, anyOf } = schema as { type?: unknown; anyOf?: readonly TSchema[] }
  return type === 'string' || (Array.isArray(type) && type.includes('string')) || (anyOf?.some(takesText) ?? false)
}

/**
 * JSON pointer to the first text that PostgreSQL would not return unchanged: with NUL or an unpaired surrogate. Null
 * for none. Skips texts with the keyword `x-judged`, such as credentials, which are never stored and get the
 * operation's own verdict.
 */
function unstorable(value: unknown, schema: TSchema | undefined, path = ''): string | null {
  if (schema === undefined || (schema as { 'x-judged'?: unknown })['x-judged'] === true) return null
  if (typeof value === 'string') return takesText(schema) && !isStorable(value) ? path : null
  if (typeof value !== 'object' || value === null) return null
  const { items } = schema as { items?: TSchema }
  const properties = propertiesOf(schema)
  for (const [name, member] of Object.entries(value)) {
    const found = unstorable(
      member,
      Array.isArray(value) ? items : Object.hasOwn(properties, name) ? properties[name] : undefined,
      `${path}/${name}`
    )
    if (found !== null) return found
  }
  return null
}

/** Whether the database returns a text unchanged. */
export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

const ROUNDED = 'Must not have more digits than a JSON number keeps, which is 15.'

export const UNSTORABLE = 'Must not hold the character U+0000 or half of a surrogate pair.'

/** Decimal members of an object; the range of integers keeps them exact. */
function decimalsOf(schema: TSchema): ReadonlySet<string> {
  const takes = ({ type, anyOf }: { readonly type?: unknown; readonly anyOf?: readonly TSchema[] }): boolean =>
    type === 'number' || (Array.isArray(type) && type.includes('number')) || (anyOf?.some(takes) ?? false)
  return new Set(Object.entries(propertiesOf(schema)).flatMap(([name, property]) => (takes(property) ? [name] : [])))
}

function requireStorable(value: unknown, schema: TSchema): void {
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
  const properties = propertiesOf(schema)
  return query => {
    if (query.length > MAX_QUERY) throw invalidField('', `The query must have at most ${MAX_QUERY} characters.`)
    const values: Record<string, unknown> = {}
    for (const [name, text] of new URLSearchParams(query)) {
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
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

function propertiesOf(schema: TSchema): Readonly<Record<string, TSchema>> {
  // Object schemas keep their members under `properties`.
  return (schema as { properties?: Record<string, TSchema> }).properties ?? {}
}

function fromText(property: TSchema, text: string): unknown {
  const type = (property as { type?: unknown }).type
  // Paging out of range is clamped and not refused (decision 12).
  if (type === 'integer' && /^-?\d+$/.test(text))
    return Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
  // Clients in .NET and Python write True and False.
  if (type === 'boolean' && /^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  return text
}
