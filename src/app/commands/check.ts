import { parseArgs } from 'node:util'
import { formatProblem } from '../../engine/config/diagnose.ts'
import { configurationFile, loadWithPlugins } from '../cli/configuration.ts'
import type { Output } from '../cli/output.ts'
import { dryRun } from '../cli/dry-run.ts'

export const checkUsage = `boltgate check [--config FILE]

Reads FILE, ./gateway.yaml by default, sets up every plugin and provider as a start would, and says everything that is
wrong, one line each with file, line and column. It calls and changes nothing. Exit code 0 when nothing is wrong;
warnings do not count.`

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
