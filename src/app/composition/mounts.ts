import { internalPlugin } from '../../engine/checks/chains.ts'
import { checkRoute } from '../../engine/checks/route-checks.ts'
import { ConfigError, type Problem, Findings } from '../../engine/config/diagnose.ts'
import { noOrigin } from '../../engine/config/document.ts'
import { METHOD_NAMES } from '../../engine/config/formats.ts'
import { deepFreeze } from '../../engine/config/fields.ts'
import { routeName, takes, type PresetName } from '../../engine/config/presets.ts'
import { readSound } from '../../engine/config/read.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { RouteSchema } from '../../engine/sections/route.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { Plugin } from '../../engine/pipeline/plugin.ts'

type OwnRoute = Pick<RouteConfig, 'match' | 'chain' | 'upstream'> & Partial<Pick<RouteConfig, 'price' | 'description'>>

const { meter: _meter, ...defaults } = readSound(
  RouteSchema,
  { match: { path: '/' }, chain: 'public', upstream: 'none' },
  noOrigin('')
)

const api = { kind: 'internal', name: 'api' } as const

const SHARED: Readonly<Partial<Record<PresetName, OwnRoute>>> = {
  'merchant-api': {
    match: { path: ['/l402/proxy/:proxyId', '/l402/proxy/:proxyId/*'] },
    description: 'APIs of merchants',
    chain: 'proxied',
    upstream: { kind: 'proxy', param: 'proxyId' }
  },
  // Only the operator gets 404 for unknown addresses.
  'operator-api': {
    match: { method: ['GET', 'POST', 'PUT', 'DELETE'], path: ['/api/admin/*'] },
    chain: 'admin',
    upstream: api
  }
}

/**
 * Adds routes for the used operations of the gateway: one per path and chain, except where the file's routes take
 * precedence.
 * @throws ConfigError when the file replaces a built-in chain with an unsuitable one
 */
export function mounted(
  config: GatewayConfig,
  operations: readonly AnyOperation[],
  plugins: ReadonlyMap<string, Plugin>
): GatewayConfig {
  const first = goingFirst(config)
  const routes = config.use.flatMap(use =>
    ownRoutes(use, config.use, operations).flatMap(route => leftOf(route, first).map(left => complete(left, use)))
  )
  const found = Map.groupBy(
    routes.flatMap(route => problemsOf(config, route, plugins)),
    ({ path, message }) => `${path} ${message}`
  )
  // A chain of many routes has one mistake, not one for each.
  const problems = [...found.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return []
    const { route, ...problem } = first
    const more = others.length === 0 ? '' : ` and ${others.length} more`
    return [{ ...problem, message: `${problem.message} (for ${route.name} of ${route.at.file}${more})` }]
  })
  if (problems.length > 0) throw new ConfigError(problems)
  return deepFreeze({ ...config, routes: [...config.routes, ...routes] })
}

function ownRoutes(use: PresetName, all: readonly PresetName[], operations: readonly AnyOperation[]): OwnRoute[] {
  const routes = new Map<string, OwnRoute & { readonly match: { readonly method?: string[] } }>()
  for (const { method, mount, path, summary } of operations) {
    if (mount === undefined || [mount.use].flat().find(each => all.includes(each)) !== use) continue
    const { below, chain, price } = mount
    const key = `${below ?? path} ${chain}`
    const known = routes.get(key)
    if (known !== undefined) known.match.method?.push(method)
    else
      routes.set(key, {
        match: below === undefined ? { method: [method], path: [path] } : { path: [below] },
        chain,
        upstream: api,
        ...(price === undefined ? {} : { price, description: summary })
      })
  }
  const shared = SHARED[use]
  return [...(shared === undefined ? [] : [shared]), ...routes.values()]
}

/** A route with name and defaults. Its place is the preset, since no file contains it. */
function complete(route: OwnRoute, use: PresetName): RouteConfig {
  return { ...defaults, ...route, name: routeName(route.match), at: { file: use, line: 1, column: 1 } }
}

/**
 * Routes of a file that precede the gateway's own. A catch-all (`/*`) does so only without `use`; otherwise it takes
 * the rest and, unless it leads to the gateway itself, the front page.
 */
function goingFirst({ routes, usesNamed }: GatewayConfig): readonly Pick<RouteConfig, 'match'>[] {
  if (!usesNamed) return routes
  return routes
    .map(({ match, upstream }) => ({
      match: {
        ...match,
        path: match.path.flatMap(path => (path !== '/*' ? [path] : upstream.kind === 'internal' ? [] : ['/']))
      }
    }))
    .filter(({ match }) => match.path.length > 0)
}

/** A route minus the file's routes: unchanged, or one route per path with remaining methods. */
function leftOf(route: OwnRoute, first: readonly Pick<RouteConfig, 'match'>[]): readonly OwnRoute[] {
  const methods = route.match.method ?? METHOD_NAMES
  const left = route.match.path.map(path => ({
    path: [path],
    method: methods.filter(method => !first.some(other => takes(other, method, path)))
  }))
  if (left.every(({ method }) => method.length === methods.length)) return [route]
  return left.filter(({ method }) => method.length > 0).map(match => ({ ...route, match }))
}

/** Problems of a file's chain on one of the gateway's own routes, located at the chain. */
function problemsOf(
  config: GatewayConfig,
  route: RouteConfig,
  plugins: ReadonlyMap<string, Plugin>
): Array<Problem & { readonly route: RouteConfig }> {
  const chain = config.chains[route.chain]
  const [first] = chain ?? []
  if (chain === undefined || first === undefined) throw new TypeError(`there is no chain ${route.chain}`)
  if (first.at.file !== config.file) return []
  const findings = new Findings(noOrigin(config.file))
  const entries = chain.map(entry => ({
    entry,
    facts: entry.plugin === internalPlugin.name ? internalPlugin : plugins.get(entry.file ?? entry.plugin),
    path: []
  }))
  checkRoute(route, 0, entries, undefined, findings)
  return findings.problems.map(({ code, message }) => ({
    code,
    ...first.at,
    path: `chains.${route.chain}`,
    message,
    route
  }))
}
