import { isObject } from '../../platform/system/json.ts'
import type { UrlUpstreamConfig } from '../sections/upstream.ts'
import type { MeterConfig } from '../checks/meter.ts'
import { stringify } from 'yaml'
import { keywordsOf, type Keywords } from './keywords.ts'
import { fileSchema, type ChainEntryConfig, type GatewayConfig, type PluginFacts, type RouteConfig } from './schema.ts'
import { listenText } from './listen-address.ts'
import { formatUnit } from './units.ts'
import { entrySiblings } from '../checks/chains.ts'

export const HIDDEN = '(hidden)'

export type KnownPlugins = ReadonlyMap<string, Pick<PluginFacts, 'config' | 'terminal'>>

interface Leaf {
  readonly shown: string
  /** To be compared and never shown. */
  readonly raw: string
}

/** Null for an absent value. */
export interface ConfigurationChange {
  /** Such as `routes.GET /v1/*.price`. */
  readonly path: string
  readonly before: string | null
  readonly after: string | null
}

/** A configuration safe to display: hides secrets and everything unknown to the schema. */
interface Effective {
  readonly yaml: string
  readonly leaves: ReadonlyMap<string, Leaf>
}

/**
 * The configuration in effect, with its own chains and routes; routes of its API appear by `use`. Values of third-party
 * plugins are shown only where they are numbers, booleans or enumerated words.
 */
export function effective(config: GatewayConfig, plugins: KnownPlugins): Effective {
  const leaves = new Map<string, Leaf>()
  const masker = new Masker(leaves)
  const schema = keywordsOf(fileSchema())
  const { file, chains, routes, upstreams, server, warnings: _warnings, ...rest } = config
  const own = {
    ...rest,
    server: { ...server, listen: server.addresses.map(listenText) },
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, upstream]) => [name, serversAsWritten(upstream)])
    )
  }
  const known = Object.fromEntries(Object.entries(schema.properties ?? {}).filter(([name]) => Object.hasOwn(own, name)))
  const shown = masker.show({ type: 'object', properties: known }, own, [])
  const tree: Record<string, unknown> = isObject(shown) ? { ...shown } : {}
  tree['chains'] = Object.fromEntries(
    Object.entries(chains).flatMap(([name, entries]) =>
      entries.some(({ at }) => at.file === file)
        ? [[name, entries.map((entry, nth) => showEntry(masker, entry, plugins, ['chains', name, nth]))]]
        : []
    )
  )
  const routeSchema = schema.properties?.['routes']?.items
  tree['routes'] = routes
    .filter(({ at }) => at.file === file)
    .map(route => masker.show(isKeywords(routeSchema) ? routeSchema : {}, asWritten(route), ['routes', route.name]))
  return { yaml: stringify(tree, { lineWidth: 0 }), leaves }
}

/** The differences in the order of `after`; of secrets only that they differ. */
export function changesBetween(before: Effective, after: Effective): ConfigurationChange[] {
  const changes: ConfigurationChange[] = []
  for (const [path, leaf] of after.leaves) {
    const was = before.leaves.get(path)
    if (was?.raw !== leaf.raw) changes.push({ path, before: was?.shown ?? null, after: leaf.shown })
  }
  for (const [path, { shown }] of before.leaves)
    if (!after.leaves.has(path)) changes.push({ path, before: shown, after: null })
  return changes
}

/** A catalog may have thousands of prices. */
function meterAsWritten({ catalog, prices, fallbackModels: _fallbackModels, ...meter }: MeterConfig): object {
  return { ...meter, prices: catalog ?? prices }
}

function serversAsWritten({ kind: _kind, name: _name, ...upstream }: UrlUpstreamConfig): object {
  return upstream
}

function asWritten({ at: _at, api: _api, upstream, meter, price, ...route }: RouteConfig): object {
  const { kind, ...where } = upstream
  return {
    ...route,
    // With a meter the price is that of the bundle, shown there.
    ...(price === undefined || meter !== undefined ? {} : { price }),
    ...(meter === undefined ? {} : { meter: meterAsWritten(meter) }),
    upstream:
      kind === 'files'
        ? { files: 'path' in where ? where.path : '' }
        : kind === 'internal'
          ? { internal: 'name' in where ? where.name : '' }
          : kind === 'proxy'
            ? { proxy: 'param' in where ? `:${where.param}` : '' }
            : 'name' in where && where.name !== undefined
              ? where.name
              : upstream.kind === 'url'
                ? serversAsWritten(upstream)
                : {}
  }
}

function showEntry(masker: Masker, entry: ChainEntryConfig, plugins: KnownPlugins, path: readonly Step[]): unknown {
  const { plugin, config, file, when, disabled, mode } = entry
  const known = plugins.get(file ?? plugin)
  // A third-party plugin may declare a key as plain text.
  const strict = file !== undefined
  const settings = masker.show(known === undefined ? {} : keywordsOf(known.config), config, [...path, plugin], strict)
  const siblings: Record<string, unknown> = {
    ...(when === undefined ? {} : { when }),
    ...(disabled ? { disabled } : {}),
    ...(mode === 'enforce' ? {} : { mode })
  }
  const beside = masker.show(keywordsOf(entrySiblings), siblings, path)
  const isBare = isObject(settings) && Object.keys(settings).length === 0 && Object.keys(siblings).length === 0
  return isBare ? plugin : { [plugin]: settings, ...(isObject(beside) ? beside : {}) }
}

type Step = string | number

class Masker {
  readonly #leaves: Map<string, Leaf>

