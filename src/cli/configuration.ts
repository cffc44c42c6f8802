import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { INTERNALS } from '../composition/internals.ts'
import { loadConfig, type LoadOptions } from '../config/load.ts'
import type { GatewayConfig } from '../config/schema.ts'
import type { Plugin } from '../gateway/plugin.ts'
import { builtInPlugins, importPlugin } from '../plugins.ts'
import { presets } from '../presets.ts'
import { providerKinds } from '../providers/kinds.ts'
import { UsageError } from './output.ts'

/** A configuration with the plugins that its chains name. */
export interface Loaded {
  readonly config: GatewayConfig
  readonly plugins: ReadonlyMap<string, Plugin>
}

/**
 * The configuration file of a command: as named, else `gateway.yaml` of the folder, else the one that comes with the
 * package.
 */
export function configurationFile(named: string | undefined): string {
  if (named !== undefined) {
    if (!existsSync(named)) throw new UsageError(`There is no file ${named}.`)
    return named
  }
  if (existsSync('gateway.yaml')) return 'gateway.yaml'
  // Two folders up from the sources, three from what was built.
  for (const path of ['../../gateway.yaml', '../../../gateway.yaml']) {
    const file = fileURLToPath(new URL(path, import.meta.url))
    if (existsSync(file)) return file
  }
  throw new UsageError('There is no gateway.yaml here; name one with --config.')
}

/** Loads a configuration and every plugin that it names by its path. Throws `ConfigError` with all problems at once. */
export async function loadWithPlugins(file: string, env: NodeJS.ProcessEnv): Promise<Loaded> {
  return await withPlugins(options => loadConfig(file, env, options))
}

/**
 * Gives `load` what it needs to know of the plugins and internal upstreams, and keeps the plugins that it names by
 * path.
 */
export async function withPlugins(load: (options: LoadOptions) => Promise<GatewayConfig>): Promise<Loaded> {
  const plugins = new Map(builtInPlugins)
  const config = await load({
    plugins: builtInPlugins,
    internals: INTERNALS,
    providers: providerKinds,
    presets,
    importPlugin: async path => {
      const plugin = await importPlugin(path)
      plugins.set(path, plugin)
      return plugin
    }
  })
  return { config, plugins }
}
