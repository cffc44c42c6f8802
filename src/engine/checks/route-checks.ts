import { internalPlugin, terminalOf, type ReadEntry } from './chains.ts'
import { didYouMean, formatNames, nearest, quote, type Path, type Findings } from '../config/diagnose.ts'
import { leastReservedMsat, type MeterConfig, keyMeterOf } from './meter.ts'
import { takes, valueWords } from '../config/presets.ts'
import type { FoundReference } from '../config/read.ts'
import { isTable } from './price.ts'
import { checkPrice } from './price-checks.ts'
import { alwaysHolds, checkSale, sellsCalls } from './sale.ts'
import type { PluginFacts, RouteConfig } from '../config/schema.ts'

export function checkReferences(
  references: readonly FoundReference[],
  names: Readonly<Record<FoundReference['kind'], readonly string[]>>,
  findings: Findings
): void {
  for (const { kind, name, path } of references) {
    if (names[kind].includes(name)) continue
    const written = findings.expression(path)
    if (kind === 'upstream' && written === undefined && /^https?:\/\//i.test(name)) {
      findings.report(
        'BG_CONFIG_REFERENCE',
        path,
        `found the address ${quote(name)} where a name is expected; allowed: { url: ${quote(name)} }, or the name of an upstream under upstreams`
      )
      continue
    }
    const suggestion = written === undefined ? didYouMean(nearest(name, names[kind])) : ''
    findings.report(
      'BG_CONFIG_REFERENCE',
      path,
      `found the unknown ${kind} ${quote(written ?? name)}; allowed: ${formatNames([...names[kind]].sort())}${suggestion}`
    )
  }
}

const targets = ['files', 'internal', 'proxy', 'url', 'urls']

/** `isNamed`: under `upstreams`, which are servers. */
export function checkUpstream(raw: unknown, path: Path, findings: Findings, isNamed = false): void {
  if (typeof raw !== 'object' || raw === null) return
  const keys = Object.keys(raw)
  const given = targets.filter(target => keys.includes(target))
  const [only] = given
  const allowed = isNamed ? 'url' : 'exactly one of files, internal, proxy and url'
  if (only === undefined)
    findings.report('BG_CONFIG_CONFLICT', path, `found an upstream without a target; allowed: ${allowed}`)
  else if (given.length > 1)
    findings.report('BG_CONFIG_CONFLICT', path, `found ${given.join(' and ')} in one upstream; allowed: ${allowed}`)
  else {
    const extra = keys.find(key => (only.startsWith('url') ? key === 'on' && !keys.includes('fallback') : key !== only))
    if (extra !== undefined)
      findings.report(
        'BG_CONFIG_CONFLICT',
        [...path, extra],
        `found ${extra} beside ${only}; allowed: ${extra} only beside ${extra === 'on' ? 'fallback' : 'url'}`,
        'key'
      )
  }
}

/** A bundle replaces a price. */
export function checkMeterAlone(
  route: { readonly meter?: unknown; readonly price?: unknown; readonly priceGrace?: number },
  path: Path,
  findings: Findings
): void {
  if (route.meter !== undefined && route.price !== undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'price'],
      'found price beside meter; allowed: one of them, since what one payment costs is the bundle of the meter',
      'key'
    )
}

/** Whether a token's path can cover the pattern: one prefix, and no named segment. */
export function isCaveatPath(pattern: string): boolean {
  return !/[:*()]/.test(pattern.endsWith('/*') ? pattern.slice(0, -2) : pattern)
}

/** Otherwise a token for the whole pattern would silently be for one path. */
export function checkTokenPath(
  { tokenPath, match }: { readonly tokenPath: string; readonly match: { readonly path: readonly string[] } },
  path: Path,
  findings: Findings
): void {
  if (tokenPath !== 'pattern') return
  const unsaid = match.path.find(pattern => !isCaveatPath(pattern))
  const found = match.path.length > 1 ? `${match.path.length} paths` : unsaid && `the path ${quote(unsaid)}`
  if (found !== undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'tokenPath'],
      `found pattern beside ${found}; allowed: one path without named segments, such as "/v1/*", since a token says one prefix; or exact`
    )
}

