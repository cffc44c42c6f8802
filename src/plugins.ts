import { statSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import accessLog from '../plugins/access-log.ts'
import auth from '../plugins/auth.ts'
import bodyLimit from '../plugins/body-limit.ts'
import challenge from '../plugins/challenge.ts'
import correlation from '../plugins/correlation.ts'
import cors from '../plugins/cors.ts'
import credential from '../plugins/credential.ts'
import dashboardAuth from '../plugins/dashboard-auth.ts'
import forward from '../plugins/forward.ts'
import idempotency from '../plugins/idempotency.ts'
import metrics from '../plugins/metrics.ts'
import proxy from '../plugins/proxy.ts'
import subscriptionGate from '../plugins/subscription-gate.ts'
import throttle from '../plugins/throttle.ts'
import type { Plugin } from './gateway/plugin.ts'

/** The gateway's own plugins by name. */
export const builtInPlugins: ReadonlyMap<string, Plugin> = new Map([
  correlation, accessLog, metrics, cors, throttle, auth, dashboardAuth, subscriptionGate, idempotency, bodyLimit, proxy, credential, challenge, forward
].map(plugin => {
  // Each was checked where it was defined; here only what all have in common is used.
  const common = plugin as unknown as Plugin
  return [common.name, common]
}))

/** The file is no plugin. */
export class PluginFileError extends Error {
  override name = 'PluginFileError'
}

/**
 * Loads a user's plugin from its file; once more after the file has changed, so that a reload takes the new one.
 * @throws PluginFileError when the default export is not what `definePlugin` gives
 */
export async function importPlugin (file: string): Promise<Plugin> {
  const version = statSync(file, { throwIfNoEntry: false })?.mtimeMs
  if (version === undefined) throw new PluginFileError('there is no such file')
  const loaded: unknown = await import(`${pathToFileURL(file).href}?version=${version}`)
  const plugin = typeof loaded === 'object' && loaded !== null && 'default' in loaded ? loaded.default : undefined
  if (!isPlugin(plugin)) throw new PluginFileError('the file must export by default what definePlugin({ name, config, setup }) gives')
  return plugin
}

function isPlugin (value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false
  const { name, config, setup } = value as Partial<Plugin>
  return typeof name === 'string' && typeof config === 'object' && typeof setup === 'function'
}
