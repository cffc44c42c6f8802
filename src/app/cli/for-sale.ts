import { readdirSync } from 'node:fs'
import { isFree, priceWords, routeCallPrices } from '../../engine/checks/price.ts'
import { takes } from '../../engine/config/presets.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { nameAndValue } from '../../engine/sections/when.ts'
import { exampleOf } from '../../engine/openapi/paid.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { DEFAULT_PRICE } from '../../engine/sections/payment.ts'

/** Slug of the initial store. */
export const FIRST_STORE = 'demo'

/** An operator's offer in the startup message. */
export interface ForSale {
  /** Such as `/v1/* for 10 sats`. */
  readonly line: string
  /** Arguments of `boltgate pay` that buy it once; null for calls, which are paid inside their messages. */
  readonly order: string | null
}

/** Offers of the configured routes in file order, without merchants' proxies. */
export function forSale(config: GatewayConfig, publicUrl: string, operations: readonly AnyOperation[]): ForSale[] {
  const sold = new Map(soldRoutes(config).map(({ route, price }) => [route, price]))
  return config.routes.flatMap((route): ForSale[] => {
    const price = sold.get(route)
    const calls = routeCallPrices(config, route)
    const place = `${route.match.host ?? ''}${route.match.path.join(', ')}`
    if (calls !== null && calls.length > 0) {
      const each = calls.map(({ operation, amount }) => `${operation} ${priceWords(amount)}`)
      return [{ line: `${place}: ${each.join(', ')}`, order: null }]
    }
    if (price === undefined) return []
    const each = route.meter === undefined ? '' : ' per prepaid balance'
    return [{ line: `${place} for ${priceWords(price)}${each}`, order: orderOf(route, publicUrl, operations) }]
  })
}

export function soldRoutes(config: GatewayConfig) {
  return config.routes.flatMap(route => {
    const asks = config.chains[route.chain]?.some(entry => entry.plugin === 'challenge' && !entry.disabled) === true
    const price = route.price ?? (asks ? DEFAULT_PRICE : 0)
    return route.upstream.kind === 'proxy' || route.invoices === false || isFree(price) ? [] : [{ route, price }]
  })
}

/** Whether `boltgate pay` works here: sandbox invoices with its wallet mounted. */
export function hasWallet(config: GatewayConfig): boolean {
  return (
    config.mode === 'development' &&
    config.lightning.primary[0]?.kind === 'sandbox' &&
    config.routes.some(route => takes(route, 'POST', '/sandbox/pay'))
  )
}

/** Path of a file that is for sale, where a route serves a folder. */
function fileBelow({ match, upstream }: RouteConfig): string | undefined {
  const [pattern = ''] = match.path
  if (upstream.kind !== 'files' || !pattern.endsWith('/*')) return undefined
  const file = firstFile(upstream.path)
  return file === undefined ? undefined : pattern.slice(0, -1) + encodeURIComponent(file)
}

export function firstFile(folder: string): string | undefined {
  return readdirSync(folder, { withFileTypes: true }).find(entry => entry.isFile() && !entry.name.startsWith('.'))?.name
}

function orderOf(route: RouteConfig, publicUrl: string, operations: readonly AnyOperation[]): string {
  const { headers, host, ...usual } = sampleOf(route, operations)
  const [example] = route.examples.map(exampleOf)
  const { method, target: path, body } = example ?? { ...usual, target: usual.path }
  const url = publicUrl + path
  return [
    path.includes('?') ? `'${url}'` : url,
    ...(method === (body === undefined ? 'GET' : 'POST') ? [] : [`-X ${method}`]),
    ...(host === undefined || host === new URL(publicUrl).hostname ? [] : [`-H 'Host: ${host}'`]),
    ...Object.entries(headers).map(([name, value]) => `-H ${shellQuoted(`${name}: ${value}`)}`),
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${shellQuoted(JSON.stringify(body))}`])
  ].join(' ')
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A request that the route takes; without a body. */
export function sampleOf(route: RouteConfig, operations: readonly AnyOperation[]) {
  const {
    host,
    method: methods = ['GET'],
    path: [pattern = '/'],
    header = [],
    query = []
  } = route.match
  const [method = 'GET'] = methods.includes('GET') ? ['GET'] : methods
  const operation =
    route.upstream.kind === 'internal'
      ? operations.find(({ method: its, path }) => its === method && takes(route, its, path))
      : undefined
  const path = operation?.path ?? fileBelow(route) ?? pattern.replace(/\*$/, '').replaceAll(/:[^/]+/g, '1')
  const pairs = query.map(text =>
    nameAndValue(text)
      .map(part => encodeURIComponent(part ?? '1'))
      .join('=')
  )
  const headers = Object.fromEntries(header.map(nameAndValue).map(([name, value]) => [name, value ?? '1']))
  return { headers, host, method, path: pairs.length === 0 ? path : `${path}?${pairs.join('&')}` }
}
