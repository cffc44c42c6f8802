import { quote, type Path, type Findings } from '../config/diagnose.ts'
import type { ReadEntry } from './chains.ts'
import { isFree, type PriceConfig } from './price.ts'
import type { GatewayConfig, RouteConfig } from '../config/schema.ts'
import type { WhenConfig } from '../sections/when.ts'
import { DEFAULT_PRICE } from '../sections/payment.ts'

/** Facts of plugins that sell: one asks for money, takes it, or sets the price. */
type SaleFact = 'challenge' | 'payment' | 'target'

/**
 * Whether an entry takes part in every request of a route, by its `when`: headers and callers may be missing, but paths
 * and methods can cover the route's.
 */
export function alwaysHolds(
  when: WhenConfig | undefined,
  match: Pick<RouteConfig['match'], 'path' | 'method'>
): boolean {
  if (when === undefined) return true
  const { method, path, header, query, authenticated } = when
  if (header !== undefined || query !== undefined || authenticated !== undefined) return false
  if (method !== undefined) {
    const taken: readonly string[] = method.includes('GET') ? [...method, 'HEAD'] : method
    if (match.method === undefined || !match.method.every(name => taken.includes(name))) return false
  }
  // A condition's path is literal up to its star: `/a/:id` in it is no parameter.
  return (
    path === undefined ||
    match.path.every(pattern =>
      path.some(covering =>
        covering.endsWith('/*')
          ? pattern.startsWith(covering.slice(0, -1))
          : pattern === covering && !/[:*]/.test(pattern)
      )
    )
  )
}

export type Priced = Pick<GatewayConfig, 'payment' | 'routes' | 'chains'>

/** An operator's price, 0 when free; null where the chain asks for no payment, or merchants set the prices. */
export function routePrice({ chains }: Pick<Priced, 'chains'>, route: RouteConfig): PriceConfig | null {
  if (route.upstream.kind === 'proxy') return null
  // A route without a price has the default one, where its chain asks for payment at all.
  const asks = chains[route.chain]?.some(entry => entry.plugin === 'challenge' && !entry.disabled) === true
  return route.price ?? (asks ? DEFAULT_PRICE : null)
}

export function sells(route: RouteConfig, chain: readonly ReadEntry[]): boolean {
  if (route.upstream.kind === 'proxy') return false
  return route.price === undefined
    ? chain.some(({ entry, facts }) => !entry.disabled && facts?.provides?.includes('challenge') === true)
    : !isFree(route.price)
}

/**
 * Whether a merchant's endpoint can be sold as a balance: a route that serves proxies draws from balances, or may
 * through an operator's plugin of unknown behavior.
 */
export function metersProxies({ routes, chains }: Pick<Priced, 'routes' | 'chains'>): boolean {
  const proxied = routes.filter(({ upstream }) => upstream.kind === 'proxy')
  const meters = ({ chain }: RouteConfig): boolean =>
    chains[chain]?.some(({ plugin, file, disabled }) => !disabled && (plugin === 'meter' || file !== undefined)) ===
    true
  return proxied.length === 0 || proxied.some(meters)
}

export function sellsCalls(chain: readonly ReadEntry[]): boolean {
  return chain.some(({ entry, facts }) => !entry.disabled && facts?.name === 'mcp' && entry.plugin === 'mcp')
}

/**
 * Checks a route's chain (decision 181): priced requests are asked for payment, payments are taken, and nothing else
 * reaches the upstream. Each problem says why it would not be so.
 */
