import { statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { extname } from 'node:path'
import { pathToFileURL } from 'node:url'
import accessLog from '../../plugins/access-log.ts'
import apiKey from '../../plugins/api-key.ts'
import auth from '../../plugins/auth.ts'
import bodyLimit from '../../plugins/body-limit.ts'
import challenge from '../../plugins/challenge.ts'
import correlation from '../../plugins/correlation.ts'
import cors from '../../plugins/cors.ts'
import credential from '../../plugins/credential.ts'
import dashboardAuth from '../../plugins/dashboard-auth.ts'
import forward from '../../plugins/forward.ts'
import idempotency from '../../plugins/idempotency.ts'
import mcp from '../../plugins/mcp.ts'
import meter from '../../plugins/meter.ts'
import metrics from '../../plugins/metrics.ts'
import proxy from '../../plugins/proxy.ts'
import session from '../../plugins/session.ts'
import subscriptionGate from '../../plugins/subscription-gate.ts'
import throttle from '../../plugins/throttle.ts'
import type { Plugin } from '../engine/pipeline/plugin.ts'
import { CodedError } from '../platform/system/errors.ts'

export const builtInPlugins: ReadonlyMap<string, Plugin> = new Map(
  [
    correlation,
    accessLog,
    metrics,
    cors,
    apiKey,
    throttle,
    auth,
    dashboardAuth,
    subscriptionGate,
    idempotency,
    bodyLimit,
    proxy,
    session,
    credential,
    challenge,
    mcp,
    meter,
    forward
  ].map(plugin => {
    // Checked at its definition; only common members are used here.
    const common = plugin as unknown as Plugin
    return [common.name, common]
  })
)

/**
 * Module that plugins import as `boltgate`: this process's own, from sources or build, independent of the plugin's location. A second
 * copy would have different classes, and its errors would be unknown here.
 */
const OWN_INDEX = new URL(`../index${extname(import.meta.filename)}`, import.meta.url).href
let resolving = false

function resolveOwnName(): void {
  if (resolving) return
  resolving = true
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'boltgate' ? { url: OWN_INDEX, shortCircuit: true } : next(specifier, context)
  })
}

/**
 * Loads a custom plugin, again after its file changed, for reloads.
 * @throws CodedError when the default export is not from `definePlugin`
 */
export async function importPlugin(file: string): Promise<Plugin> {
  const version = statSync(file, { throwIfNoEntry: false })?.mtimeMs
  if (version === undefined) throw new CodedError({ code: 'BG_PLUGIN_SETUP' }, 'there is no such file')
  resolveOwnName()
  const loaded: unknown = await importModule(`${pathToFileURL(file).href}?version=${version}`)
  const plugin = typeof loaded === 'object' && loaded !== null && 'default' in loaded ? loaded.default : undefined
  if (!isPlugin(plugin))
    throw new CodedError(
      { code: 'BG_PLUGIN_SETUP' },
      'the file must export by default what definePlugin({ name, config, setup }) gives'
    )
  return plugin
}

async function importModule(url: string): Promise<unknown> {
  try {
    return await import(url)
  } catch (error) {
    // Node's message names neither the cause nor an alternative.
    if (
      !(error instanceof SyntaxError) ||
      !/^(?:Cannot use import statement outside a module|Unexpected token 'export')/.test(error.message)
    )
      throw error
    throw new CodedError(
      { code: 'BG_PLUGIN_SETUP' },
      'it is read as CommonJS; end its name in .mts or .mjs, or say "type": "module" in the package.json above it',
      { cause: error }
    )
  }
}

function isPlugin(value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false
  const { name, config, setup } = value as Partial<Plugin>
  return typeof name === 'string' && typeof config === 'object' && typeof setup === 'function'
}
