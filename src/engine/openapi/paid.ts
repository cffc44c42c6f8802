import {
  routeCallPrices,
  type CallPrice,
  amountsOf,
  audienceWords,
  isFree,
  isTable,
  priceWords,
  type PriceConfig
} from '../checks/price.ts'
import { freeWords } from '../checks/route-words.ts'
import type { ApiFile, ApiOperation } from '../checks/api-file.ts'
import { meterWords, sessionWords, type SessionsConfig } from '../checks/meter.ts'
import { routePrice, type Priced } from '../checks/sale.ts'
import type { FiatText } from '../checks/money-text.ts'
import { routeName } from '../config/presets.ts'
import type { RouteConfig } from '../config/schema.ts'
import type { Json } from './errors.ts'
import type { AnyOperation, DocumentedPrice } from '../operations/operation.ts'
import { Router } from '../pipeline/router.ts'
import { nameAndValue } from '../sections/when.ts'

export interface PricedRoute extends DocumentedPrice {
  readonly path: string
  /** Lower case; empty means all. */
  readonly methods: readonly string[]
  /** Own operations, which describe themselves in more detail; default false. */
  readonly own?: boolean
  readonly examples: readonly RouteExample[]
  /** Headers and query parameters that such requests have. */
  readonly parameters?: readonly Json[]
  readonly api?: Pick<ApiFile, 'components'> & Pick<ApiOperation, 'members'>
}

/** A request that works unchanged, from the route's `examples`. */
export interface RouteExample {
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly body?: unknown
  readonly response?: unknown
}

/** find-my-way's `/a/:id/*` as OpenAPI's `/a/{id}/{path}`. */
export function openApiPath(path: string): string {
  return path.replaceAll(/:([A-Za-z_][A-Za-z0-9_]*)/g, '{$1}').replace(/\*$/, '{path}')
}

function priceOf(config: Priced, route: RouteConfig): PriceConfig | null {
  return route.upstream.kind === 'proxy' ? null : (routePrice(config, route) ?? 0)
}

export function pricedRoutes(config: Priced): PricedRoute[] {
  const out: PricedRoute[] = []
  for (const route of config.routes) {
    const calls = routeCallPrices(config, route)
    const price = calls === null ? priceOf(config, route) : null
    if ((price !== null && isFree(price)) || route.invoices === false) continue
    const about = route.description ?? (route.name === routeName(route.match) ? 'Paid requests' : route.name)
    const methods = calls === null ? (route.match.method ?? (route.upstream.kind === 'files' ? ['GET'] : [])) : ['POST']
    const examples = route.examples.map(exampleOf)
    for (const [at, path] of route.match.path.entries()) {
      const sold: PricedRoute = {
        path: openApiPath(path),
        methods: methods.map(name => name.toLowerCase()),
        price,
        description:
          calls !== null
            ? `${about}. ${callsInWords(calls)}`
            : [
                about,
                ...(route.audience === undefined ? [] : [audienceWords(route.audience)]),
                ...(route.free === undefined ? [] : [freeWords(route.free)]),
                ...(route.meter === undefined ? [] : [`The price buys ${meterWords(route.meter)}`]),
                ...(route.sessions === undefined ? [] : [sessionWords(route.sessions, route.meter !== undefined)])
              ].join('. '),
        ...(calls === null ? {} : { calls }),
        ...(route.meter === undefined ? {} : { meter: route.meter }),
        ...(route.sessions === undefined ? {} : { sessions: route.sessions }),
        ...parametersOf(route.match),
        own: route.upstream.kind === 'internal',
        // Of all paths of the route; each is shown once.
        examples: at === 0 ? examples : []
      }
      out.push(...apiRoutes(sold, path, route), sold)
    }
  }
  return out
}

/** By name alone: a value may be known to some clients only. */
function parametersOf({ header, query }: RouteConfig['match']): Pick<PricedRoute, 'parameters'> {
  if (header === undefined && query === undefined) return {}
  const named = (list: readonly string[] | undefined, place: string): Json[] =>
    (list ?? []).map(text => ({ name: nameAndValue(text)[0], in: place, required: true, schema: { type: 'string' } }))
  return { parameters: [...named(header, 'header'), ...named(query, 'query')] }
}

/** The operations of the API behind that the route takes, each at its own address. */
function apiRoutes(sold: PricedRoute, pattern: string, { api }: RouteConfig): PricedRoute[] {
  if (api === undefined) return []
  const prefix = pattern.endsWith('/*') ? openApiPath(pattern.slice(0, -2)) : null
  return api.operations.flatMap(({ path, method, summary, members }) => {
    if (sold.methods.length > 0 && !sold.methods.includes(method)) return []
    const address = addressOf(`${api.base}${path}`, path, prefix, sold.path)
    if (address === null) return []
    return [
      {
        ...sold,
        path: address,
        methods: [method],
        description: summary === null ? sold.description : `${summary}. ${sold.description}`,
        examples: [],
        api: { members, components: api.components }
      }
    ]
  })
}