export function checkSale(route: RouteConfig, index: number, chain: readonly ReadEntry[], findings: Findings): void {
  const at: Path = ['routes', index]
  const proxied = route.upstream.kind === 'proxy'
  const name = quote(route.chain)
  const having = (fact: SaleFact): ReadEntry[] => chain.filter(({ facts }) => facts?.provides?.includes(fact) === true)
  const active = (entries: readonly ReadEntry[]): ReadEntry[] => entries.filter(({ entry }) => !entry.disabled)
  const all = having('challenge')
  const challenging = active(all)
  const taking = active(having('payment'))
  const called = ({ entry }: ReadEntry): string => `${quote(entry.plugin)} (line ${entry.at.line})`

  const alone = challenging.find(({ facts }) => facts?.terminal === true)
  if (alone !== undefined) {
    const other = [...challenging, ...taking].find(read => read !== alone)
    if (other !== undefined)
      findings.report(
        'BG_CHAIN_SALE',
        [...at, 'chain'],
        `found the chain ${name}, in which ${called(other)} sells whole requests and ${called(alone)} the calls inside them; allowed: one of the two`
      )
    for (const setting of ['price', 'meter', 'free'] as const)
      if (other === undefined && route[setting] !== undefined)
        findings.report(
          'BG_CHAIN_SALE',
          [...at, setting],
          `found ${setting === 'free' ? 'free calls' : `a ${setting}`}, but ${called(alone)} of the chain ${name} has a price for each call; allowed: no ${setting} at the route`,
          'key'
        )
    return
  }

  if (proxied) {
    const naming = active(having('target')).find(
      ({ entry }) => alwaysHolds(entry.when, route.match) && entry.mode === 'enforce'
    )
    const first = chain.find(read => challenging.includes(read) || taking.includes(read))
    if (naming === undefined) {
      findings.report(
        'BG_CHAIN_SALE',
        [...at, 'chain'],
        `found the chain ${name}, in which nothing looks the proxy up; allowed: a chain with proxy before credential`
      )
      return
    }
    if (first !== undefined && chain.indexOf(first) < chain.indexOf(naming)) {
      findings.report(
        'BG_CHAIN_SALE',
        [...at, 'chain'],
        `found the chain ${name}, in which ${called(naming)} comes after ${called(first)}, which must know the price; allowed: a chain with proxy before credential`
      )
      return
    }
  }
  const costs = proxied || !isFree(route.price ?? 0)
  const place: Path = proxied ? [...at, 'chain'] : [...at, 'price']
  const found = proxied ? `found a merchant's proxy, but` : 'found a price, but'
  const [challenge] = challenging
  if (costs && challenge === undefined) {
    const [disabled] = all
    if (disabled === undefined)
      findings.report(
        'BG_CHAIN_SALE',
        place,
        `${found} the chain ${name} asks for no payment; allowed: a chain with an entry that does, such as challenge`,
        proxied ? 'value' : 'key'
      )
    else
      findings.report(
        'BG_CHAIN_SALE',
        place,
        `${found} ${called(disabled)} of the chain ${name} is disabled, so that nothing asks for payment; allowed: the entry without disabled`,
        proxied ? 'value' : 'key'
      )
    return
  }
  if (challenge === undefined) return
  if (challenging.every(({ entry }) => entry.mode === 'observe')) {
    if (costs)
      findings.warn(
        'BG_CHAIN_SALE',
        place,
        `${found} ${called(challenge)} of the chain ${name} only observes: every request is served without payment`,
        proxied ? 'value' : 'key'
      )
    return
  }
  if (costs && !challenging.some(({ entry }) => entry.mode === 'enforce' && alwaysHolds(entry.when, route.match))) {
    findings.report(
      'BG_CHAIN_SALE',
      place,
      `${found} ${called(challenge)} of the chain ${name} takes part only under its "when", and what that leaves out would be served without payment; allowed: the entry without when, or with one that covers every request of the route`,
      proxied ? 'value' : 'key'
    )
    return
  }
  // Asking and taking under one condition are skipped together.
  const missing = challenging.find(
    ({ entry: { when } }) =>
      !taking.some(
        ({ entry }) => alwaysHolds(entry.when, route.match) || JSON.stringify(entry.when) === JSON.stringify(when)
      )
  )
  const [taken] = taking
  if (missing === undefined || taken === undefined) return
  findings.report(
    'BG_CHAIN_SALE',
    [...at, 'chain'],
    `found the chain ${name}, in which ${called(taken)} takes part only under its "when": who pays what ${called(missing)} asks for would not be served; allowed: the same requests for both`
  )
}
