import { isAbsolute, resolve } from 'node:path'
import { Type } from 'typebox'
import {
  type ConfigurationCode,
  didYouMean,
  formatNames,
  formatPath,
  kindOf,
  nearest,
  quote,
  wordBeforeLostColon,
  type Path,
  type Problem
} from '../config/diagnose.ts'
import type { Origin } from '../config/document.ts'
import { keywordsOf, type Keywords } from '../config/keywords.ts'
import { readConfig, type FoundReference } from '../config/read.ts'
import type { ChainEntryConfig, PluginFacts } from '../config/schema.ts'
import type { UpstreamConfig } from '../sections/upstream.ts'
import { WhenSchema } from '../sections/when.ts'
import { isObject } from '../../platform/system/json.ts'

/** Members beside a plugin's name in an entry; any other key is the name. */
export const entrySiblings = Type.Object(
  {
    when: Type.Optional(WhenSchema),
    disabled: Type.Boolean({ default: false, description: 'Leave the entry out.' }),
    mode: Type.Union([Type.Literal('enforce'), Type.Literal('observe')], {
      default: 'enforce',
      description: '`observe` decides and logs but does not act.'
    })
  },
  { additionalProperties: false }
)

const siblings = Object.keys(entrySiblings.properties)

/** The engine's terminal plugin for internal upstreams and files; it has no plugin file. */
export const internalPlugin: PluginFacts = { name: 'internal', config: Type.Object({}), terminal: true }

/** The plugin that ends a chain without a terminal one. */
export function terminalOf({ kind }: UpstreamConfig): 'internal' | 'forward' {
  return kind === 'internal' || kind === 'files' ? 'internal' : 'forward'
}

/** Plugin files that failed to load have their reason instead of facts. */
export type PluginSources = {
  /** Own plugins by name; undefined to skip their settings. */
  readonly named: ReadonlyMap<string, PluginFacts> | undefined
  /** A user's plugins by absolute path. */
  readonly files: ReadonlyMap<string, PluginFacts | { readonly failure: string }>
}

export interface ReadEntry {
  readonly entry: ChainEntryConfig
  readonly facts: PluginFacts | undefined
  readonly path: Path
}

function isPluginPath(name: string): boolean {
  return name.startsWith('./') || name.startsWith('../') || isAbsolute(name)
}

/** Absolute paths of plugin files in chains. Accepts anything, since `readEntry` reports problems. */
export function pluginFiles(chains: unknown, folder: string): string[] {
  const found = new Set<string>()
  for (const chain of Object.values(typeof chains === 'object' && chains !== null ? chains : {})) {
    if (!Array.isArray(chain)) continue
    for (const raw of chain) {
      const names = typeof raw === 'string' ? [raw] : typeof raw === 'object' && raw !== null ? Object.keys(raw) : []
      for (const name of names) if (isPluginPath(name)) found.add(resolve(folder, name))
    }
  }
  return [...found]
}

/** With the files of a plugin's settings, which begin in the folder of the configuration. */
function fromFolder(schema: Keywords, value: unknown, folder: string): unknown {
  const { 'x-format': format, 'x-list': item, properties } = schema
  if (typeof value === 'string') return format === 'file' ? resolve(folder, value) : value
  if (Array.isArray(value)) return item === undefined ? value : value.map(each => fromFolder(item, each, folder))
  if (properties === undefined || typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, fromFolder(properties[name] ?? {}, inner, folder)])
  )
}

export function readEntry(
  raw: unknown,
  path: Path,
  origin: Origin,
  folder: string,
  sources: PluginSources
): { read: ReadEntry | undefined; problems: readonly Problem[]; references: readonly FoundReference[] } {
  const problems: Problem[] = []
  const references: FoundReference[] = []
  const refuse = (code: ConfigurationCode, message: string, at: Path = path, part: 'key' | 'value' = 'value') => {
    problems.push({ code, ...origin.position(at, part), path: formatPath(at), message })
    return { read: undefined, problems, references }
  }
  if (raw === undefined) return { read: undefined, problems, references }
  const form = 'a plugin name, or { name: { settings } } with when, disabled and mode beside it'
  let name: string
  let settings: unknown = {}
  let beside: Record<string, unknown> = {}
  let settingsPath: Path = path
  if (typeof raw === 'string') name = raw
  else if (isObject(raw)) {
    const entries = Object.entries(raw)
    const names = entries.filter(([key]) => !siblings.includes(key))
    const [first, second] = names
    if (first === undefined) return refuse('BG_CONFIG_VALUE', `found an entry without a plugin; allowed: ${form}`)
    if (second !== undefined) {
      const known = (key: string): boolean => sources.named?.has(key) === true || isPluginPath(key)
      const [odd] =
        names.find(([key]) => nearest(key, siblings) !== undefined && !known(key)) ??
        names.find(([key]) => !known(key)) ??
        second
      return refuse(
        'BG_CONFIG_UNKNOWN_KEY',
        `found the unknown key ${quote(odd)} beside the plugin; allowed: one plugin in an entry, with when, disabled and mode beside it${didYouMean(nearest(odd, siblings))}`,
        [...path, odd],
        'key'
      )
    }
    name = first[0]
    settingsPath = [...path, name]
    settings = first[1] ?? {}
    beside = Object.fromEntries(entries.filter(([key]) => siblings.includes(key)))
  } else return refuse('BG_CONFIG_VALUE', `found ${kindOf(raw)}; allowed: ${form}`)

  const options = readConfig(entrySiblings, beside, origin, path)
  problems.push(...options.problems)
  const file = isPluginPath(name) ? resolve(folder, name) : undefined
  let facts: PluginFacts | undefined
  if (file === undefined) {
    facts = sources.named?.get(name)
    if (facts === undefined && sources.named !== undefined) {
      const names = [...sources.named.keys()].sort()
      const word = wordBeforeLostColon(name)
      if (word !== undefined && names.includes(word))
        return refuse(
          'BG_CONFIG_SYNTAX',
          `found no colon after ${quote(word)}; allowed: a key, a colon and a space, then the value`,
          settingsPath,
          'key'
        )
      const written = origin.expression(settingsPath)
      return refuse(
        'BG_CONFIG_REFERENCE',
        `found the unknown plugin ${quote(typeof raw === 'string' && written !== undefined ? written : name)}; allowed: ${formatNames(names)}, or a path such as ./my-plugin.ts${didYouMean(nearest(name, names))}`,
        settingsPath,
        'key'
      )
    }
  } else {
    const found = sources.files.get(file)
    if (found !== undefined && 'failure' in found)
      return refuse(
        'BG_PLUGIN_SETUP',
        `the plugin file ${quote(name)} cannot be used: ${found.failure}`,
        settingsPath,
        'key'
      )
    facts = found
  }
  let config: unknown = settings
  if (facts !== undefined) {
    const result = readConfig(facts.config, settings, origin, settingsPath)
    problems.push(...result.problems)
    references.push(...result.references)
    config = fromFolder(keywordsOf(facts.config), result.value, folder)
  }
  if (problems.length > 0) return { read: undefined, problems, references }
  const { when, disabled, mode } = options.value
  const entry: ChainEntryConfig = {
    plugin: name,
    config,
    disabled,
    mode,
    at: origin.position(settingsPath, 'key'),
    ...(file === undefined ? {} : { file }),
    ...(when === undefined ? {} : { when })
  }
  return { read: { entry, facts, path }, problems, references }
}
