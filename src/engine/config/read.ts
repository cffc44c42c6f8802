import { isObject } from '../../platform/system/json.ts'
import type { Static, TSchema } from 'typebox'
import { Errors } from 'typebox/value'
import {
  type ConfigurationCode,
  formatMessage,
  formatPath,
  kindOf,
  nearest,
  quote,
  showValue,
  type Path,
  type Problem
} from './diagnose.ts'
import { describeAllowed, nearestValue, unknownKey } from './allowed.ts'
import { noOrigin, type Origin } from './document.ts'
import type { ReferenceKind } from './fields.ts'
import { textFormat } from './formats.ts'
import { choicesOf, isTuple, keywordsOf, leastItems, type Keywords } from './keywords.ts'
import { parseUnit, takesBareNumbers, type Unit } from './units.ts'

export interface FoundReference {
  readonly kind: ReferenceKind
  readonly name: string
  readonly path: Path
}

/**
 * `value` has the schema's type only where there are no problems at or below a path; a part with a problem is
 * undefined.
 */
interface ReadResult<T> {
  readonly value: T
  readonly problems: readonly Problem[]
  readonly references: readonly FoundReference[]
}

/**
 * Reads a plain value by a schema: refuses unknown keys, fills in defaults, converts units, wraps values for `List`,
 * and parses text from the environment. Collects every problem. Also reads each plugin's settings; `base` is the
 * value's path.
 */
export function readConfig<const Schema extends TSchema>(
  schema: Schema,
  value: unknown,
  origin: Origin = noOrigin('config'),
  base: Path = []
): ReadResult<Static<Schema>> {
  const { reader, result } = readBySchema(schema, value, origin, base)
  if (reader.problems.length === 0 && !reader.hasGaps) {
    // A third-party schema may use keywords that the reader does not know, which must not be skipped silently.
    for (const error of Errors(schema, result)) {
      const path = [...base, ...pointerSteps(error.instancePath, result)]
      reader.report('BG_CONFIG_VALUE', path, `${error.message}; allowed: what the schema of this setting says`)
      break
    }
  }
  // Without problems the value has just been checked against the schema; the result's comment covers the rest.
  return { value: result as Static<Schema>, problems: reader.problems, references: reader.references }
}

/**
 * Reads a value that a test has validated, such as a preset, without the second check, a tenth of the gateway's start.
 */
export function readSound<const Schema extends TSchema>(
  schema: Schema,
  value: unknown,
  origin: Origin
): Static<Schema> {
  return readBySchema(schema, value, origin, []).result as Static<Schema> /* by that test */
}

function readBySchema(schema: TSchema, value: unknown, origin: Origin, base: Path) {
  const reader = new Reader(origin)
  return { reader, result: reader.read(keywordsOf(schema), value, base) }
}

function pointerSteps(pointer: string, value: unknown): Path {
  let at = value
  return pointer
    .split('/')
    .slice(1)
    .map(part => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
      const step = Array.isArray(at) ? Number(name) : name
      // What is no list and has this member is an object.
      at = typeof at === 'object' && at !== null ? (at as Readonly<Record<string | number, unknown>>)[step] : undefined
      return step
    })
}

function hasType(type: string, value: unknown): boolean {
  switch (type) {
    case 'object':
      return isObject(value)
    case 'array':
      return Array.isArray(value)
    case 'integer':
      return Number.isSafeInteger(value)
    case 'number':
      return typeof value === 'number' && Number.isFinite(value)
    case 'null':
      return value === null
    default:
      return typeof value === type
  }
}

class Reader {
  readonly problems: Problem[] = []
  readonly references: FoundReference[] = []
  /** A part was missing before reading, such as an unset variable, and was reported then. */
  hasGaps = false
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  report(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): undefined {
    this.problems.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** Returns undefined, with a problem reported, for an invalid value. */
  read(schema: Keywords, given: unknown, path: Path): unknown {
    if (given === undefined) {
      this.hasGaps = true
      return undefined
    }
    const unit = schema['x-unit']
    if (unit !== undefined) return this.#readUnit(schema, unit, given, path)
    const item = schema['x-list']
    if (item !== undefined) return this.#readList(schema, item, given, path)
    const choices = choicesOf(schema)
    if (choices !== undefined) return this.#readChoice(schema, choices, given, path)
    if (schema.anyOf !== undefined) return this.#readAny(schema, schema.anyOf, given, path)
    const value = this.#fromEnvironment(schema.type, given, path)
    if (schema.const !== undefined && value !== schema.const) return this.#refuse(schema, value, path)
    if (schema.type === undefined)
      return schema.properties === undefined ? value : this.#readObject(schema, value, path)
    if (!hasType(schema.type, value)) return this.#refuse(schema, value, path)
    if (schema.type === 'object') return this.#readObject(schema, value, path)
    if (Array.isArray(value)) return this.#readArray(schema, value, path)
    if (typeof value === 'string') return this.#readText(schema, value, path)
    if (typeof value === 'number') return this.#withinBounds(schema, value) ? value : this.#refuse(schema, value, path)
    return value
  }

  #refuse(schema: Keywords, value: unknown, path: Path, suggestion?: string): undefined {
    const isShown = schema['x-secret'] !== true && this.#origin.expression(path) === undefined
    const meant = suggestion ?? (isShown ? nearestValue(schema, value) : undefined)
    return this.report(
      'BG_CONFIG_VALUE',
      path,
      formatMessage(this.#show(schema, value, path), describeAllowed(schema), meant)
    )
  }

  /** Values from the environment appear as their variable, never in the clear. */
  #show(schema: Keywords, value: unknown, path: Path): string {
    const expression = this.#origin.expression(path)
    if (schema['x-secret'] === true) {
      return typeof value === 'string' && value !== '' ? `a secret of ${value.length} characters` : kindOf(value)
    }
    if (expression !== undefined) return `what ${quote(expression)} gives`
    // A text instead of a mapping or list may be a secret one level too high.
    return schema.type === 'object' || schema.type === 'array' ? kindOf(value) : showValue(value)
  }

