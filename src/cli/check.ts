import { parseArgs } from 'node:util'
import { configurationFile, loadWithPlugins } from './configuration.ts'
import type { Output } from './output.ts'

export const checkUsage = `boltgate check [--config FILE]

Reads FILE, ./gateway.yaml by default, and says everything that is wrong with it, one line each with file, line and
column. Exit code 0 when nothing is.`

/** Validates a configuration. Throws `ConfigError` and `UsageError`. */
export async function check (args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', short: 'c' } } })
  const file = configurationFile(values.config)
  const { config } = await loadWithPlugins(file, process.env)
  out.print(`${file} is valid: ${config.routes.length} routes, ${Object.keys(config.chains).length} chains, mode ${config.mode}.`)
  return 0
}