  constructor(leaves: Map<string, Leaf>) {
    this.#leaves = leaves
  }

  /** `strict`: shows only texts that the schema enumerates. */
  show(schema: Keywords, value: unknown, path: readonly Step[], strict = false): unknown {
    const shown = this.#shown(schema, value, path, strict)
    if (!isObject(shown) && !Array.isArray(shown) && shown !== undefined)
      this.#leaves.set(path.join('.'), { shown: String(shown), raw: JSON.stringify(value) })
    return shown
  }

  #shown(schema: Keywords, value: unknown, path: readonly Step[], strict: boolean): unknown {
    if (value === undefined) return undefined
    if (schema['x-secret'] === true) return value === '' ? '' : HIDDEN
    const unit = schema['x-unit']
    if (unit !== undefined && typeof value === 'number') return formatUnit(unit, value)
    if (unit !== undefined && typeof value === 'string') return value
    const list = schema['x-list']
    if (list !== undefined && Array.isArray(value)) return this.#items(list, value, path, strict)
    const choices = schema.enum ?? (schema.const === undefined ? undefined : [schema.const])
    if (choices !== undefined) return choices.includes(value) ? value : HIDDEN
    if (schema.anyOf !== undefined) {
      const fitting = schema.anyOf.find(alternative => fits(alternative, value))
      if (fitting !== undefined) return this.#shown(fitting, value, path, strict)
    }
    if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value
    if (schema.anyOf !== undefined) return HIDDEN
    if (typeof value === 'string') return schema.type === 'string' && !strict ? withoutKeys(value) : HIDDEN
    if (Array.isArray(value)) {
      const { items } = schema
      return isKeywords(items) ? this.#items(items, value, path, strict) : HIDDEN
    }
    return isObject(value) ? this.#members(schema, value, path, strict) : HIDDEN
  }

  #items(schema: Keywords, values: readonly unknown[], path: readonly Step[], strict: boolean): unknown[] {
    return values.map((item, nth) => this.show(schema, item, [...path, nth], strict))
  }

  #members(
    schema: Keywords,
    value: Readonly<Record<string, unknown>>,
    path: readonly Step[],
    strict: boolean
  ): Record<string, unknown> {
    const shown: Record<string, unknown> = {}
    const hidesNames = isTableByClient(value)
    for (const [nth, [name, member]] of Object.entries(value).entries()) {
      const inner = schemaOf(schema, name)
      if (hidesNames && name === 'of' && isObject(member)) {
        // Its keys are values that clients send in a header or the query, perhaps their API keys.
        const entries = Object.values(member).map((entry, at): [string, unknown] => [`(value ${at + 1})`, entry])
        shown[name] = this.show(inner ?? {}, Object.fromEntries(entries), [...path, name], strict)
        continue
      }
      // A name unknown to the schema may be a misplaced secret.
      const isNamed = schema.properties !== undefined && Object.hasOwn(schema.properties, name)
      const called = isNamed || (inner !== undefined && !strict) ? name : `(name ${nth + 1})`
      shown[called] = inner === undefined ? HIDDEN : this.show(inner, member, [...path, called], strict)
    }
    return shown
  }
}

function schemaOf(schema: Keywords, name: string): Keywords | undefined {
  if (schema.properties !== undefined && Object.hasOwn(schema.properties, name)) return schema.properties[name]
  const byPattern = Object.entries(schema.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(name))
  if (byPattern !== undefined) return byPattern[1]
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
}

function fits(schema: Keywords, value: unknown): boolean {
  if (schema.const !== undefined) return schema.const === value
  if (schema.enum !== undefined) return schema.enum.includes(value)
  if (schema['x-list'] !== undefined) return Array.isArray(value)
  if (schema.anyOf !== undefined) return schema.anyOf.some(alternative => fits(alternative, value))
  if (typeof value === 'string') return schema.type === 'string'
  if (typeof value === 'number') return schema.type === 'integer' || schema.type === 'number'
  if (Array.isArray(value)) return schema.type === 'array'
  return (
    isObject(value) &&
    schema.type === 'object' &&
    Object.keys(value).every(name => schemaOf(schema, name) !== undefined)
  )
}

function isTableByClient(value: Readonly<Record<string, unknown>>): boolean {
  const { by } = value
  return isObject(by) && (Object.hasOwn(by, 'header') || Object.hasOwn(by, 'query'))
}

function isKeywords(items: Keywords['items']): items is Keywords {
  return items !== undefined && !Array.isArray(items)
}

/** A URL without user, password and query values, which may be keys. */
function withoutKeys(text: string): string {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return text
  const url = URL.parse(text)
  if (url === null) return HIDDEN
  if (url.username !== '' || url.password !== '') {
    url.username = 'hidden'
    url.password = ''
  }
  for (const name of new Set(url.searchParams.keys())) url.searchParams.set(name, 'hidden')
  if (url.hash !== '') url.hash = 'hidden'
  // Unchanged where nothing was removed: URL adds a trailing slash.
  return url.username === '' && url.search === '' && url.hash === '' ? text : url.href
}

/** Parts fixed at start, which a reload does not change. */
const FIXED = [
  'mode',
  'server',
  'secrets',
  'data',
  'database',
  'state',
  'lightning',
  'prices',
  'mail',
  'billing',
  'storefront',
  'log'
] as const

export function needsRestart(before: GatewayConfig, after: GatewayConfig): string[] {
  return FIXED.filter(part => JSON.stringify(before[part]) !== JSON.stringify(after[part]))
}