/** Reports routes for the same host, method, path and values, whatever their parameters' names. */
export function checkDuplicates(
  routes: readonly { readonly route: RouteConfig; readonly index: number }[],
  findings: Findings
): void {
  const seen = new Map<string, RouteConfig>()
  const names = new Map<string, RouteConfig>()
  for (const { route, index } of routes) {
    const { host, method, path, header = [], query = [] } = route.match
    const sorted = header.map(text => text.replace(/^[^=]*/, name => name.toLowerCase())).sort()
    const values = valueWords({ header: sorted, query: query.toSorted() })
    for (const verb of method ?? ['*']) {
      for (const pattern of path) {
        const key = `${host?.toLowerCase() ?? '*'} ${verb} ${pattern.replace(/:[^/]+/g, ':')}${values}`
        const earlier = seen.get(key)
        if (earlier === undefined) seen.set(key, route)
        else
          findings.report(
            'BG_CONFIG_DUPLICATE',
            ['routes', index, 'match'],
            `found a second route for ${verb === '*' ? 'any method' : verb} ${quote(pattern + values)}; allowed: one (the first is on line ${earlier.at.line})`,
            'key'
          )
      }
    }
    const earlier = names.get(route.name)
    if (earlier === undefined) names.set(route.name, route)
    else if (findings.isSound(['routes', index]))
      findings.report(
        'BG_CONFIG_DUPLICATE',
        ['routes', index, 'name'],
        `found the name ${quote(route.name)} a second time; allowed: each name once (the first is on line ${earlier.at.line})`
      )
  }
}

/**
 * Warns of a free `/*` beside a priced literal path of the same upstream: upstreams commonly accept other spellings of
 * that path, which the free route forwards.
 */
export function checkFreeSiblings(
  routes: readonly { readonly route: RouteConfig; readonly index: number; readonly isSold: boolean }[],
  findings: Findings
): void {
  for (const { route: free, index, isSold } of routes) {
    if (isSold || free.upstream.kind !== 'url') continue
    for (const { route: sold } of routes.filter(other => other.isSold)) {
      if (sold.upstream.kind !== 'url') continue
      const others = new Set(sold.upstream.url)
      if (!free.upstream.url.some(address => others.has(address))) continue
      const [host, other] = [free.match.host, sold.match.host]
      if (host !== undefined && other !== undefined && host.toLowerCase() !== other.toLowerCase()) continue
      const methods = sold.match.method
      if (free.match.method?.some(method => methods?.includes(method) ?? true) === false) continue
      const wide = free.match.path.filter(path => path.endsWith('/*'))
      const literal = sold.match.path.find(
        path => !/[:*()]/.test(path) && wide.some(pattern => path.startsWith(pattern.slice(0, -1)))
      )
      if (literal === undefined) continue
      findings.warn(
        'BG_CONFIG_CONFLICT',
        ['routes', index, 'match'],
        `found a free route beside the priced path ${quote(literal)} (line ${sold.at.line}) of the same upstream. Other spellings, such as ${quote(`${literal}/`)}, ${quote(literal.toUpperCase())}, ";x=1", "//" or "%2F", reach the free route, and the upstream may serve them as the priced path; allowed: free paths that are listed one by one, or a price for the wide route`
      )
      break
    }
  }
}

/** Checks within one route: the parameter of a proxy, TLS beside plain HTTP, a price that nothing asks for. */
export function checkRoute(
  route: RouteConfig,
  index: number,
  chain: readonly ReadEntry[] | undefined,
  internals: readonly string[] | undefined,
  findings: Findings
): void {
  const path: Path = ['routes', index]
  const { upstream } = route
  if (upstream.kind === 'proxy') {
    const lacking = route.match.path.find(pattern => !pattern.split('/').includes(`:${upstream.param}`))
    if (lacking !== undefined)
      findings.report(
        'BG_CONFIG_CONFLICT',
        [...path, 'upstream', 'proxy'],
        `found ${quote(`:${upstream.param}`)}, which the path ${quote(lacking)} does not have; allowed: a parameter of every path of the route`
      )
  }
  for (const [at, { request }] of route.examples.entries()) {
    const [method = '', target = ''] = request.split(/[ ?]/, 2)
    const { method: methods = [method], path: paths } = route.match
    if (takes({ match: { method: methods, path: paths } }, method, target)) continue
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'examples', at, 'request'],
      `found ${quote(request)}, which this route does not take; allowed: a method and a path of its match`
    )
  }
  if (upstream.kind === 'proxy' && route.priceGrace > 0) {
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'priceGrace'],
      "found a grace for prices on a route of merchants' proxies, whose prices are theirs; allowed: priceGrace of each proxy, over /api/proxy",
      'key'
    )
  }
  if (upstream.kind === 'internal' && internals !== undefined && !internals.includes(upstream.name)) {
    findings.report(
      'BG_CONFIG_REFERENCE',
      [...path, 'upstream', 'internal'],
      `found the unknown internal upstream ${quote(upstream.name)}; allowed: ${formatNames([...internals].sort())}${didYouMean(nearest(upstream.name, internals))}`
    )
  }
  const last = chain?.findLast(({ entry }) => !entry.disabled)
  const end = terminalOf(upstream)
  if (last?.facts?.terminal === true && (last.entry.plugin === internalPlugin.name) !== (end === internalPlugin.name)) {
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'upstream'],
      `found ${upstream.kind === 'files' ? 'files' : upstream.kind === 'internal' ? 'an internal upstream' : 'an HTTP upstream'}, but the chain ${quote(route.chain)} ends with ${last.entry.plugin}; allowed: a chain that leaves its end to the route, or ends with ${end}`
    )
  }
  if (chain === undefined || chain.some(({ facts }) => facts === undefined)) return
  const provides = (fact: string): boolean =>
    chain.some(({ entry, facts }) => !entry.disabled && facts?.provides?.includes(fact) === true)
  // A limit that nothing enforces would be relied on.
  if (route.bodyLimit !== undefined && !provides('body-limit')) {
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'bodyLimit'],
      `found a body limit, but the chain ${quote(route.chain)} has nothing that enforces it; allowed: a chain with the entry body-limit`,
      'key'
    )
  }
  if (route.meter !== undefined && upstream.kind === 'proxy')
    findings.report(
      'BG_CONFIG_CONFLICT',
      [...path, 'meter'],
      "found a meter on a route of merchants' proxies, whose prices are theirs; allowed: meter of an endpoint, over /api/proxy",
      'key'
    )
  else if (route.meter !== undefined || upstream.kind === 'proxy') checkMeter(route, path, chain, findings)
  if (route.meter !== undefined) checkBundle(route.meter, path, findings)
  if (route.sessions !== undefined) checkSessions(route, path, chain, findings)
  if (route.keys && route.meter === undefined) checkKeys(route, path, chain, findings)
  checkSale(route, index, chain, findings)
  checkPrice(route, index, chain, findings)
  checkPrefix(route, index, findings)
}

