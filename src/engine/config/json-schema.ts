import { entrySiblings, internalPlugin } from '../checks/chains.ts'
import { choicesOf, keywordsOf, leastItems, type Keywords } from './keywords.ts'
import { fileSchema, type PluginFacts } from './schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'
import { formatUnit, takesBareNumbers } from './units.ts'

/** Draft 7, which editors' YAML support reads. */
type JsonSchema = { [keyword: string]: unknown }

const variable = { type: 'string', pattern: '\\$\\{' }

/**
 * The JSON Schema of `gateway.yaml` for editors, with these plugins' settings and provider kinds. Keys with a default
 * are optional, and every value accepts a text with `${NAME}`.
 */
export function jsonSchema(plugins: Iterable<PluginFacts>, providers: readonly ProviderFacts[] = []): JsonSchema {
  const known = [internalPlugin, ...plugins]
  const siblings = properties(keywordsOf(entrySiblings))
  const settled = (name: string, schema: JsonSchema): JsonSchema => ({
    type: 'object',
    properties: { [name]: { anyOf: [schema, { type: 'null' }] }, ...siblings },
    required: [name],
    additionalProperties: false
  })
  const entry = {
    description: 'A plugin name or path, or its settings under its name.',
    anyOf: [
      { enum: known.map(plugin => plugin.name) },
      { type: 'string', pattern: '^(\\.{0,2}/|.*\\$\\{)' },
      ...known.map(plugin => settled(plugin.name, convert(keywordsOf(plugin.config)))),
      { type: 'object', properties: siblings, patternProperties: { '^\\.{0,2}/': {} }, additionalProperties: false }
    ]
  }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'gateway.yaml',
    ...convert(keywordsOf(fileSchema(providers))),
    patternProperties: { '^x-': {} },
    definitions: { entry }
  }
}

/** A key is optional by declaration, by its default, or as a mapping of such keys. */
export function isRequired(schema: Keywords, name: string): boolean {
  const property = schema.properties?.[name]
  if (property === undefined || schema.required?.includes(name) !== true || property.default !== undefined) return false
  if (property.type !== 'object' || property.properties === undefined) return true
  return Object.keys(property.properties).some(inner => isRequired(property, inner))
}

function properties(schema: Keywords): JsonSchema {
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, property]) => [name, convert(property)])
  )
}

function convert(schema: Keywords): JsonSchema {
  if (schema['x-form'] === 'chain-entry') return { $ref: '#/definitions/entry' }
  const notes: JsonSchema = {}
  if (schema.description !== undefined) notes['description'] = schema.description
  if (schema.default !== undefined)
    notes['default'] =
      schema['x-unit'] === undefined ? schema.default : formatUnit(schema['x-unit'], Number(schema.default))
  const unit = schema['x-unit']
  if (unit !== undefined) {
    // A loaded duration is a number, but the file refuses bare numbers.
    const forms = (schema.anyOf ?? []).filter(form => takesBareNumbers(unit) || form.type === 'string')
    const bounds = !takesBareNumbers(unit)
      ? {}
      : { minimum: schema.minimum, ...(schema.maximum === undefined ? {} : { maximum: schema.maximum }) }
    return {
      ...notes,
      anyOf: [...forms.map(form => (form.type === 'integer' ? { ...form, ...bounds } : { ...form })), variable]
    }
  }
  const item = schema['x-list']
  if (item !== undefined)
    return { ...notes, anyOf: [convert(item), { type: 'array', items: convert(item), minItems: leastItems(schema) }] }
  const choices = choicesOf(schema)
  if (choices !== undefined) return { ...notes, anyOf: [{ enum: choices }, variable] }
  if (schema.anyOf !== undefined) return { ...notes, anyOf: schema.anyOf.map(convert) }
  if (schema.type === 'object') return { ...notes, ...convertObject(schema) }
  if (schema.type === 'array') {
    const items =
      schema.items === undefined
        ? {}
        : { items: Array.isArray(schema.items) ? schema.items.map(convert) : convert(keywordsOf(schema.items)) }
    return { ...notes, ...plain(schema), ...items }
  }
  const form = plain(schema)
  const free = Object.keys(form).every(keyword => keyword === 'type') && schema.type === 'string'
  return free || schema.type === undefined ? { ...notes, ...form } : { ...notes, anyOf: [form, variable] }
}

function convertObject(schema: Keywords): JsonSchema {
  const result: JsonSchema = { type: 'object' }
  if (schema.properties !== undefined) result['properties'] = properties(schema)
  const required = Object.keys(schema.properties ?? {}).filter(name => isRequired(schema, name))
  if (required.length > 0) result['required'] = required
  if (schema.patternProperties !== undefined) {
    result['patternProperties'] = Object.fromEntries(
      Object.entries(schema.patternProperties).map(([pattern, property]) => [pattern, convert(property)])
    )
  }
  // The loader refuses unknown keys even where a plugin's schema does not.
  result['additionalProperties'] =
    typeof schema.additionalProperties === 'object'
      ? convert(schema.additionalProperties)
      : (schema.additionalProperties ?? false)
  return result
}

const kept = [
  'type',
  'const',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf'
] as const

function plain(schema: Keywords): JsonSchema {
  const result: JsonSchema = {}
  for (const keyword of kept) if (schema[keyword] !== undefined) result[keyword] = schema[keyword]
  if (schema.pattern !== undefined)
    result['pattern'] = typeof schema.pattern === 'string' ? schema.pattern : schema.pattern.source
  return result
}
