import { isObject } from '../../platform/system/json.ts'
import { dirname, resolve } from 'node:path'
import { runChecks } from '../checks/checks.ts'
import type { ReadEntry } from '../checks/chains.ts'
import { ConfigError, Findings, formatPath, type Problem } from './diagnose.ts'
import { parseFile, type Origin } from './document.ts'
import { deepFreeze } from './fields.ts'
import { type HostAndPort, mainAddress, reachable, readListen } from './listen-address.ts'
import { type Environment, interpolate } from './interpolate.ts'
import { DEFAULT_USE, PRESET_NAMES, type PresetName } from './presets.ts'
import { readConfig } from './read.ts'
import { readBuiltInChains, readChains, readRoutes, readUpstreams, resolvePlugins } from './resolve.ts'
import { fileSchema, type ChainEntryConfig, type FileConfig, type GatewayConfig, type PluginFacts } from './schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'
import { builtInPolicies } from '../sections/policy.ts'
import { plansOf } from '../sections/suite.ts'
import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'

export interface ChainsFile {
  readonly file: string
  readonly text: string
}

export interface LoadOptions {
  /** Own plugins. Without them chains are read as written, and their order is not checked. */
  readonly plugins?: ReadonlyMap<string, PluginFacts>
  /** Loads a user's plugin file by its absolute path. Without it such entries are read as written. */
  readonly importPlugin?: (file: string) => Promise<PluginFacts>
  readonly internals?: readonly string[]
  /** Without them any kind is accepted and unchecked. */
  readonly providers?: readonly ProviderFacts[]
  readonly chains?: ChainsFile
  readonly folder?: string
}

/**
 * Reads, checks and freezes a configuration file, named `file` in messages.
 * @throws ConfigError with every problem
 */
export async function loadConfig(file: string, env: Environment, options: LoadOptions = {}): Promise<GatewayConfig> {
  return await loadConfigText(file, await readSource(file), env, options)
}

/**
 * Like `loadConfig` for text; `file` names it in messages.
 * @throws ConfigError
 */
export async function loadConfigText(
  file: string,
  text: string,
  env: Environment,
  options: LoadOptions = {}
): Promise<GatewayConfig> {
  const folder = options.folder ?? dirname(resolve(file))
  const { value, origin: written, problems } = parseFile(file, text, env)
  const { origin, problems: unset } = addFallbacks(value, written, env)
  const findings = new Findings(origin)
  findings.add([...problems, ...unset])
  if (value === undefined) throw new ConfigError(findings.problems)
  const { value: config, problems: mistakes, references } = readConfig(fileSchema(options.providers), value, origin)
  findings.add(mistakes)
  if (typeof config !== 'object') throw new ConfigError(findings.problems)

  const sources = await resolvePlugins(config.chains, folder, options)
  const found = [...references]
  const chains = readChains(config.chains, origin, folder, sources, found, findings)
  const builtIn = readBuiltInChains(options.chains, sources)
  for (const [name, entries] of builtIn) if (!chains.has(name)) chains.set(name, entries)
  const upstreams = readUpstreams(config, folder, findings)
  const routes = readRoutes(config, value, origin, folder, upstreams, findings)
  await runChecks(
    {
      config,
      written: value,
      chains,
      plugins: [...(sources.named?.values() ?? []), ...[...sources.files.values()].filter(facts => 'config' in facts)],
      references: found,
      names: {
        policy: [...Object.keys(builtInPolicies), ...names(config.policies)],
        chain: [...new Set([...names(config.chains), ...builtIn.keys()])],
        upstream: names(config.upstreams)
      },
      upstreams,
      routes,
      providers: options.providers,
      internals: options.internals
    },
    findings
  )
  if (findings.problems.length > 0) throw new ConfigError(findings.problems)
  const read = routes.map(({ route }) => route)
  return deepFreeze(assemble({ file, folder, config, chains, upstreams, routes: read, warnings: findings.warnings }))
}

function names(map: unknown): string[] {
  return typeof map === 'object' && map !== null ? Object.keys(map) : []
}

/** The mounted parts of the API. Production has no sandbox wallet. */
function usedBy({ use, mode }: Pick<FileConfig, 'use' | 'mode'>): readonly PresetName[] {
  return (use ?? DEFAULT_USE).filter(
    name => PRESET_NAMES.includes(name) && (name !== 'sandbox' || mode !== 'production')
  )
}

interface Assembled extends Pick<GatewayConfig, 'file' | 'routes' | 'upstreams' | 'warnings'> {
  readonly folder: string
  readonly config: FileConfig
  readonly chains: ReadonlyMap<string, readonly ReadEntry[]>
}

function assemble({ file, folder, config, chains, upstreams, routes, warnings }: Assembled): GatewayConfig {
  const addresses = readListen(config.server.listen, folder)
  // With sockets alone there is a publicUrl (`checkListen`).
  const { host, port, isPlain } = mainAddress(addresses) ?? { host: 'localhost', port: 0, isPlain: false }
  const listen = { host, port }
  const tls = config.server.tls.map(({ cert, key }) => ({ cert: resolve(folder, cert), key: resolve(folder, key) }))
  const { clientCa } = config.server
  const publicUrl =
    config.server.publicUrl === ''
      ? defaultPublicUrl(listen, tls.length > 0 && !isPlain ? 'https' : 'http')
      : new URL(config.server.publicUrl).origin
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
      addresses,
      tls,
      ...(clientCa === undefined ? {} : { clientCa: resolve(folder, clientCa) }),
      publicUrl,
      proxyUrl: config.server.proxyUrl === '' ? '' : new URL(config.server.proxyUrl).origin
    },
    plans: plansOf(config.plans),
    policies: { ...builtInPolicies, ...config.policies },
    chains: compiled,
    upstreams,
    routes,
    warnings
  }
}

