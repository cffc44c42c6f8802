import type { ConfigurationCode } from '../errors/codes.ts'
import { didYouMean, formatNames, formatPath, nearest, quote, type Path, type Problem } from './diagnose.ts'
import type { Origin } from './document.ts'
import { internalPlugin, type ReadEntry } from './chains.ts'
import type { FoundReference } from './read.ts'
import { checkSale } from './sale.ts'
import type { FileConfig, PluginFacts, ProviderFacts, RouteConfig } from './schema.ts'
import { formatDuration } from './units.ts'

/** Collects what is wrong, each at its place in the file. */
export class Findings {
  readonly problems: Problem[] = []
  /** What is allowed and probably not meant. */
  readonly warnings: Problem[] = []
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  /** Notes one problem at a value or its key. */
  report(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): void {
    this.problems.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** Notes what is allowed and probably not meant. */
  warn(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): void {
    this.warnings.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** The text as it was written, where a variable was put into it: its value is not for messages. */
  expression(path: Path): string | undefined {
    return this.#origin.expression(path)
  }

  /** Takes over problems that were found elsewhere. */
  add(problems: readonly Problem[]): void {
    this.problems.push(...problems)
  }

  /** Whether nothing is wrong at, below or above a path, so that its value has the type that the schema says. */
  isSound(path: Path): boolean {
    const text = formatPath(path)
    return !this.problems.some(
      problem => isWithin(problem.path, text) || (problem.path !== '' && isWithin(text, problem.path))
    )
  }
}

function isWithin(path: string, outer: string): boolean {
  return path === outer || path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`)
}

/** Every name that the file uses must be defined in it (or built in, for policies). */
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
        `found the address ${quote(name)} where a name stands; allowed: { url: ${quote(name)} }, or the name of an upstream under upstreams`
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

const targets = ['internal', 'proxy', 'url'] as const

/** A route has exactly one upstream, and the settings of an HTTP upstream stand beside `url` alone. */
export function checkUpstream(raw: unknown, path: Path, findings: Findings): void {
  if (typeof raw !== 'object' || raw === null) return
  const keys = Object.keys(raw)
  const given = targets.filter(target => keys.includes(target))
  const [only] = given
  if (only === undefined)
    findings.report(
      'BG_CONFIG_UPSTREAM',
      path,
      'found an upstream without a target; allowed: exactly one of internal, proxy and url'
    )
  else if (given.length > 1)
    findings.report(
      'BG_CONFIG_UPSTREAM',
      path,
      `found ${given.join(' and ')} in one upstream; allowed: exactly one of internal, proxy and url`
    )
  else if (only !== 'url') {
    const extra = keys.find(key => key !== only)
    if (extra !== undefined)
      findings.report(
        'BG_CONFIG_UPSTREAM',
        [...path, extra],
        `found ${extra} beside ${only}; allowed: ${extra} only beside url`,
        'key'
      )
  }
}

/** Two routes for the same host, method and path; parameters with other names match the same requests. */
export function checkDuplicates(
  routes: readonly { readonly route: RouteConfig; readonly index: number }[],
  findings: Findings
): void {
  const seen = new Map<string, RouteConfig>()
  const names = new Map<string, RouteConfig>()
  for (const { route, index } of routes) {
    const { host, method, path } = route.match
    for (const verb of method ?? ['*']) {
      for (const pattern of path) {
        const key = `${host?.toLowerCase() ?? '*'} ${verb} ${pattern.replace(/:[^/]+/g, ':')}`
        const earlier = seen.get(key)
        if (earlier === undefined) seen.set(key, route)
        else
          findings.report(
            'BG_ROUTE_TWICE',
            ['routes', index, 'match'],
            `found a second route for ${verb === '*' ? 'any method' : verb} ${quote(pattern)}; allowed: one (the first stands on line ${earlier.at.line})`,
            'key'
          )
      }
    }
    const earlier = names.get(route.name)
    if (earlier === undefined) names.set(route.name, route)
    else if (findings.isSound(['routes', index]))
      findings.report(
        'BG_ROUTE_TWICE',
        ['routes', index, 'name'],
        `found the name ${quote(route.name)} a second time; allowed: each name once (the first stands on line ${earlier.at.line})`
      )
  }
}

/**
 * What only concerns one route: the parameter of a proxy, TLS beside plain HTTP, a price that nothing would ask for.
 */
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
        'BG_ROUTE_MISMATCH',
        [...path, 'upstream', 'proxy'],
        `found ${quote(`:${upstream.param}`)}, which the path ${quote(lacking)} does not have; allowed: a parameter of every path of the route`
      )
  }
  if (upstream.kind === 'proxy' && route.priceGrace > 0) {
    findings.report(
      'BG_ROUTE_MISMATCH',
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
  if (
    last?.facts?.terminal === true &&
    (last.entry.plugin === internalPlugin.name) !== (upstream.kind === 'internal')
  ) {
    findings.report(
      'BG_ROUTE_MISMATCH',
      [...path, 'upstream'],
      `found ${upstream.kind === 'internal' ? 'an internal upstream' : 'an HTTP upstream'}, but the chain ${quote(route.chain)} ends with ${last.entry.plugin}; allowed: a chain that leaves its end to the route, or ends with ${upstream.kind === 'internal' ? 'internal' : 'forward'}`
    )
  }
  if (chain === undefined || chain.some(({ facts }) => facts === undefined)) return
  const provides = (fact: string): boolean =>
    chain.some(({ entry, facts }) => !entry.disabled && facts?.provides?.includes(fact) === true)
  // A limit that nothing enforces would be believed.
  if (route.bodyLimit !== undefined && !provides('body-limit')) {
    findings.report(
      'BG_ROUTE_MISMATCH',
      [...path, 'bodyLimit'],
      `found a body limit, but the chain ${quote(route.chain)} has nothing that enforces it; allowed: a chain with the entry body-limit`,
      'key'
    )
  }
  checkSale(route, index, chain, findings)
  checkPrefix(route, index, findings)
}

/** A prefix that a request does not begin with would be left where it is without a word. */
function checkPrefix({ match, upstream }: RouteConfig, index: number, findings: Findings): void {
  if (upstream.kind !== 'url' || upstream.stripPrefix === undefined) return
  const prefix = upstream.stripPrefix.replace(/\/$/, '')
  const other = match.path.find(path => path !== prefix && !path.startsWith(`${prefix}/`))
  if (other === undefined) return
  const path: Path = ['routes', index, 'upstream', ...(upstream.name === undefined ? ['stripPrefix'] : [])]
  findings.report(
    'BG_ROUTE_MISMATCH',
    path,
    `found the stripPrefix ${quote(upstream.stripPrefix)}, with which the path ${quote(other)} does not begin; allowed: the beginning of every path of the route`
  )
}

/**
 * The order of a chain by what its plugins say of themselves: a terminal one only at the end, what an entry needs
 * provided before it, and `before` and `after` kept. Disabled entries count for nothing.
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
      const providers = [...known].filter(plugin => plugin.provides?.includes(need) === true).map(plugin => plugin.name)
      findings.report(
        'BG_CHAIN_ORDER',
        path,
        `found ${quote(entry.plugin)}, which needs the ${need}, without an earlier entry that provides it; allowed: ${entry.plugin} after ${providers.length === 0 ? `a plugin that provides the ${need}` : providers.join(' or ')}`
      )
    }
    // One report for one wrong pair, whichever of the two plugins says so.
    // An earlier entry that needs what this one provides has been reported already.
    const wrong = active
      .slice(0, index)
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
        'BG_CHAIN_UNTHROTTLED',
        path,
        `found ${quote(entry.plugin)} without an earlier throttle: anybody can have invoices made without limit`
      )
    }
    for (const fact of facts.provides ?? []) provided.add(fact)
  }
}

/** The part of a plugin's facts that order is judged by. */
export type PluginWithNeeds = Pick<PluginFacts, 'name' | 'provides'>

/** Several processes need stores outside of them, in every mode. */
export function checkWorkers(config: FileConfig, findings: Findings): void {
  const { workers } = config.server
  if (workers < 2) return
  if (config.state.url === 'memory:')
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'workers'],
      `found ${workers} workers with state in memory; allowed: 1 worker, or state.url with the address of a Redis server`
    )
  if (config.database.url.startsWith('pglite:'))
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'workers'],
      `found ${workers} workers with the embedded database; allowed: 1 worker, or database.url with the address of a PostgreSQL server`
    )
}

function isPlainAndAway(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return (
    protocol === 'http:' && hostname !== 'localhost' && hostname !== '[::1]' && !/^127\.\d+\.\d+\.\d+$/.test(hostname)
  )
}

/**
 * Prices must live longer than they are used, a mail server takes no mail without a sender, and a place is no smaller
 * than a request.
 */
export function checkSettings(config: FileConfig, findings: Findings): void {
  if (findings.isSound(['prices']) && config.prices.maxAge < config.prices.refresh) {
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['prices', 'maxAge'],
      `found ${formatDuration(config.prices.maxAge)}, which is shorter than refresh; allowed: at least ${formatDuration(config.prices.refresh)}`
    )
  }
  if (
    findings.isSound(['payment', 'maxOutstanding']) &&
    config.payment.maxOutstanding.place < config.payment.maxOutstanding.address
  ) {
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['payment', 'maxOutstanding', 'place'],
      `found ${config.payment.maxOutstanding.place}, which is less than address; allowed: at least ${config.payment.maxOutstanding.address}`
    )
  }
  if (findings.isSound(['mail']) && config.mail.smtp !== '' && config.mail.from === '') {
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['mail', 'from'],
      'found nothing beside a mail server; allowed: the sender of mail, such as Example <no-reply@example.com>'
    )
  }
}

/** The facts of a kind that a slot names; undefined where the loader was told of none. */
function factsOf(kind: string, providers: readonly ProviderFacts[] | undefined): ProviderFacts | undefined {
  return providers?.find(({ name }) => name === kind)
}

/** Keys of providers have forms, and a start ends with one that cannot be read. */
export function checkKeys(
  { lightning }: FileConfig,
  providers: readonly ProviderFacts[] | undefined,
  findings: Findings
): void {
  for (const slot of ['primary', 'alternate'] as const) {
    const { kind, key } = lightning[slot]
    const fault = key === undefined ? undefined : factsOf(kind, providers)?.keyFault(key)
    if (fault !== undefined) findings.report('BG_CONFIG_PROVIDER_KEY', ['lightning', slot, 'key'], fault)
  }
}

/**
 * Whoever sells needs an account that the money goes to. Only the sandbox can do without a key. In development it is a
 * warning: merchants with keys of their own can be tried beside routes of the operator that answer 503.
 */
export function checkOperatorKey(
  { mode, lightning: { primary } }: FileConfig,
  providers: readonly ProviderFacts[] | undefined,
  selling: readonly RouteConfig[],
  findings: Findings
): void {
  if (selling.length === 0 || primary.key !== undefined || factsOf(primary.kind, providers)?.isSandbox !== false) return
  const lines = formatNames(selling.map(({ at }) => String(at.line)))
  const who =
    selling.length === 1 ? `the route on line ${lines} has a price` : `the routes on lines ${lines} have a price`
  const message = `found nothing, but ${who}; allowed: the provider key that its payments go to`
  if (mode === 'production') findings.report('BG_CONFIG_PROVIDER_KEY', ['lightning', 'primary', 'key'], message)
  else findings.warn('BG_CONFIG_PROVIDER_KEY', ['lightning', 'primary', 'key'], message)
}

/** What only stripe needs, and cannot be without. */
export function checkBilling({ billing }: FileConfig, findings: Findings): void {
  if (!findings.isSound(['billing']) || billing.kind !== 'stripe') return
  if (billing.key === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'key'],
      'found nothing beside kind stripe; allowed: the secret key of the account, such as sk_live_…'
    )
  if (billing.webhookSecret === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'webhookSecret'],
      'found nothing beside kind stripe; allowed: the signing secret of the webhook endpoint, such as whsec_…'
    )
  if (billing.url !== undefined && new URL(billing.url).pathname !== '/')
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'url'],
      "found an address with a path; allowed: one without, since the path is the API's own"
    )
  if (billing.prices.individual === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'prices', 'individual'],
      'found nothing beside kind stripe; allowed: the id of a monthly price, such as price_…'
    )
}

/** What production does not accept: the sandbox, missing secrets, the embedded database, plain HTTP. */
export function checkProduction(
  config: FileConfig,
  providers: readonly ProviderFacts[] | undefined,
  findings: Findings
): void {
  if (config.mode !== 'production') return
  const forMoney = formatNames((providers ?? []).filter(({ isSandbox }) => !isSandbox).map(({ name }) => name))
  for (const side of ['primary', 'alternate'] as const) {
    const { kind, url } = config.lightning[side]
    if (factsOf(kind, providers)?.isSandbox === true)
      findings.report(
        'BG_CONFIG_PRODUCTION',
        ['lightning', side, 'kind'],
        `found the ${kind} in production; allowed: ${forMoney}`
      )
    // Every call carries a key that can take or send money.
    if (url !== undefined && isPlainAndAway(url))
      findings.report(
        'BG_CONFIG_PRODUCTION',
        ['lightning', side, 'url'],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  for (const part of ['storefront', 'billing'] as const) {
    const { kind, url } = config[part]
    if (kind === 'sandbox')
      findings.report(
        'BG_CONFIG_PRODUCTION',
        [part, 'kind'],
        `found the sandbox in production; allowed: ${part === 'storefront' ? 'shopify' : 'stripe, none'}`
      )
    if (url !== undefined && isPlainAndAway(url))
      findings.report(
        'BG_CONFIG_PRODUCTION',
        [part, 'url'],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  if (config.billing.kind === 'stripe' && /^(sk|rk)_test_/.test(config.billing.key ?? '')) {
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['billing', 'key'],
      'found a key of test mode in production, with which test cards buy plans; allowed: a live key, such as sk_live_…'
    )
  }
  for (const [source, url] of Object.entries(config.prices.urls)) {
    // Who can change the responses sets the prices.
    if (isPlainAndAway(url))
      findings.report(
        'BG_CONFIG_PRODUCTION',
        ['prices', 'urls', source],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  if (config.secrets.master === '')
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['secrets', 'master'],
      'found nothing in production; allowed: at least 32 characters, such as the output of `openssl rand -base64 48`'
    )
  if (config.database.url.startsWith('pglite:'))
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['database', 'url'],
      'found the embedded database in production; allowed: an address such as postgres://user:password@host:5432/name'
    )
  const { publicUrl } = config.server
  if (publicUrl === '')
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['server', 'publicUrl'],
      'found nothing in production; allowed: the https address that clients use, such as https://api.example.com'
    )
  else if (!publicUrl.startsWith('https:'))
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['server', 'publicUrl'],
      'found a plain http address in production; allowed: an https address, such as https://api.example.com'
    )
}
