import { quote, type Findings, type Path } from '../config/diagnose.ts'
import { type HostAndPort, isWildcard, parseListen } from '../config/listen-address.ts'
import type { FileConfig, RouteConfig } from '../config/schema.ts'
import { pricesByModel } from './meter.ts'
import { allAddressesOf, type UrlUpstreamConfig } from '../sections/upstream.ts'

type Placed = readonly { readonly route: RouteConfig; readonly index: number }[]

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** Routes that lead back to the gateway, which it refuses when they are called. */
export function checkOwnAddress({ server }: FileConfig, routes: Placed, findings: Findings): void {
  for (const text of server.listen) {
    const listen = parseListen(text)
    if (listen?.kind === 'tcp' && listen.port !== 0) checkAddress(listen, text, routes, findings)
  }
}

function checkAddress(listen: HostAndPort, text: string, routes: Placed, findings: Findings): void {
  const host = listen.host.includes(':') ? `[${listen.host}]` : listen.host
  for (const [route, index, url] of addressed(routes)) {
    const { hostname, port, protocol } = new URL(url)
    const isOwn =
      Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port) === listen.port &&
      (hostname === host || (LOOPBACK.test(hostname) && (isWildcard(listen.host) || LOOPBACK.test(host))))
    if (isOwn)
      findings.report(
        'BG_CONFIG_CONFLICT',
        upstreamPath(route, index),
        `found ${quote(url)}, where the gateway itself listens (${text}); allowed: the address of the server behind it, or another server.listen`
      )
  }
}

/** Warns of `https://api.example.com/v1` behind `/v1/*`, whose requests go to `/v1/v1/…`. */
export function checkDoublePath(routes: Placed, findings: Findings): void {
  for (const [route, index, url, { stripPrefix = '' }] of addressed(routes)) {
    for (const pattern of route.match.path) {
      const found = doubledPath(url, pattern.slice(stripPrefix.replace(/\/$/, '').length))
      if (found === null) continue
      findings.warn(
        'BG_CONFIG_CONFLICT',
        upstreamPath(route, index),
        `found ${quote(found.part)} in the address and in the path ${quote(pattern)}: requests go to ${quote(found.whole)}; allowed, but probably meant: { url: ${quote(found.without)} }, or stripPrefix: ${found.part}`
      )
      break
    }
  }
}

/** A meter must have the price of each model that a fallback is asked for. */
export function checkFallbacks(routes: Placed, findings: Findings): void {
  for (const { route, index } of routes) {
    const { meter, upstream } = route
    if (upstream.kind !== 'url' || meter === undefined) continue
    for (const { model } of upstream.fallback ?? []) {
      if (model === undefined) continue
      const { prices, usage } = meter
      const isPriced = !pricesByModel(prices) || prices.else !== 'refuse' || Object.hasOwn(prices.of, model)
      if (isPriced && usage !== 'gemini') continue
      findings.report(
        'BG_CONFIG_CONFLICT',
        ['routes', index, 'upstream'],
        usage === 'gemini'
          ? `found a fallback with the model ${quote(model)} beside usage: gemini, whose requests have the model in their path; allowed: fallbacks without a model`
          : `found a fallback with the model ${quote(model)}, which has no price; allowed: a model of meter.prices`
      )
    }
  }
}

function addressed(routes: Placed): Array<readonly [RouteConfig, number, string, UrlUpstreamConfig]> {
  return routes.flatMap(({ route, index }) => {
    const { upstream } = route
    return upstream.kind === 'url' ? allAddressesOf(upstream).map(url => [route, index, url, upstream] as const) : []
  })
}

/** The end of an address's path that a request's path repeats; null without. `without` is the address without it. */
export function doubledPath(url: string, path: string): { part: string; whole: string; without: string } | null {
  const { origin, pathname } = new URL(url)
  const base = segments(pathname)
  const requested = segments(path)
  const twice = base.findIndex((_, at) => base.slice(at).every((segment, nth) => requested[nth] === segment))
  if (twice === -1) return null
  return {
    part: joined(base.slice(twice)),
    whole: joined([...base, ...requested]),
    without: origin + joined(base.slice(0, twice))
  }
}

function joined(parts: readonly string[]): string {
  return parts.map(part => `/${part}`).join('')
}

function segments(path: string): string[] {
  return path.split('/').filter(segment => segment !== '')
}

function upstreamPath({ upstream }: RouteConfig, index: number): Path {
  if (upstream.kind !== 'url' || upstream.name !== undefined) return ['routes', index, 'upstream']
  return ['routes', index, 'upstream', 'url']
}
