import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { routeOrigin, routePriceWords, routeUpstreamWords } from '../../engine/checks/route-words.ts'
import { valueWords } from '../../engine/config/presets.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { spelledOut } from '../../engine/config/spelled-out.ts'
import { CONFIG_FLAG, type Help } from '../cli/help.ts'
import { builtInChains, configurationFile, loadWithPlugins } from '../cli/configuration.ts'
import type { Output } from '../cli/output.ts'
import { dryRun } from '../cli/dry-run.ts'

export const routesHelp: Help = {
  about: 'Shows what is served, at which price, through which plugins',
  details: 'Lists each route with its source: a line of the file, or a part of the API that `use` names.',
  flags: { '--as-yaml': 'Print the file with the chains and routes of `use` written out', ...CONFIG_FLAG },
  examples: ['boltgate routes', 'boltgate routes --as-yaml > expanded.yaml']
}

/**
 * Prints the routes as a table, or the complete file.
 * @throws ConfigError and UsageError
 */
export async function routes(args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { config: { type: 'string', short: 'c' }, 'as-yaml': { type: 'boolean' } }
  })
  const file = configurationFile(values.config)
  const { config } = await dryRun(await loadWithPlugins(file, process.env))
  if (values['as-yaml'] === true) {
    out.print(spelledOut(readFileSync(file, 'utf8'), config, builtInChains).trimEnd())
    return 0
  }
  const rows = [
    ['METHOD', 'HOST', 'PATH', 'PRICE', 'UPSTREAM', 'FROM', 'CHAIN'],
    ...config.routes.flatMap(route => rowsOf(config, route))
  ]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
  for (const row of rows)
    out.print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()
    )
  return 0
}

function rowsOf(config: GatewayConfig, route: RouteConfig): string[][] {
  const chain = (config.chains[route.chain] ?? [])
    .filter(entry => !entry.disabled)
    .map(entry => entry.plugin)
    .join(' → ')
  return route.match.path.map(path => [
    route.match.method?.join(',') ?? 'any',
    route.match.host ?? 'any',
    `${path}${valueWords(route.match)}`,
    routePriceWords(config, route) ?? '-',
    routeUpstreamWords(route),
    routeOrigin(config, route),
    `${route.chain}: ${chain}`
  ])
}
