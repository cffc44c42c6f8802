import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { nearest } from '../../engine/config/diagnose.ts'
import { loadConfig, type ChainsFile, type LoadOptions } from '../../engine/config/load.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Plugin } from '../../engine/pipeline/plugin.ts'
import { builtInPlugins, importPlugin } from '../plugins.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { UsageError } from './output.ts'

export interface Loaded {
  readonly config: GatewayConfig
  readonly plugins: ReadonlyMap<string, Plugin>
}

export const builtInChains: ChainsFile = {
  file: 'chains.yaml',
  text: readFileSync(new URL('../chains.yaml', import.meta.url), 'utf8')
}

const OWN = 'gateway.yaml'

export interface StartFile {
  readonly file: string
  /** Base of relative paths; undefined: the file's own folder. */
  readonly folder: string | undefined
}

/**
 * Configuration file of a command: as given, else `gateway.yaml` in the folder.
 * @throws UsageError
 */
function configurationFile(named: string | undefined): string {
  if (named !== undefined) {
    if (!existsSync(named)) throw new UsageError(`There is no file ${named}.`)
    return named
  }
  if (existsSync(OWN)) return OWN
  const other = nearMiss()
  throw new UsageError(
    other === undefined
      ? `There is no ${OWN} here; name one with --config.`
      : `There is no ${OWN} here, but there is ${other}; rename it, or name it with --config.`
  )
}

/**
 * Configuration file of a start: as for other commands, else the packaged demo. The demo writes to the current folder,
 * since each installation empties the package's own.
 */
export function startFile(named: string | undefined): StartFile {
  const demo = named === undefined && !existsSync(OWN) && nearMiss() === undefined ? demoFile() : undefined
  return demo === undefined
    ? { file: configurationFile(named), folder: undefined }
    : { file: demo, folder: process.cwd() }
}

function demoFile(): string | undefined {
  // Three levels up from the sources, four from the build.
  return ['../../../gateway.yaml', '../../../../gateway.yaml']
    .map(path => fileURLToPath(new URL(path, import.meta.url)))
    .find(path => existsSync(path))
}

/** A probable misspelling of `gateway.yaml`, such as gateway.yml. */
function nearMiss(): string | undefined {
  return nearest(
    OWN,
    readdirSync('.').filter(name => /ya?ml$/i.test(name))
  )
}

/**
 * Loads a configuration and the plugins that it names by path; relative paths start from `folder`, or the file's own.
 * @throws ConfigError with all problems
 */
export async function loadWithPlugins(file: string, env: NodeJS.ProcessEnv, folder?: string): Promise<Loaded> {
  return await withPlugins(options => loadConfig(file, env, folder === undefined ? options : { ...options, folder }))
}

/** Loads the configuration of a command, as `--config` names it. @throws UsageError, ConfigError */
export async function loadNamed(named: string | undefined): Promise<Loaded & { readonly file: string }> {
  const file = configurationFile(named)
  return { file, ...(await loadWithPlugins(file, process.env)) }
}

/** Further files of a configuration: secrets from `NAME_FILE` variables, upstream certificates and keys, and price lists. */
export function filesBehind({ routes, upstreams }: GatewayConfig, env: NodeJS.ProcessEnv): string[] {
  const secrets = Object.keys(env).filter(name => name.endsWith('_FILE') && !env[name.slice(0, -'_FILE'.length)])
  const tls = [...routes.map(({ upstream }) => upstream), ...Object.values(upstreams)].flatMap(upstream =>
    upstream.kind === 'url' ? [upstream.tls?.ca, upstream.tls?.cert, upstream.tls?.key] : []
  )
  const catalogs = routes.map(({ meter }) => meter?.catalog?.catalog)
  const files = [...secrets.map(name => env[name]), ...tls, ...catalogs].filter(file => file !== undefined)
  // Other programs' variables may have the same suffix.
  return [...new Set(files)].filter(file => existsSync(file))
}

export async function withPlugins(load: (options: LoadOptions) => Promise<GatewayConfig>): Promise<Loaded> {
  const plugins = new Map(builtInPlugins)
  const config = await load({
    plugins: builtInPlugins,
    internals: ['api', 'demo'],
    providers: providerKinds,
    chains: builtInChains,
    importPlugin: async path => {
      const plugin = await importPlugin(path)
      plugins.set(path, plugin)
      return plugin
    }
  })
  return { config, plugins }
}
