import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { nearest } from '../../engine/config/diagnose.ts'
import { loadConfig, type ChainsFile, type LoadOptions } from '../../engine/config/load.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Plugin } from '../../engine/pipeline/plugin.ts'
import { builtInPlugins, importPlugin } from '../plugins.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { UsageError } from './output.ts'

/** A configuration with the plugins that its chains name. */
export interface Loaded {
  readonly config: GatewayConfig
  readonly plugins: ReadonlyMap<string, Plugin>
}

/** The chains that every file can name. */
export const builtInChains: ChainsFile = {
  file: 'chains.yaml',
  text: readFileSync(new URL('../chains.yaml', import.meta.url), 'utf8')
}

/** The name that a configuration has in its folder. */
const OWN = 'gateway.yaml'

/** A file to start with. */
export interface StartFile {
  readonly file: string
  /** The folder that its relative paths start from, where that is not its own: of the demo. */
  readonly folder: string | undefined
}

/** The configuration file of a command: as named, else `gateway.yaml` of the folder. Throws `UsageError`. */
export function configurationFile(named: string | undefined): string {
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
 * The file of a start: as for every command, and where the folder has nothing like one, the demo that comes with the
 * package. What the demo writes goes to the current folder: the package's own is emptied with every installation.
 */
export function startFile(named: string | undefined): StartFile {
  const demo = named === undefined && !existsSync(OWN) && nearMiss() === undefined ? demoFile() : undefined
  return demo === undefined
    ? { file: configurationFile(named), folder: undefined }
    : { file: demo, folder: process.cwd() }
}

function demoFile(): string | undefined {
  // Three folders up from the sources, four from the build.
  return ['../../../gateway.yaml', '../../../../gateway.yaml']
    .map(path => fileURLToPath(new URL(path, import.meta.url)))
    .find(path => existsSync(path))
}

/** A file of the folder whose name was probably meant to be `gateway.yaml`, such as gateway.yml. */
function nearMiss(): string | undefined {
  return nearest(
    OWN,
    readdirSync('.').filter(name => /ya?ml$/i.test(name))
  )
}

/**
 * Loads a configuration and every plugin that it names by its path; relative paths start from `folder`, or from the
 * file's own. Throws `ConfigError` with all problems at once.
 */
export async function loadWithPlugins(file: string, env: NodeJS.ProcessEnv, folder?: string): Promise<Loaded> {
  return await withPlugins(options => loadConfig(file, env, folder === undefined ? options : { ...options, folder }))
}

/**
 * Files that a configuration is made of beside its own: secrets that the environment names by `NAME_FILE`, and the
 * certificates and keys of upstreams.
 */
export function filesBehind({ routes, upstreams }: GatewayConfig, env: NodeJS.ProcessEnv): string[] {
  const secrets = Object.keys(env).filter(name => name.endsWith('_FILE') && !env[name.slice(0, -'_FILE'.length)])
  const tls = [...routes.map(({ upstream }) => upstream), ...Object.values(upstreams)].flatMap(upstream =>
    upstream.kind === 'url' ? [upstream.tls?.ca, upstream.tls?.cert, upstream.tls?.key] : []
  )
  const files = [...secrets.map(name => env[name]), ...tls].filter(file => file !== undefined)
  // Variables of other programs may end like ours.
  return [...new Set(files)].filter(file => existsSync(file))
}

/**
 * Gives `load` what it needs to know of the plugins and internal upstreams, and keeps the plugins that it names by
 * path.
 */
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