/** Decision 21: derived from `listen`. Empty for port 0, whose number is known only once the listener is open. */
function defaultPublicUrl(listen: HostAndPort, scheme: 'http' | 'https'): string {
  return listen.port === 0 ? '' : new URL(`${scheme}://${reachable(listen)}`).origin
}

/** Settings that come from the environment where the file does not have them. */
const FALLBACKS = [
  ['mode', '', '${BOLTGATE_MODE:-}'],
  ['data', '', '${BOLTGATE_DATA:-}'],
  ['server', 'publicUrl', '${PUBLIC_URL:-}'],
  ['secrets', 'master', '${BOLTGATE_SECRET:-}'],
  ['secrets', 'adminKey', '${BOLTGATE_ADMIN_KEY:-}'],
  ['database', 'url', '${DATABASE_URL:-}'],
  ['state', 'url', '${REDIS_URL:-}'],
  ['mail', 'from', '${MAIL_FROM:-}'],
  ['mail', 'smtp', '${SMTP_URL:-}']
] as const

const LISTEN = ['server', 'listen', '${HOST:-127.0.0.1}:${PORT:-8080}'] as const

type Mapping = Record<string, unknown>

/**
 * Completes a parsed file: drops extensions, which hold anchors, and takes missing settings from the environment. Returns
 * the origin that also knows the latter.
 */
function addFallbacks(
  value: unknown,
  origin: Origin,
  env: Environment
): { origin: Origin; problems: readonly Problem[] } {
  if (!isObject(value)) return { origin, problems: [] }
  for (const name of Object.keys(value)) if (name.startsWith('x-')) Reflect.deleteProperty(value, name)
  const expressions = new Map<string, string>()
  const problems: Problem[] = []
  const { HOST: host = '', PORT: port = '' } = env
  // Platforms that want IPv6 set HOST=:: without brackets.
  const bracketed = { ...env, HOST: /^[^[].*:/.test(host) || host.startsWith(':') ? `[${host}]` : host }
  for (const [section, name, text] of host + port === '' ? FALLBACKS : [...FALLBACKS, LISTEN]) {
    const path = name === '' ? [section] : [section, name]
    const parent = name === '' ? value : sectionOf(value, section)
    const key = path.at(-1) ?? ''
    if (!isObject(parent) || Object.hasOwn(parent, key)) continue
    const found = interpolate(text, bracketed)
    if ('problem' in found)
      problems.push({
        code: 'BG_CONFIG_VARIABLE',
        ...origin.position(path),
        path: formatPath(path),
        message: found.problem
      })
    else if (found.value !== '') {
      parent[key] = found.value
      expressions.set(JSON.stringify(path), text)
    }
  }
  if (value['mode'] !== 'production') {
    // Production needs one provider; where nothing costs money, merchants find both slots filled.
    const lightning = sectionOf(value, 'lightning')
    if (isObject(lightning) && !Object.hasOwn(lightning, 'alternate')) lightning['alternate'] = { kind: 'sandbox' }
  }
  return {
    origin: {
      ...origin,
      expression: path => expressions.get(JSON.stringify(path)) ?? origin.expression(path)
    },
    problems
  }
}

function sectionOf(value: Mapping, name: string): unknown {
  if (!Object.hasOwn(value, name)) value[name] = {}
  return value[name]
}

/**
 * Reads a configuration file without its byte order mark.
 * @throws ConfigError for invalid UTF-8
 */
async function readSource(file: string): Promise<string> {
  const fail = (code: 'BG_CONFIG_SYNTAX' | 'BG_CONFIG_FILE', message: string, line = 1, column = 1): never => {
    throw new ConfigError([{ code, file, line, column, path: '', message }])
  }
  let bytes: Buffer
  try {
    bytes = await readFile(file)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return fail('BG_CONFIG_FILE', `the file cannot be read (${code}); name a readable file`)
  }
  if (isUtf16(bytes))
    return fail('BG_CONFIG_SYNTAX', 'found a file in UTF-16; allowed: YAML in UTF-8, as which any editor can save it')
  const text = bytes.toString('utf8')
  if (isUtf8(bytes)) return text.replace(/^\uFEFF/, '')
  // The first byte that decoding did not keep.
  const again = Buffer.from(text)
  const before = bytes
    .subarray(
      0,
      bytes.findIndex((byte, index) => byte !== again[index])
    )
    .toString('utf8')
  return fail(
    'BG_CONFIG_SYNTAX',
    'found bytes that are not UTF-8, such as Latin-1; allowed: YAML in UTF-8, as which any editor can save it',
    before.split('\n').length,
    before.length - before.lastIndexOf('\n')
  )
}

/** By the byte order mark that editors on Windows write. */
function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
}