  /** Parses numbers and booleans, since variables are text. */
  #fromEnvironment(type: string | undefined, value: unknown, path: Path): unknown {
    if (
      typeof value !== 'string' ||
      type === undefined ||
      type === 'string' ||
      this.#origin.expression(path) === undefined
    )
      return value
    if ((type === 'integer' || type === 'number') && /^-?[0-9]{1,15}(\.[0-9]{1,15})?$/.test(value)) return Number(value)
    if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
    return value
  }

  #withinBounds(schema: Keywords, value: number): boolean {
    return (
      value >= (schema.minimum ?? -Infinity) &&
      value <= (schema.maximum ?? Infinity) &&
      value > (schema.exclusiveMinimum ?? -Infinity) &&
      value < (schema.exclusiveMaximum ?? Infinity) &&
      (schema.multipleOf === undefined || value % schema.multipleOf === 0)
    )
  }

  #readUnit(schema: Keywords, unit: Unit, given: unknown, path: Path): unknown {
    const fromEnvironment = takesBareNumbers(unit) ? this.#fromEnvironment('integer', given, path) : given
    const parsed = typeof fromEnvironment === 'string' ? parseUnit(unit, fromEnvironment) : fromEnvironment
    // Fiat has been checked with its text; it is converted at the sale.
    if (typeof parsed === 'string') return parsed
    // A bare number needs no unit only when it is 0.
    const bare = typeof given === 'number' && !takesBareNumbers(unit) && given !== 0
    if (bare || !Number.isSafeInteger(parsed) || typeof parsed !== 'number' || !this.#withinBounds(schema, parsed))
      return this.#refuse(schema, given, path)
    return parsed
  }

  #readList(schema: Keywords, item: Keywords, given: unknown, path: Path): unknown {
    if (!Array.isArray(given)) {
      const one = this.read(item, given, path)
      return one === undefined ? undefined : [one]
    }
    return this.#readArray({ ...schema, items: item, minItems: leastItems(schema) }, given, path)
  }

  #readChoice(schema: Keywords, choices: readonly unknown[], given: unknown, path: Path): unknown {
    const value = choices.includes(given) ? given : this.#fromEnvironment(typeof choices[0], given, path)
    if (choices.includes(value)) return value
    const suggestion =
      typeof given === 'string'
        ? nearest(
            given,
            choices.filter(choice => typeof choice === 'string')
          )
        : undefined
    return this.#refuse(schema, given, path, suggestion)
  }

  /** Selects the alternative of the value's type, so that its message fits. */
  #readAny(schema: Keywords, alternatives: readonly Keywords[], given: unknown, path: Path): unknown {
    let best: Reader | undefined
    for (const alternative of alternatives) {
      const value = this.#fromEnvironment(alternative.type, given, path)
      if (alternative.type !== undefined && !hasType(alternative.type, value)) continue
      // A value with a unit is a text or a number.
      if (alternative['x-unit'] !== undefined && typeof value === 'object') continue
      const attempt = new Reader(this.#origin)
      const result = attempt.read(alternative, given, path)
      if (attempt.problems.length === 0) {
        this.references.push(...attempt.references)
        this.hasGaps ||= attempt.hasGaps
        return result
      }
      if (best === undefined || attempt.problems.length < best.problems.length) best = attempt
    }
    if (best === undefined) return this.#refuse(schema, given, path)
    // Nothing in it indicates which alternative was intended.
    if (isObject(given) && Object.keys(given).length === 0)
      return this.report('BG_CONFIG_VALUE', path, formatMessage('an empty mapping', describeAllowed(schema)))
    this.problems.push(...best.problems)
    return undefined
  }

  #readText(schema: Keywords, value: string, path: Path): unknown {
    const length = [...value].length
    const format = schema['x-format'] === undefined ? undefined : textFormat(schema['x-format'])
    const pattern = schema.pattern === undefined ? undefined : new RegExp(schema.pattern)
    if (
      length < (schema.minLength ?? 0) ||
      length > (schema.maxLength ?? Infinity) ||
      pattern?.test(value) === false ||
      format?.check(value) === false
    ) {
      const plain = schema['x-secret'] !== true && this.#origin.expression(path) === undefined
      return this.#refuse(schema, value, path, plain ? format?.suggest?.(value) : undefined)
    }
    const kind = schema['x-reference']
    if (kind !== undefined) this.references.push({ kind, name: value, path })
    return value
  }

  #readArray(schema: Keywords, values: readonly unknown[], path: Path): unknown {
    if (values.length < (schema.minItems ?? 0))
      return this.report(
        'BG_CONFIG_VALUE',
        path,
        formatMessage(values.length === 0 ? 'an empty list' : `a list of ${values.length}`, describeAllowed(schema))
      )
    if (values.length > (schema.maxItems ?? Infinity))
      return this.report(
        'BG_CONFIG_VALUE',
        path,
        formatMessage(`a list of ${values.length}`, `a list of at most ${schema.maxItems ?? 0}`)
      )
    const { items } = schema
    const result = values.map((value, index) => {
      const item = items === undefined ? undefined : isTuple(items) ? items[index] : items
      return item === undefined ? value : this.read(item, value, [...path, index])
    })
    if (schema.uniqueItems === true) {
      const seen = new Set<string>()
      for (const [index, item] of result.entries()) {
        const key = JSON.stringify(item)
        if (item !== undefined && seen.has(key))
          this.report(
            'BG_CONFIG_DUPLICATE',
            [...path, index],
            'found the same item a second time; allowed: each item once'
          )
        seen.add(key)
      }
    }
    return result
  }

  #readObject(schema: Keywords, given: unknown, path: Path): unknown {
    if (!isObject(given)) return this.#refuse({ ...schema, type: 'object' }, given, path)
    const result: Record<string, unknown> = {}
    const taken = new Set<string>()
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      const former = property['x-former']
      const key = former !== undefined && !Object.hasOwn(given, name) && Object.hasOwn(given, former) ? former : name
      taken.add(key)
      const at = [...path, key]
      const value = Object.hasOwn(given, key) ? given[key] : undefined
      // An empty variable, as in "${PRICE:-}", omits the key.
      const left =
        value === '' &&
        this.#origin.expression(at) !== undefined &&
        (property.default !== undefined || schema.required?.includes(name) !== true)
      const filled =
        value === undefined || left
          ? this.#missing(schema, property, name, given, path)
          : this.read(property, value, at)
      if (filled !== undefined) result[name] = filled
    }
    const patterns = Object.entries(schema.patternProperties ?? {}).map(([pattern, property]) => ({
      pattern: new RegExp(pattern),
      property
    }))
    for (const [name, value] of Object.entries(given)) {
      if (taken.has(name)) continue
      const at = [...path, name]
      const rest = patterns.find(({ pattern }) => pattern.test(name))?.property ?? schema.additionalProperties
      if (typeof rest === 'object') {
        const read = this.read(rest, value, at)
        if (read !== undefined) result[name] = read
      } else if (rest === true) result[name] = value
      else this.#unknownKey(schema, name, at)
    }
    // Including defaults, and values with their own problems.
    const { size } = new Set([...Object.keys(given), ...Object.keys(result)])
    if (size < (schema.minProperties ?? 0) || size > (schema.maxProperties ?? Infinity))
      return this.report(
        'BG_CONFIG_VALUE',
        path,
        formatMessage(size === 0 ? 'an empty mapping' : `a mapping of ${size}`, describeAllowed(schema))
      )
    return result
  }

  #unknownKey(schema: Keywords, name: string, at: Path): void {
    this.problems.push({ ...this.#origin.position(at, 'key'), ...unknownKey(schema, name, at) })
  }

  /** The default of an absent key; a mapping with only defaults is filled from them. */
  #missing(
    schema: Keywords,
    property: Keywords,
    name: string,
    source: Readonly<Record<string, unknown>>,
    path: Path
  ): unknown {
    // A schema's defaults are already in the loaded form: milliseconds, lists.
    if (property.default !== undefined)
      return property.type === 'object' || property['x-list']?.type === 'object'
        ? this.read(property, property.default, [...path, name])
        : structuredClone(property.default)
    if (schema.required?.includes(name) !== true) return undefined
    if (Object.hasOwn(source, name)) {
      this.hasGaps = true
      return undefined
    }
    if (property.type === 'object' && property.properties !== undefined) return this.read(property, {}, [...path, name])
    return this.report(
      'BG_CONFIG_MISSING_KEY',
      [...path, name],
      `found nothing; this key is required: ${describeAllowed(property)}`
    )
  }
}