/** Without a meter a key pays for units of sessions. */
function checkKeys(route: RouteConfig, path: Path, chain: readonly ReadEntry[], findings: Findings): void {
  const { price, sessions } = route
  if (keyMeterOf(route) !== null) return checkMeter(route, path, chain, findings, 'keys')
  const found =
    sessions === undefined
      ? 'without a meter or sessions, so that there is no balance for a key to spend; allowed: keys beside meter or sessions'
      : price === undefined || (typeof price === 'object' && !isTable(price))
        ? 'beside sessions without a price that is known here; allowed: a fixed price, one by a field, or a meter'
        : 'beside a price in fiat without a deposit, so that it is unknown what a key costs; allowed: sessions with a deposit'
  findings.report('BG_CONFIG_CONFLICT', [...path, 'keys'], `found keys ${found}`, 'key')
}

/** A session must be verified at every request, or its holders would be asked to pay again. */
function checkSessions(route: RouteConfig, path: Path, chain: readonly ReadEntry[], findings: Findings): void {
  const taking = chain.find(({ entry, facts }) => !entry.disabled && facts?.provides?.includes('session') === true)
  const found =
    route.upstream.kind === 'proxy'
      ? "on a route of merchants' proxies; allowed: at routes of the operator, whose provider pays back what is left"
      : sellsCalls(chain)
        ? `but the chain ${quote(route.chain)} sells calls inside messages; allowed: at routes that sell whole requests`
        : taking === undefined
          ? `but the chain ${quote(route.chain)} has nothing that takes them; allowed: a chain with the entry session before credential`
          : taking.entry.mode === 'observe' || !alwaysHolds(taking.entry.when, route.match)
            ? `but ${quote(taking.entry.plugin)} (line ${taking.entry.at.line}) of the chain ${quote(route.chain)} does not take part in every request; allowed: the entry without mode and when`
            : null
  if (found !== null) findings.report('BG_CONFIG_CONFLICT', [...path, 'sessions'], `found sessions, ${found}`, 'key')
}

/**
 * A balance must be drawn at every request, or nothing would reach the upstream (decision 181). Merchants may give any
 * endpoint of a proxy a meter.
 */
function checkMeter(
  route: RouteConfig,
  path: Path,
  chain: readonly ReadEntry[],
  findings: Findings,
  setting: 'meter' | 'keys' = 'meter'
): void {
  const taking = chain.filter(({ entry, facts }) => !entry.disabled && facts?.provides?.includes('metering') === true)
  if (taking.some(({ entry }) => entry.mode === 'enforce' && alwaysHolds(entry.when, route.match))) return
  const [idle] = taking
  const found =
    idle === undefined
      ? `the chain ${quote(route.chain)} has nothing that takes what was used from a balance; allowed: a chain with the entry meter behind challenge`
      : `${quote(idle.entry.plugin)} (line ${idle.entry.at.line}) of the chain ${quote(route.chain)} ${idle.entry.mode === 'observe' ? 'only observes' : 'takes part only under its "when"'}; allowed: the entry without ${idle.entry.mode === 'observe' ? 'mode' : 'when, or with one that covers every request of the route'}`
  // A file older than meters continues to serve what has none.
  if (route.upstream.kind === 'proxy')
    findings.warn(
      'BG_CONFIG_CONFLICT',
      [...path, 'chain'],
      `found merchants' proxies, whose metered endpoints cannot be bought here: ${found}`
    )
  else {
    const what = setting === 'meter' ? 'a meter' : 'keys'
    findings.report('BG_CONFIG_CONFLICT', [...path, setting], `found ${what}, but ${found}`, 'key')
  }
}

