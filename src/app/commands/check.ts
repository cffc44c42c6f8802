import { parseArgs } from 'node:util'
import { formatProblem } from '../../engine/config/diagnose.ts'
import { CONFIG_FLAG, type Help } from '../cli/help.ts'
import { configurationFile, loadWithPlugins } from '../cli/configuration.ts'
import type { Output } from '../cli/output.ts'
import { dryRun } from '../cli/dry-run.ts'

export const checkHelp: Help = {
  about: 'Finds mistakes in the configuration',
  details: `Sets up every plugin and provider as a start would, and prints each mistake with file, line and column.
Calls and changes nothing. Warnings do not fail the check.`,
  flags: CONFIG_FLAG,
  examples: ['boltgate check', 'boltgate check --config gateway.production.yaml']
}

/** @throws ConfigError and UsageError */
export async function check(args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', short: 'c' } } })
  const file = configurationFile(values.config)
  const { config, warnings } = await dryRun(await loadWithPlugins(file, process.env))
  for (const warning of warnings) out.complain(`warning: ${formatProblem(warning)}`)
  out.print(
    `${file} is valid: ${config.routes.length} routes, ${new Set(config.routes.map(({ chain }) => chain)).size} chains, mode ${config.mode}.`
  )
  return 0
}
