import { resolve } from 'node:path'
import { internalPlugin, pluginFiles, readEntry, type PluginSources, type ReadEntry } from '../checks/chains.ts'
import { readApi } from '../checks/api-file.ts'
import { readCatalog } from '../checks/catalog.ts'
import type { MeterConfig } from '../checks/meter.ts'
import { checkMeterAlone, checkTokenPath, checkUpstream } from '../checks/route-checks.ts'
import type { UpstreamConfig, UrlUpstreamConfig } from '../sections/upstream.ts'
import { type Path, Findings } from './diagnose.ts'
import { parseFile, type Origin } from './document.ts'
import type { ChainsFile, LoadOptions } from './load.ts'
import { routeName } from './presets.ts'
import type { FoundReference } from './read.ts'
import type { FileConfig, PluginFacts, RouteConfig } from './schema.ts'

export interface PlacedRoute {
  readonly route: RouteConfig
  readonly index: number
}

export async function resolvePlugins(
  chains: FileConfig['chains'],
  folder: string,
  { plugins, importPlugin }: LoadOptions
): Promise<PluginSources> {
  return {
    named: plugins === undefined ? undefined : new Map([[internalPlugin.name, internalPlugin], ...plugins]),
    files: await importPlugins(pluginFiles(chains, folder), importPlugin)
  }
}

async function importPlugins(
  files: readonly string[],
  load: LoadOptions['importPlugin']
): Promise<PluginSources['files']> {
  const found = new Map<string, PluginFacts | { failure: string }>()
  if (load === undefined) return found
  for (const file of files) {
    try {
      found.set(file, await load(file))
    } catch (error) {
      // Any error of a user's file while it loads is a mistake in the configuration that names it.
      const [line] = (error instanceof Error ? error.message : String(error)).split('\n')
      found.set(file, { failure: line ?? '' })
    }
  }
  return found
}

export function readBuiltInChains(
  given: ChainsFile | undefined,
  sources: PluginSources
): Map<string, readonly ReadEntry[]> {
  if (given === undefined) return new Map()
  const { value, origin } = parseFile(given.file, given.text, {})
  // A test loads it as a file.
  const { chains } = value as Pick<FileConfig, 'chains'>
  return readChains(chains, origin, '', sources, [], new Findings(origin))
}

export function readChains(
  // Undefined for one with a problem, whatever its type says.
  written: FileConfig['chains'] | undefined,
  origin: Origin,
  folder: string,
  sources: PluginSources,
  references: FoundReference[],
  findings: Findings
): Map<string, readonly ReadEntry[]> {
  const chains = new Map<string, readonly ReadEntry[]>()
  for (const [name, raw] of Object.entries(written ?? {})) {
    const entries: ReadEntry[] = []
    for (const [index, item] of raw.entries()) {
      const result = readEntry(item, ['chains', name, index], origin, folder, sources)
      findings.add(result.problems)
      references.push(...result.references)
      if (result.read !== undefined) entries.push(result.read)
    }
    chains.set(name, entries)
  }
  return chains
}

export function readUpstreams(
  { upstreams }: FileConfig,
  folder: string,
  findings: Findings
): Record<string, UrlUpstreamConfig> {
  const read: Record<string, UrlUpstreamConfig> = {}
  // Undefined where `upstreams` itself has a problem.
  for (const [name, upstream] of Object.entries((upstreams as FileConfig['upstreams'] | undefined) ?? {})) {
    const path = ['upstreams', name]
    if (findings.isSound(path)) checkUpstream(upstream, path, findings, true)
    if (findings.isSound(path)) read[name] = { name, ...urlUpstream(upstream, folder) }
  }
  return read
}

export function readRoutes(
  config: FileConfig,
  raw: unknown,
  origin: Origin,
  folder: string,
  upstreams: Readonly<Record<string, UrlUpstreamConfig>>,
  findings: Findings
): PlacedRoute[] {
  const routes: PlacedRoute[] = []
  // As above: undefined where `routes` itself has a problem.
  for (const [index, route] of (config.routes ?? []).entries()) {
    const path: Path = ['routes', index]
    checkUpstream(valueAt(raw, [...path, 'upstream']), [...path, 'upstream'], findings)
    if (findings.isSound(path)) {
      checkMeterAlone(route, path, findings)
      checkTokenPath(route, path, findings)
    }
    if (!findings.isSound(path)) continue
    const { name, match, upstream: given, meter: written, ...rest } = route
    const meter = written === undefined ? undefined : meterOf(written, folder, path, findings)
    const api = route.openapi === undefined ? undefined : readApi(route.openapi, folder, path, findings)
    if (!findings.isSound(path)) continue
    const upstream = resolveUpstream(given, folder, upstreams)
    if (upstream === undefined) continue
    routes.push({
      index,
      route: {
        ...rest,
        ...(meter === undefined ? {} : { meter: withFallbacks(meter, upstream), price: meter.bundle }),
        ...(api === undefined ? {} : { api }),
        name: name ?? routeName(match),
        match,
        upstream,
        at: origin.position(path)
      }
    })
  }
  return routes
}

function valueAt(value: unknown, path: Path): unknown {
  let inner = value
  for (const step of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, step)) return undefined
    // Just checked to be an own property.
    inner = (inner as Record<string | number, unknown>)[step]
  }
  return inner
}

function meterOf(
  { prices, ...rest }: NonNullable<FileConfig['routes'][number]['meter']>,
  folder: string,
  path: Path,
  findings: Findings
): MeterConfig | undefined {
  if (typeof prices !== 'object' || !('catalog' in prices)) return { ...rest, prices }
  const read = readCatalog(prices, rest, folder, [...path, 'meter'], findings)
  return read === undefined ? undefined : { ...rest, ...read }
}

function withFallbacks(meter: MeterConfig, upstream: UpstreamConfig): MeterConfig {
  const fallbacks = upstream.kind === 'url' ? (upstream.fallback ?? []) : []
  const fallbackModels = fallbacks.flatMap(({ model }) => (model === undefined ? [] : [model]))
  return fallbackModels.length === 0 ? meter : { ...meter, fallbackModels }
}

function resolveUpstream(
  given: FileConfig['routes'][number]['upstream'],
  folder: string,
  upstreams: Readonly<Record<string, UrlUpstreamConfig>>
): UpstreamConfig | undefined {
  if (typeof given === 'string') return Object.hasOwn(upstreams, given) ? upstreams[given] : undefined
  const { files, internal, proxy, ...rest } = given
  if (files !== undefined) return { kind: 'files', path: resolve(folder, files) }
  if (internal !== undefined) return { kind: 'internal', name: internal }
  if (proxy !== undefined) return { kind: 'proxy', param: proxy.slice(1) }
  return urlUpstream(rest, folder)
}

/** Checked to have `url`. */
function urlUpstream(upstream: FileConfig['upstreams'][string], folder: string): UrlUpstreamConfig {
  return { kind: 'url', ...withFiles(upstream, folder), url: upstream.url ?? [] }
}

function withFiles<const T extends FileConfig['upstreams'][string]>(upstream: T, folder: string): T {
  if (upstream.tls === undefined) return upstream
  const tls = { ...upstream.tls }
  for (const key of ['ca', 'cert', 'key'] as const) {
    const file = tls[key]
    if (file !== undefined) tls[key] = resolve(folder, file)
  }
  return { ...upstream, tls }
}
