import { isObject } from '../../platform/system/json.ts'
import type { TSchema } from 'typebox'
import type { Json } from './errors.ts'

/** `x-openapi` of a web address that is validated in code. */
export const WEB_ADDRESS: Json = Object.freeze({ format: 'uri', pattern: '^https?://' })

const NAME = /^[A-Z][A-Za-z0-9]+$/

/**
 * Writes schemas into an OpenAPI document. One with a `title` in PascalCase is a resource: it is written to
 * `components/schemas` once and referenced where it is used, so that generators make one type of it.
 *
 * `x-type` in an open schema becomes `type` here alone: the writer of replies must not see it, because it would print a
 * decimal such as 1e-8 in the form of a float (decision 8). What `x-openapi` holds is written into its schema here
 * alone: rules that an operation checks itself, because what it answers then has another form than the engine's.
 */
export class NamedSchemas {
  readonly components: Json

  /** @param known schemas whose names are taken */
  constructor(known: Readonly<Json> = {}) {
    this.components = { ...known }
  }

  /** @throws TypeError when two different schemas have one name */
  write(schema: TSchema): Json {
    // A typebox schema without its symbols is JSON Schema.
    return this.#hoist(JSON.parse(JSON.stringify(schema))) as Json
  }

  /**
   * Optional members of a body also take null, which means absent (decision 4).
   * @throws TypeError when two different schemas have one name
   */
  writeBody(schema: TSchema): Json {
    return this.#hoist(withNulls(JSON.parse(JSON.stringify(schema)))) as Json // as above
  }

  #hoist(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(item => this.#hoist(item))
    if (!isObject(value)) return value
    const { 'x-type': type, 'x-openapi': more, ...rest } = value
    const entries = Object.entries(rest).map(
      ([name, inner]) => [name, isData(name) ? inner : this.#hoist(inner)] as const
    )
    const written: Json = {
      ...(type === undefined ? {} : { type }),
      ...Object.fromEntries(entries),
      ...(isObject(more) ? more : {})
    }
    const name = written['title']
    if (typeof name !== 'string' || !NAME.test(name)) return written
    const known = this.components[name]
    if (known === undefined) this.components[name] = written
    else if (JSON.stringify(known) !== JSON.stringify(written))
      throw new TypeError(`two different schemas are named ${name}`)
    return { $ref: `#/components/schemas/${name}` }
  }
}

function withNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNulls)
  if (!isObject(value)) return value
  const required: readonly unknown[] = Array.isArray(value['required']) ? value['required'] : []
  const out: Json = {}
  for (const [name, inner] of Object.entries(value)) {
    const members = (name === 'properties' || name === 'patternProperties') && isObject(inner)
    if (!members) out[name] = isData(name) || name === 'x-openapi' ? inner : withNulls(inner)
    else
      out[name] = Object.fromEntries(
        Object.entries(inner).map(([key, member]) => [
          key,
          name === 'properties' && required.includes(key) ? withNulls(member) : orNull(withNulls(member))
        ])
      )
  }
  return out
}

function orNull(schema: unknown): unknown {
  if (!isObject(schema)) return schema
  const { type, enum: values, anyOf } = schema
  if (Array.isArray(anyOf))
    return anyOf.some(branch => isObject(branch) && branch['type'] === 'null')
      ? schema
      : { ...schema, anyOf: [...anyOf, { type: 'null' }] }
  if (type === undefined && values === undefined) return schema
  const types: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type]
  return {
    ...schema,
    ...(types.length === 0 || types.includes('null') ? {} : { type: [...types, 'null'] }),
    ...(Array.isArray(values) && !values.includes(null) ? { enum: [...values, null] } : {})
  }
}

/** Members that hold data, in which a `title` is not a schema's. */
function isData(name: string): boolean {
  return name === 'example' || name === 'examples' || name === 'default' || name === 'const' || name === 'enum'
}

export function referenced(document: unknown, components: Readonly<Record<string, Json>>): Record<string, Json> {
  const out: Record<string, Json> = {}
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit)
    if (!isObject(value)) return
    const target = typeof value['$ref'] === 'string' ? /^#\/components\/([^/]+)\/([^/]+)$/.exec(value['$ref']) : null
    if (target !== null) {
      const [, kind = '', name = ''] = target
      const component = components[kind]?.[name]
      const kept = (out[kind] ??= {})
      if (component !== undefined && kept[name] === undefined) {
        kept[name] = component
        visit(component)
      }
    }
    Object.values(value).forEach(visit)
  }
  visit(document)
  return out
}

export function membersOf(schema: Json): {
  readonly properties: Readonly<Record<string, Json>>
  readonly required: readonly string[]
} {
  // Where JSON Schema keeps an object's members.
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] }
  return { properties, required }
}

export function schemaOf(value: unknown): Json {
  if (value === null || value === undefined) return {}
  if (Array.isArray(value)) return { type: 'array', items: value.length === 0 ? {} : schemaOf(value[0]) }
  if (typeof value !== 'object') return { type: typeof value }
  return {
    type: 'object',
    properties: Object.fromEntries(Object.entries(value).map(([name, member]) => [name, schemaOf(member)]))
  }
}