/** A bundle must cover at least one request at each of its prices. */
function checkBundle(meter: MeterConfig, path: Path, findings: Findings): void {
  const least = leastReservedMsat(meter)
  if (typeof meter.bundle !== 'number' || least <= meter.bundle * 1000) return
  findings.report(
    'BG_CONFIG_VALUE',
    [...path, 'meter', 'bundle'],
    `found a bundle of ${meter.bundle * 1000} msat, of which a request may reserve no less than ${least} msat, so that it could not be used; allowed: a larger bundle, or a smaller estimate`
  )
}

/** A prefix that requests do not have would silently never be removed. */
function checkPrefix({ match, upstream }: RouteConfig, index: number, findings: Findings): void {
  if (upstream.kind !== 'url' || upstream.stripPrefix === undefined) return
  const prefix = upstream.stripPrefix.replace(/\/$/, '')
  const other = match.path.find(path => path !== prefix && !path.startsWith(`${prefix}/`))
  if (other === undefined) return
  const path: Path = ['routes', index, 'upstream', ...(upstream.name === undefined ? ['stripPrefix'] : [])]
  findings.report(
    'BG_CONFIG_CONFLICT',
    path,
    `found the stripPrefix ${quote(upstream.stripPrefix)}, with which the path ${quote(other)} does not begin; allowed: the beginning of every path of the route`
  )
}

/**
 * Checks the order of a chain by its plugins' declarations: terminal, `needs`, `before` and `after`. Ignores disabled
 * entries.
 */
export function checkChain(chain: readonly ReadEntry[], known: Iterable<PluginWithNeeds>, findings: Findings): void {
  const active = chain.filter(({ entry }) => !entry.disabled)
  const provided = new Set<string>()
  for (const [index, { entry, facts, path }] of active.entries()) {
    const last = index === active.length - 1
    if (facts === undefined) continue
    if (facts.terminal === true && !last)
      findings.report(
        'BG_CHAIN_ORDER',
        path,
        `found ${quote(entry.plugin)} before the end of the chain; allowed: ${entry.plugin} as the last entry only, because it answers the request`
      )
    else if (facts.terminal === true && (entry.when !== undefined || entry.mode === 'observe'))
      findings.report(
        'BG_CHAIN_ORDER',
        path,
        `found ${entry.when === undefined ? 'mode: observe' : 'a condition'} at ${quote(entry.plugin)}, which answers the request; allowed: the end of a chain without when and mode`
      )
    for (const need of facts.needs ?? []) {
      if (provided.has(need)) continue
      // Nothing may follow a terminal plugin.
      const providers = [...known]
        .filter(plugin => plugin.provides?.includes(need) === true && plugin.terminal !== true)
        .map(plugin => plugin.name)
      findings.report(
        'BG_CHAIN_ORDER',
        path,
        `found ${quote(entry.plugin)}, which needs the ${need}, without an earlier entry that provides it; allowed: ${entry.plugin} after ${providers.length === 0 ? `a plugin that provides the ${need}` : providers.join(' or ')}`
      )
    }
    // One report per wrong pair, whichever plugin declares it. A missing provider was already reported.
    // A further throttle may follow what a first one protects: it counts by the payment.
    const isFurther = facts.provides?.includes('throttle') === true && provided.has('throttle')
    const wrong = active
      .slice(0, isFurther ? 0 : index)
      .find(
        earlier =>
          (facts.before?.includes(earlier.entry.plugin) === true ||
            earlier.facts?.after?.includes(entry.plugin) === true) &&
          earlier.facts?.needs?.some(need => facts.provides?.includes(need) === true) !== true
      )
    if (wrong !== undefined)
      findings.report(
        'BG_CHAIN_ORDER',
        path,
        `found ${quote(entry.plugin)} after ${wrong.entry.plugin}; allowed: ${entry.plugin} before ${wrong.entry.plugin}`
      )
    if (facts.provides?.includes('challenge') === true && entry.mode === 'enforce' && !provided.has('throttle')) {
      findings.warn(
        'BG_CHAIN_ORDER',
        path,
        `found ${quote(entry.plugin)} without an earlier throttle: any client can create invoices without limit`
      )
    }
    for (const fact of facts.provides ?? []) provided.add(fact)
  }
}

type PluginWithNeeds = Pick<PluginFacts, 'name' | 'provides' | 'terminal'>
