import { isUtf8 } from 'node:buffer'
import { access, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { internalPlugin, pluginFiles, readEntry, type PluginSources, type ReadEntry } from '../checks/chains.ts'
import { ConfigError, type Path, type Problem } from './diagnose.ts'
import { parseFile } from './document.ts'
import { parseListen } from './formats.ts'
import { Findings } from './findings.ts'
import { deepFreeze } from './freeze.ts'
import type { Environment } from './interpolate.ts'
import {
  checkChain,
  checkDuplicates,
  checkFreeSiblings,
  checkMeterAlone,
  checkTokenPath,
  checkReferences,
  checkRoute,
  checkUpstream
} from '../checks/route-checks.ts'
import {
  checkCallSchemes,
  checkKeys,
  checkNames,
  checkOperatorKey,
  checkSessionProvider,
  placedProviders
} from '../checks/provider-checks.ts'
import {
  checkBilling,
  checkDatabase,
  checkLargeHeads,
  checkProduction,
  checkSettings,
  checkProxyUrl,
  checkState,
  checkWorkers
} from '../checks/settings-checks.ts'
import { DEFAULT_USE, PRESET_NAMES, routeName, type PresetName } from './presets.ts'
import { readConfig, type FoundReference } from './read.ts'
import { sells } from '../checks/sale.ts'
import {
  fileSchema,
  type ChainEntryConfig,
  type FileConfig,
  type GatewayConfig,
  type PluginFacts,
  type RouteConfig
} from './schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'
import { builtInPolicies } from '../sections/policy.ts'
import type { UpstreamConfig, UrlUpstreamConfig } from '../sections/upstream.ts'

/** Built-in chains, in the form of a configuration file. */
export interface ChainsFile {
  /** How messages name it. */
  readonly file: string
  readonly text: string
}

/** What the loader may be told about the rest of the gateway. */
export interface LoadOptions {
  /** The gateway's own plugins. Without them chains are read as they are written, and their order is not checked. */
  readonly plugins?: ReadonlyMap<string, PluginFacts>
  /** Loads a user's plugin file by its absolute path. Without it such entries are read as they are written. */
  readonly importPlugin?: (file: string) => Promise<PluginFacts>
  /** Names of the upstreams inside the gateway; unchecked without. */
  readonly internals?: readonly string[]
  /** The kinds of provider; without them any is taken, and nothing is checked that hangs on the kind. */
  readonly providers?: readonly ProviderFacts[]
  /** YAML of the chains that every file can name; none when left out. */
  readonly chains?: ChainsFile
  /** Folder that relative paths in the file start from; the file's own by default. */
  readonly folder?: string
}

/**
 * Reads, checks and freezes a configuration file. Throws ConfigError, with every problem at once, for whatever is wrong
 * with the file; nothing else. `file` is shown in messages as it is given.
 */
export async function loadConfig(file: string, env: Environment, options: LoadOptions = {}): Promise<GatewayConfig> {
  let text: string
  try {
    const bytes = await readFile(file)
    if (isUtf16(bytes))
      throw new ConfigError([
        {
          code: 'BG_CONFIG_SYNTAX',
          file,
          line: 1,
          column: 1,
          path: '',
          message: 'found a file in UTF-16; allowed: YAML in UTF-8, as which any editor can save it'
        }
      ])
    text = bytes.toString('utf8')
    if (!isUtf8(bytes)) {
      // The first byte that decoding did not keep.
      const again = Buffer.from(text)
      const before = bytes
        .subarray(
          0,
          bytes.findIndex((byte, index) => byte !== again[index])
        )
        .toString('utf8')
      throw new ConfigError([
        {
          code: 'BG_CONFIG_SYNTAX',
          file,
          line: before.split('\n').length,
          column: before.length - before.lastIndexOf('\n'),
          path: '',
          message:
            'found bytes that are not UTF-8, such as Latin-1; allowed: YAML in UTF-8, as which any editor can save it'
        }
      ])
    }
    text = text.replace(/^\uFEFF/, '')
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    throw new ConfigError([
      {
        code: 'BG_CONFIG_FILE',
        file,
        line: 1,
        column: 1,
        path: '',
        message: `the file cannot be read (${code}); name a readable file`
      }
    ])
  }
  return loadConfigText(file, text, env, options)
}

/** By its byte order mark, which editors of Windows write. */
function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
}

