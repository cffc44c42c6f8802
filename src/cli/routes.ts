import { parseArgs } from 'node:util'
import type { GatewayConfig, RouteConfig } from '../config/schema.ts'
import { configurationFile, loadWithPlugins } from './configuration.ts'
import type { Output } from './output.ts'

export const routesUsage = `boltgate routes [--config FILE]

Prints what each route of FILE, ./gateway.yaml by default, takes, costs, runs through and leads to.`

/** Prints the routes as a table. Throws `ConfigError` and `UsageError`. */
export async function routes (args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', short: 'c' } } })
  const { config } = await loadWithPlugins(configurationFile(values.config), process.env)
  const rows = [['METHOD', 'HOST', 'PATH', 'PRICE', 'UPSTREAM', 'CHAIN'], ...config.routes.flatMap(route => rowsOf(config, route))]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
  for (const row of rows) out.print(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd())
  return 0
}

function rowsOf (config: GatewayConfig, route: RouteConfig): string[][] {
  const chain = (config.chains[route.chain] ?? []).filter(entry => !entry.disabled).map(entry => entry.plugin).join(' → ')
  return route.match.path.map(path => [
    route.match.method?.join(',') ?? 'any',
    route.match.host ?? 'any',
    path,
    priceOf(route),
    upstreamOf(route),
    `${route.chain}: ${chain}`
  ])
}

function priceOf (route: RouteConfig): string {
  if (route.upstream.kind === 'proxy') return 'varies'
  return route.price === undefined || route.price === 0 ? '-' : `${route.price} sat${route.price === 1 ? '' : 's'}`
}

function upstreamOf ({ upstream }: RouteConfig): string {
  if (upstream.kind === 'internal') return upstream.name
  return upstream.kind === 'proxy' ? `proxy :${upstream.param}` : upstream.url
}