/** A file may write its paths as clients see them, or as they are behind the route's prefix. */
function addressOf(full: string, path: string, prefix: string | null, only: string): string | null {
  const shape = (text: string): string => text.replaceAll(/\{[^{}]*\}/g, '{}')
  if (prefix === null) return [full, path].find(one => shape(one) === shape(only)) ?? null
  return [full, path].find(one => one.startsWith(`${prefix}/`)) ?? `${prefix}${path}`
}

function callsInWords(calls: readonly CallPrice[]): string {
  const each = calls.map(({ operation, amount }) => `${operation} ${priceWords(amount)}`)
  return `JSON-RPC messages, paid inside them (error -32042): ${each.join(', ')}; other calls are free`
}

export function exampleOf({ request, ...more }: RouteConfig['examples'][number]): RouteExample {
  const space = request.indexOf(' ')
  return { ...more, method: request.slice(0, space), target: request.slice(space + 1) }
}

function routesOf({ routes }: Priced): (operation: AnyOperation) => RouteConfig | undefined {
  const router = new Router<RouteConfig>()
  for (const route of routes)
    for (const path of route.match.path)
      router.add({ ...route.match, host: route.match.host ?? null, methods: route.match.method ?? [], path }, route)
  return ({ method, path }) => router.find('', method, path.replaceAll(/:[A-Za-z_][A-Za-z0-9_]*/g, 'x'))?.value
}

/** Those that a route leads to: the others would answer 404. */
export function servedOperations(config: Priced, operations: readonly AnyOperation[]): AnyOperation[] {
  const routeOf = routesOf(config)
  return operations.filter(operation => routeOf(operation)?.upstream.kind === 'internal')
}

export function operationPrices(config: Priced): (operation: AnyOperation) => DocumentedPrice | null {
  const routeOf = routesOf(config)
  return operation => {
    const route = routeOf(operation)
    if (route === undefined) return null
    const price = priceOf(config, route)
    return price !== null && isFree(price) ? null : { price, description: operation.summary }
  }
}

function fixedSats(price: PriceConfig | null): number | null {
  return typeof price === 'number' ? price : null
}

/** Members of an offer by draft-payment-discovery-01, whose schema forbids others. */
const OFFER_MEMBERS = new Set(['intent', 'method', 'amount', 'currency', 'description'])

/**
 * `x-payment-info`: one offer, or one per call. The amount is null without a fixed number of satoshis; `price` then
 * describes it. Members outside the draft are at the same index of `terms`.
 */
export function paymentInfo({ price, description, calls, meter, sessions }: DocumentedPrice): Json {
  const all = calls?.map(call => offerJson(call.amount, call.operation)) ?? [
    { ...offerJson(price, description), ...(meter === undefined ? {} : { buys: 'balance', unit: meter.unit }) },
    ...(sessions === undefined ? [] : [sessionJson(price, description, meter !== undefined, sessions)])
  ]
  const part = (isStandard: boolean): Json[] =>
    all.map(offer =>
      Object.fromEntries(Object.entries(offer).filter(([name]) => OFFER_MEMBERS.has(name) === isStandard))
    )
  const terms = part(false)
  return { offers: part(true), ...(terms.every(more => Object.keys(more).length === 0) ? {} : { terms }) }
}

function offerJson(price: PriceConfig | null, description: string): Json {
  const sats = fixedSats(price)
  const offer = { intent: 'charge', method: 'lightning', amount: sats === null ? null : String(sats), currency: 'sat' }
  if (price === null || sats !== null) return { ...offer, description }
  return { ...offer, description: `${description} (${priceWords(price)})`, price: priceJson(price) }
}

function sessionJson(
  price: PriceConfig | null,
  description: string,
  isMetered: boolean,
  { deposit, idle, unit }: SessionsConfig
): Json {
  const offer = isMetered ? { ...offerJson(1, description), unitType: 'satoshi' } : offerJson(price, description)
  return {
    unitType: unit,
    ...offer,
    intent: 'session',
    ...(typeof deposit === 'number' ? { depositAmount: String(deposit) } : {}),
    idleTimeout: String(Math.floor(idle / 1000))
  }
}

function priceJson(price: PriceConfig): Json {
  if (typeof price !== 'object') return { mode: 'fixed', ...amountAndCurrency(price) }
  if (!isTable(price)) return { mode: 'asked' }
  const { by, of, else: rest } = price
  const sats = amountsOf(price).filter(amount => typeof amount === 'number')
  const range =
    sats.length === amountsOf(price).length
      ? { min: String(Math.min(...sats)), max: String(Math.max(...sats)), currency: 'sat' }
      : {}
  return {
    mode: 'by-field',
    by: { ...by },
    ...range,
    of: Object.fromEntries(Object.entries(of).map(([value, amount]) => [value, amountAndCurrency(amount)])),
    else: rest === 'refuse' ? 'refuse' : amountAndCurrency(rest)
  }
}

function amountAndCurrency(amount: number | FiatText): { amount: string; currency: string } {
  return typeof amount === 'number'
    ? { amount: String(amount), currency: 'sat' }
    : { amount: amount.slice(4), currency: amount.slice(0, 3) }
}
