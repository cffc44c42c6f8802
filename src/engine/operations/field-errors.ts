import type { TSchema } from 'typebox'
import { didYouMean, formatNames, nearest, quote } from '../config/diagnose.ts'
import { ValidationError } from './errors.ts'

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

export function collect(errors: Iterable<SchemaError>, schema: TSchema): ValidationError {
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
