import { type CallPrices, isFree, isTable, type FieldSelector } from './price.ts'
import type { ReadEntry } from './chains.ts'
import { formatNames, quote, type Path, type Findings } from '../config/diagnose.ts'
import type { RouteConfig } from '../config/schema.ts'

/** Requests without a body that a price could depend on. */
const BODILESS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/** Checks that the fields a route's price and free calls depend on can be present. */
export function checkPrice(route: RouteConfig, index: number, chain: readonly ReadEntry[], findings: Findings): void {
  const at: Path = ['routes', index]
  const { price, free, upstream } = route
  checkResources(route, at, chain, findings)
  if (typeof price === 'object') {
    if (upstream.kind === 'proxy')
      findings.report(
        'BG_CONFIG_VALUE',
        [...at, 'price'],
        "found a price of a route to merchants' proxies; allowed: none, they set their own",
        'key'
      )
    const fields: Array<readonly [FieldSelector, Path]> = isTable(price)
      ? [[price.by, [...at, 'price', 'by']]]
      : price.fields.map((field, nth) => [field, [...at, 'price', 'fields', nth]] as const)
    for (const [field, path] of fields) checkField(route, field, path, findings)
    if (!isTable(price)) {
      const names = price.fields.map(field => Object.values(field)[0] ?? '')
      const twice = names.find((name, nth) => names.indexOf(name) !== nth)
      if (twice !== undefined)
        findings.report(
          'BG_CONFIG_DUPLICATE',
          [...at, 'price', 'fields'],
          `found two fields with the name ${quote(twice)}, by which the price server could not tell them apart; allowed: each name once`
        )
    }
  }
  checkAudience(route, at, chain, findings)
  if (free === undefined) return
  const asks = chain.some(({ entry, facts }) => !entry.disabled && facts?.provides?.includes('challenge') === true)
  if (!asks || upstream.kind === 'proxy')
    findings.report(
      'BG_CONFIG_VALUE',
      [...at, 'free'],
      `found free calls where ${asks ? 'merchants set the prices' : `the chain ${quote(route.chain)} asks for no payment`}; allowed: free on a route that has a price`,
      'key'
    )
}

/** Prices by audience are those of single requests: what a bundle or session holds must not depend on who bought it. */
function checkAudience(
  { audience, meter, sessions, upstream, price }: RouteConfig,
  at: Path,
  chain: readonly ReadEntry[],
  findings: Findings
): void {
  if (audience === undefined) return
  const asks = chain.some(({ entry, facts }) => !entry.disabled && facts?.provides?.includes('challenge') === true)
  const calls = chain.some(({ entry }) => !entry.disabled && entry.plugin === 'mcp')
  if (meter !== undefined || sessions !== undefined || upstream.kind === 'proxy' || calls || !asks)
    findings.report(
      'BG_CONFIG_VALUE',
      [...at, 'audience'],
      'found prices by audience where requests have no price of their own; allowed: a route that is paid by request, without `meter`, `sessions`, `mcp` and a proxy',
      'key'
    )
  else if (price !== undefined && isFree(price))
    findings.report(
      'BG_CONFIG_VALUE',
      [...at, 'audience'],
      'found prices by audience on a route that is free for all others, which each client could pretend to be; allowed: a price above 0 beside them',
      'key'
    )
  for (const [nth, { who, agents, price: amount }] of audience.entries()) {
    const entry: Path = [...at, 'audience', nth]
    if (agents !== undefined && who !== 'verified-bot')
      findings.report('BG_CONFIG_VALUE', [...entry, 'agents'], 'found agents; allowed: beside who: verified-bot', 'key')
    if (
      who === 'browser' &&
      (amount === 0 || (typeof amount === 'number' && typeof price === 'number' && amount < price))
    )
      findings.warn(
        'BG_CONFIG_VALUE',
        [...entry, 'who'],
        'found a lower price for browsers, which each client gets that sends their headers; allowed: `free` calls by address'
      )
  }
}

/** A server may serve a resource under names that no price list covers. */
function checkResources(route: RouteConfig, at: Path, chain: readonly ReadEntry[], findings: Findings): void {
  const seller = chain.find(({ entry }) => entry.plugin === 'mcp' && !entry.disabled)
  // The chain was read with the plugin's own schema; it is not where that found a problem.
  const resources = (seller?.entry.config as Partial<CallPrices> | undefined)?.resources
  if (resources === undefined || Object.hasOwn(resources, '*')) return
  findings.warn(
    'BG_CONFIG_VALUE',
    [...at, 'chain'],
    `found prices of resources without "*" in the chain ${quote(route.chain)}: a URI that is not listed is free, also where the server takes it for one that is; allowed: "*" with a price, or with 0 where that is meant`
  )
}

function checkField({ match }: RouteConfig, field: FieldSelector, path: Path, findings: Findings): void {
  if ('path' in field) {
    const without = match.path.find(pattern => !pattern.split('/').includes(`:${field.path}`))
    if (without === undefined) return
    const parameters = [...without.matchAll(/:([^/]+)/g)].map(([, name = '']) => name)
    findings.report(
      'BG_CONFIG_VALUE',
      [...path, 'path'],
      `found ${quote(field.path)}, which is no parameter of ${without}; allowed: ${parameters.length === 0 ? 'a path with one, such as /v1/:model' : formatNames(parameters)}`
    )
  }
  if ('json' in field) {
    if (match.method?.every(method => BODILESS.has(method)) === true)
      findings.report(
        'BG_CONFIG_VALUE',
        [...path, 'json'],
        `found a member of the JSON body on a route for ${match.method.join(' and ')}, which has none; allowed: a query, header or path`
      )
    if (field.json.split('.').includes(''))
      findings.report(
        'BG_CONFIG_VALUE',
        [...path, 'json'],
        `found ${quote(field.json)}; allowed: names with a dot between them, such as metadata.tier`
      )
  }
}