/** The same for text that was already read; `file` names it in messages. Throws ConfigError. */
export async function loadConfigText(
  file: string,
  text: string,
  env: Environment,
  options: LoadOptions = {}
): Promise<GatewayConfig> {
  const folder = options.folder ?? dirname(resolve(file))
  const { value, origin, problems } = parseFile(file, text, env)
  const findings = new Findings(origin)
  findings.add(problems)
  if (value === undefined) throw new ConfigError(findings.problems)
  // Extensions hold anchors for the rest of the file.
  if (typeof value === 'object' && value !== null)
    for (const name of Object.keys(value)) if (name.startsWith('x-')) Reflect.deleteProperty(value, name)
  // A file that says nothing of it is for where it runs: an image is production unless told otherwise.
  const mode = env['BOLTGATE_MODE']
  if (mode !== undefined && mode !== '' && typeof value === 'object' && value !== null && !('mode' in value))
    Object.assign(value, { mode })
  const { value: config, problems: mistakes, references } = readConfig(fileSchema(options.providers), value, origin)
  findings.add(mistakes)
  if (typeof config !== 'object') throw new ConfigError(findings.problems)

  const sources: PluginSources = {
    named:
      options.plugins === undefined ? undefined : new Map([[internalPlugin.name, internalPlugin], ...options.plugins]),
    files: await importPlugins(pluginFiles(config.chains, folder), options.importPlugin)
  }
  const found: FoundReference[] = [...references]
  const chains = readChains(config.chains, origin, folder, sources, found, findings)
  const builtIn = builtInChains(options.chains, sources)
  for (const [name, entries] of builtIn) if (!chains.has(name)) chains.set(name, entries)
  const names = (map: unknown): string[] => (typeof map === 'object' && map !== null ? Object.keys(map) : [])
  checkReferences(
    found,
    {
      policy: [...Object.keys(builtInPolicies), ...names(config.policies)],
      chain: [...new Set([...names(config.chains), ...builtIn.keys()])],
      upstream: names(config.upstreams)
    },
    findings
  )

  const known = [...(sources.named?.values() ?? []), ...[...sources.files.values()].filter(facts => 'config' in facts)]
  for (const [name, chain] of chains)
    if (Object.hasOwn(config.chains ?? {}, name) && findings.isSound(['chains', name]))
      checkChain(chain, known, findings)
  if (['server', 'state', 'database'].every(key => findings.isSound([key]))) checkWorkers(config, findings)
  if (findings.isSound(['database'])) checkDatabase(config, findings)
  if (findings.isSound(['state'])) checkState(config, findings)
  if (findings.isSound(['server'])) checkProxyUrl(config, findings)
  if (['server', 'routes'].every(key => findings.isSound([key]))) checkLargeHeads(config, findings)
  checkSettings(config, findings)
  checkBilling(config, findings)
  if (
    ['mode', 'server', 'secrets', 'database', 'lightning', 'prices', 'storefront', 'billing'].every(key =>
      findings.isSound([key])
    )
  )
    checkProduction(config, placedProviders(config, value), options.providers, findings)

  const upstreams: Record<string, UrlUpstreamConfig> = {}
  for (const name of names(config.upstreams)) {
    const upstream = Object.hasOwn(config.upstreams, name) ? config.upstreams[name] : undefined
    if (upstream !== undefined && findings.isSound(['upstreams', name]))
      upstreams[name] = { kind: 'url', name, ...withFiles(upstream, folder) }
  }
  const routes = readRoutes(config, value, origin, folder, upstreams, findings)
  checkDuplicates(routes, findings)
  for (const { route, index } of routes) {
    // A chain with a problem of its own may lack the very entry that a route is judged by.
    const chain = findings.isSound(['chains', route.chain]) ? chains.get(route.chain) : undefined
    checkRoute(route, index, chain, options.internals, findings)
  }
  checkFreeSiblings(
    routes.map(({ route, index }) => ({ route, index, isSold: sells(route, chains.get(route.chain) ?? []) })),
    findings
  )
  if (findings.isSound(['lightning'])) {
    const placed = placedProviders(config, value)
    checkNames(
      placed,
      (options.providers ?? []).map(({ name }) => name),
      findings
    )
    checkKeys(placed, options.providers, findings)
    if (findings.isSound(['payment'])) {
      checkSessionProvider(config, placed, options.providers, routes, findings)
      checkCallSchemes(config, routes, chains, findings)
    }
    checkOperatorKey(
      config,
      placed,
      options.providers,
      routes.filter(({ route }) => sells(route, chains.get(route.chain) ?? [])).map(({ route }) => route),
      findings
    )
  }
  await checkFiles(
    routes.map(({ route, index }) => ({ upstream: route.upstream, path: ['routes', index, 'upstream'] })),
    findings
  )
  await checkFiles(
    Object.entries(upstreams).map(([name, upstream]) => ({ upstream, path: ['upstreams', name] })),
    findings
  )
  if (findings.problems.length > 0) throw new ConfigError(findings.problems)
  return deepFreeze(
    assemble(
      file,
      folder,
      config,
      chains,
      upstreams,
      routes.map(({ route }) => route),
      findings.warnings
    )
  )
}

