import { replacementOf } from '../sections/retired.ts'
import {
  didYouMean,
  formatNames,
  formatPath,
  nearest,
  quote,
  wordBeforeLostColon,
  type Path,
  type Problem
} from './diagnose.ts'
import { textFormat } from './formats.ts'
import { choicesOf, isTuple, type Keywords } from './keywords.ts'
import { allowedUnit, formatUnit, parseUnit, takesBareNumbers, type Unit } from './units.ts'

/** What a schema allows, in words: for error messages and the reference page. */
export function describeAllowed(schema: Keywords): string {
  if (schema['x-allowed'] !== undefined) return schema['x-allowed']
  if (schema['x-format'] !== undefined) return textFormat(schema['x-format']).allowed
  const unit = schema['x-unit']
  if (unit !== undefined) return allowedUnit(unit) + describeBounds(schema, unit)
  if (schema['x-list'] !== undefined) return `${describeAllowed(schema['x-list'])}, or a list of such`
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  const choices = choicesOf(schema)
  if (choices !== undefined) return formatNames(choices.map(String))
  if (schema.anyOf !== undefined) return schema.anyOf.map(describeAllowed).join(', or ')
  switch (schema.type) {
    case 'object':
      return schema.properties === undefined
        ? `a mapping${describeEntries(schema)}`
        : `a mapping with the keys ${formatNames(Object.keys(schema.properties))}${describeEntries(schema, ',')}`
    case 'array':
      return schema.items === undefined || isTuple(schema.items)
        ? 'a list'
        : `a list${schema.minItems === undefined || schema.minItems === 0 ? '' : ` of at least ${schema.minItems}`}`
    case 'integer':
      return `a whole number${describeBounds(schema)}`
    case 'number':
      return `a number${describeBounds(schema)}`
    case 'boolean':
      return 'true or false'
    case 'null':
      return 'nothing'
    case 'string':
      return `a text${describeText(schema)}`
    default:
      return 'any value'
  }
}

const ANSWERS: Readonly<Record<string, boolean>> = {
  yes: true,
  on: true,
  true: true,
  no: false,
  off: false,
  false: false
}

/** What was probably meant by a value of the wrong type: a number in quotes, `yes`, or a number without its unit. */
export function nearestValue(schema: Keywords, value: unknown): string | number | boolean | undefined {
  const unit = schema['x-unit']
  const digits = typeof value === 'number' || (typeof value === 'string' && /^[0-9]{1,15}$/.test(value))
  if (unit !== undefined) {
    if (!digits) return undefined
    return [takesBareNumbers(unit) ? `${value} sats` : `${value}s`, `${value}KiB`].find(
      text => parseUnit(unit, text) !== undefined
    )
  }
  if (digits && (schema.type === 'integer' || schema.type === 'number')) return Number(value)
  return schema.type === 'boolean' && typeof value === 'string' && Object.hasOwn(ANSWERS, value.toLowerCase())
    ? ANSWERS[value.toLowerCase()]
    : undefined
}

function describeEntries({ minProperties = 0, maxProperties }: Keywords, before = ''): string {
  const entries = (count: number): string => `${count} ${count === 1 ? 'entry' : 'entries'}`
  if (minProperties > 0 && maxProperties !== undefined)
    return `${before} of ${minProperties} to ${entries(maxProperties)}`
  if (minProperties > 0) return `${before} of at least ${entries(minProperties)}`
  return maxProperties === undefined ? '' : `${before} of at most ${entries(maxProperties)}`
}

function describeBounds(schema: Keywords, unit?: Unit): string {
  const show = (value: number): string => (unit === undefined ? String(value) : formatUnit(unit, value))
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  const parts: string[] = []
  if (minimum !== undefined && maximum !== undefined) parts.push(` from ${show(minimum)} to ${show(maximum)}`)
  else if (minimum !== undefined && !(unit !== undefined && minimum === 0)) parts.push(` of at least ${show(minimum)}`)
  else if (maximum !== undefined) parts.push(` of at most ${show(maximum)}`)
  if (exclusiveMinimum !== undefined) parts.push(` above ${show(exclusiveMinimum)}`)
  if (exclusiveMaximum !== undefined) parts.push(` below ${show(exclusiveMaximum)}`)
  if (multipleOf !== undefined) parts.push(` that is a multiple of ${show(multipleOf)}`)
  return parts.length === 0 ? '' : unit === undefined ? parts.join(',') : `,${parts.join(',')}`
}

function describeText(schema: Keywords): string {
  const { minLength, maxLength, pattern } = schema
  const parts: string[] = []
  if (minLength !== undefined && maxLength !== undefined) parts.push(` of ${minLength} to ${maxLength} characters`)
  else if (minLength === 1) parts.push(' that is not empty')
  else if (minLength !== undefined && minLength > 0) parts.push(` of at least ${minLength} characters`)
  else if (maxLength !== undefined) parts.push(` of at most ${maxLength} characters`)
  if (pattern !== undefined) parts.push(` of the form ${typeof pattern === 'string' ? pattern : pattern.source}`)
  return parts.join(',')
}

export function unknownKey(schema: Keywords, name: string, at: Path): Pick<Problem, 'code' | 'path' | 'message'> {
  const path = formatPath(at)
  const patterns = Object.keys(schema.patternProperties ?? {})
  if (schema.properties === undefined && patterns.length > 0) {
    const message = `found the name ${quote(name)}; allowed: a name of the form ${patterns.join(' or ')}`
    return { code: 'BG_CONFIG_VALUE', path, message }
  }
  const names = Object.keys(schema.properties ?? {})
  const replacement = replacementOf(at)
  if (replacement !== undefined)
    return {
      code: 'BG_CONFIG_UNKNOWN_KEY',
      path,
      message: `found ${quote(name)}, which was removed: ${replacement}`
    }
  const word = wordBeforeLostColon(name)
  if (word !== undefined && names.includes(word))
    return {
      code: 'BG_CONFIG_SYNTAX',
      path,
      message: `found no colon after ${quote(word)}; allowed: a key, a colon and a space, then the value`
    }
  const suggestion = nearest(name, names)
  // In `secrets: { abc… }` the key is the secret itself: among secrets only what looks like a key is repeated.
  const hidden =
    suggestion === undefined &&
    name.length > 16 &&
    Object.values(schema.properties ?? {}).some(property => property['x-secret'] === true)
  return {
    code: 'BG_CONFIG_UNKNOWN_KEY',
    path: hidden ? formatPath(at.slice(0, -1)) : path,
    message: `found the unknown key ${hidden ? 'here' : quote(name)}; allowed: ${formatNames(names)}${didYouMean(suggestion)}`
  }
}