/** The parts of the API that a file mounts. The sandbox's wallet is not there in production. */
function usedBy({ use, mode }: Pick<FileConfig, 'use' | 'mode'>): readonly PresetName[] {
  return (use ?? DEFAULT_USE).filter(
    name => PRESET_NAMES.includes(name) && (name !== 'sandbox' || mode !== 'production')
  )
}

function builtInChains(given: ChainsFile | undefined, sources: PluginSources): Map<string, readonly ReadEntry[]> {
  if (given === undefined) return new Map()
  const { value, origin } = parseFile(given.file, given.text, {})
  // A test loads it as a file.
  const { chains } = value as Pick<FileConfig, 'chains'>
  return readChains(chains, origin, '', sources, [], new Findings(origin))
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
      // Whatever a stranger's file throws while it loads is a mistake in the configuration that names it.
      const [line] = (error instanceof Error ? error.message : String(error)).split('\n')
      found.set(file, { failure: line ?? '' })
    }
  }
  return found
}

type Origin = ReturnType<typeof parseFile>['origin']

function readChains(
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

function readRoutes(
  config: FileConfig,
  raw: unknown,
  origin: Origin,
  folder: string,
  upstreams: Readonly<Record<string, UrlUpstreamConfig>>,
  findings: Findings
): { route: RouteConfig; index: number }[] {
  const routes: { route: RouteConfig; index: number }[] = []
  // As above: undefined where `routes` itself has a problem.
  for (const [index, route] of (config.routes ?? []).entries()) {
    const path: Path = ['routes', index]
    checkUpstream(valueAt(raw, [...path, 'upstream']), [...path, 'upstream'], findings)
    if (findings.isSound(path)) {
      checkMeterAlone(route, path, findings)
      checkTokenPath(route, path, findings)
    }
    if (!findings.isSound(path)) continue
    const { name, match, upstream: given, meter, ...rest } = route
    const upstream = resolveUpstream(given, folder, upstreams)
    if (upstream === undefined) continue
    routes.push({
      index,
      route: {
        ...rest,
        // What one payment buys.
        ...(meter === undefined ? {} : { meter, price: meter.bundle }),
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
    // Just seen to be an own property.
    inner = (inner as Record<string | number, unknown>)[step]
  }
  return inner
}

/** Undefined for a named upstream that has a problem of its own. */
function resolveUpstream(
  given: FileConfig['routes'][number]['upstream'],
  folder: string,
  upstreams: Readonly<Record<string, UrlUpstreamConfig>>
): UpstreamConfig | undefined {
  if (typeof given === 'string') return Object.hasOwn(upstreams, given) ? upstreams[given] : undefined
  const { internal, proxy, url, ...rest } = given
  if (internal !== undefined) return { kind: 'internal', name: internal }
  if (proxy !== undefined) return { kind: 'proxy', param: proxy.slice(1) }
  return url === undefined ? undefined : { kind: 'url', ...withFiles({ url, ...rest }, folder) }
}

/** The files of `tls` as absolute paths. */
function withFiles<const T extends FileConfig['upstreams'][string]>(upstream: T, folder: string): T {
  if (upstream.tls === undefined) return upstream
  const tls = { ...upstream.tls }
  for (const key of ['ca', 'cert', 'key'] as const) {
    const file = tls[key]
    if (file !== undefined) tls[key] = resolve(folder, file)
  }
  return { ...upstream, tls }
}

/** The files that an upstream names must be there, and TLS settings need an https address. */
async function checkFiles(
  upstreams: readonly { readonly upstream: UpstreamConfig; readonly path: Path }[],
  findings: Findings
): Promise<void> {
  for (const { upstream, path } of upstreams) {
    // A named upstream is checked where it stands, not again for every route that uses it.
    if (upstream.kind !== 'url' || upstream.tls === undefined || (upstream.name !== undefined && path[0] === 'routes'))
      continue
    if (upstream.url.startsWith('http:'))
      findings.report(
        'BG_CONFIG_CONFLICT',
        [...path, 'tls'],
        'found tls beside a plain http address; allowed: tls beside an https address',
        'key'
      )
    for (const key of ['ca', 'cert', 'key'] as const) {
      const file = upstream.tls[key]
      if (file === undefined) continue
      try {
        await access(file)
      } catch {
        // The reason matters little to the reader: the file is not there for this process.
        findings.report(
          'BG_CONFIG_FILE',
          [...path, 'tls', key],
          'found a file that cannot be read; allowed: the path of a readable PEM file, seen from this file'
        )
      }
    }
  }
}

function assemble(
  file: string,
  folder: string,
  config: FileConfig,
  chains: ReadonlyMap<string, readonly ReadEntry[]>,
  upstreams: Record<string, UrlUpstreamConfig>,
  routes: readonly RouteConfig[],
  warnings: readonly Problem[]
): GatewayConfig {
  // The schema's format has accepted this text.
  const listen = parseListen(config.server.listen) ?? { host: '127.0.0.1', port: 8080 }
  const publicUrl = config.server.publicUrl === '' ? defaultPublicUrl(listen) : new URL(config.server.publicUrl).origin
  const realm =
    config.payment.realm !== '' ? config.payment.realm : publicUrl === '' ? listen.host : new URL(publicUrl).hostname
  const compiled: Record<string, readonly ChainEntryConfig[]> = {}
  for (const [name, entries] of chains) compiled[name] = entries.map(({ entry }) => entry)
  return {
    ...config,
    file,
    use: usedBy(config),
    usesNamed: config.use !== undefined,
    data: resolve(folder, config.data),
    server: {
      ...config.server,
      listen,
      publicUrl,
      proxyUrl: config.server.proxyUrl === '' ? '' : new URL(config.server.proxyUrl).origin
    },
    payment: { ...config.payment, realm },
    policies: { ...builtInPolicies, ...config.policies },
    chains: compiled,
    upstreams,
    routes,
    warnings
  }
}

/** Decision 21: derived from `listen`. Empty for port 0, whose number is known only once the listener is open. */
function defaultPublicUrl({ host, port }: { host: string; port: number }): string {
  if (port === 0) return ''
  // Nobody can connect to the address that means all addresses.
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  return new URL(`http://${reachable}:${port}`).origin
}
