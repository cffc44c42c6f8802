import type { Problem } from '../config/diagnose.ts'
import { alwaysHolds } from '../checks/sale.ts'
import type { PresetName } from '../config/presets.ts'
import type { GatewayConfig, Position, RouteConfig, ChainEntryConfig } from '../config/schema.ts'
import type { WhenConfig } from '../sections/when.ts'
import type { InternalUpstream } from './internal.ts'
import type { AnyOperation } from '../operations/operation.ts'
import type { Router } from './router.ts'
import type { CompiledRoute } from './snapshot.ts'
import { amountWords, isFree, priceWords } from '../checks/price.ts'
import type { Context } from '../message/context.ts'
import { LongError } from '../operations/errors.ts'
import type { Hooks, Plugin } from './plugin.ts'
import { defineError } from '../../platform/system/errors.ts'

/** A kind of principal that a chain entry establishes, and its condition. */
export interface Establishes {
  readonly kind: string
  readonly when: WhenConfig | undefined
}

export interface BuiltRoute {
  readonly compiled: CompiledRoute
  readonly callers: readonly Establishes[]
  readonly asks: boolean
}

interface Lacking {
  readonly route: BuiltRoute
  readonly operation: AnyOperation
}

interface Reach {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/**
 * Finds operations that fail on every call with 500, because the chain of their route lacks the caller or the payment
 * they need. Only warns for a catch-all route, since a later version may add operations, and for a file that routes
 * some operations of an API and not others.
 */
export function checkReach(
  config: GatewayConfig,
  router: Router<CompiledRoute>,
  built: readonly BuiltRoute[],
  internals: ReadonlyMap<string, InternalUpstream>
): Reach {
  const routes = new Map(built.map(route => [route.compiled, route]))
  const hosts = new Set(['', ...built.flatMap(({ compiled }) => compiled.info.config?.match.host ?? [])])
  const lacking = new Map<string, Lacking[]>()
  const spelled = new Map<PresetName, Spelled>()
  for (const [name, upstream] of internals) {
    for (const operation of upstream.operations) {
      let led: RouteConfig | null = null
      for (const host of hosts) {
        const found = router.find(host, operation.method, operation.path.replaceAll(/:[A-Za-z_]+|\*$/g, 'x'))
        const route = found === null ? undefined : routes.get(found.value)
        const way = route?.compiled.info.config
        if (route === undefined || way?.upstream.kind !== 'internal' || way.upstream.name !== name) continue
        led = way
        if (gives(route, operation)) continue
        const { file, line, column } = placeOf(config, way)
        const key = [file, line, column, operation.access].join(' ')
        const list = lacking.get(key) ?? []
        if (!list.some(other => other.operation === operation)) list.push({ route, operation })
        lacking.set(key, list)
      }
      const presets = [operation.mount?.use ?? []].flat()
      const [preset] = presets
      if (preset === undefined || presets.some(each => config.use.includes(each))) continue
      const known = spelled.get(preset) ?? { first: null, missing: [] }
      spelled.set(preset, known)
      if (led === null) known.missing.push(operation)
      else if (!takesEverything(led)) known.first ??= led
    }
  }
  const problems: Problem[] = []
  const warnings: Problem[] = []
  for (const list of lacking.values()) {
    const [first] = list
    const way = first?.route.compiled.info.config
    if (first === undefined || way === null || way === undefined) continue
    const { access, needsPayment } = first.operation
    const isAll = takesEverything(way)
    const more = list.length === 1 ? '' : ` and ${list.length - 1} more`
    const need =
      needsPayment === true
        ? 'a payment; allowed: a price, and a chain with credential and challenge'
        : `${access === 'admin' ? 'the admin key' : "a merchant's key"}; allowed: a chain with { auth: { as: ${access} } }`
    const which = isAll
      ? list.map(({ operation }) => nameOf(operation)).join(', ')
      : `${nameOf(first.operation)}${more}`
    const problem: Problem = {
      code: 'BG_CHAIN_ORDER',
      ...placeOf(config, way),
      path: '',
      message: `found the chain ${JSON.stringify(way.chain)} before ${which}, which needs ${need}`
    }
    if (isAll) warnings.push(problem)
    else problems.push(problem)
  }
  for (const [preset, { first, missing }] of spelled) {
    if (first === null || missing.length === 0) continue
    warnings.push({
      code: 'BG_ROUTE_MISSING',
      ...placeOf(config, first),
      path: '',
      message: `found routes for operations of ${preset}, and none for ${missing.map(nameOf).join(', ')}; allowed: ${preset} in \`use\`, or a route for each that is to be served`
    })
  }
  return { problems, warnings }
}

interface Spelled {
  first: RouteConfig | null
  readonly missing: AnyOperation[]
}

function takesEverything({ match }: RouteConfig): boolean {
  return match.path.every(pattern => pattern === '/*')
}

function nameOf({ method, path }: AnyOperation): string {
  return `${method} ${path}`
}

function placeOf(config: GatewayConfig, route: RouteConfig): Position {
  return route.at.file === config.file ? route.at : (config.chains[route.chain]?.[0]?.at ?? route.at)
}

function gives({ callers, asks }: BuiltRoute, { access, method, path, needsPayment }: AnyOperation): boolean {
  if (needsPayment === true && !asks) return false
  if (access !== 'merchant' && access !== 'admin') return true
  return callers.some(({ kind, when }) => kind === access && alwaysHolds(when, { method: [method], path: [path] }))
}

const METERING_UNAVAILABLE = defineError('BG_METERING_UNAVAILABLE', {
  status: 503,
  title: 'Metering unavailable',
  cause: 'The endpoint sells a balance, and the chain of its route has no `meter` that charges it.',
  fix: 'Add `meter` after `challenge` to the chain named in `message`; `boltgate check` warns about it.'
})

function asking(
  entries: readonly ChainEntryConfig[],
  plugins: ReadonlyMap<string, Plugin>
): readonly ChainEntryConfig[] {
  return entries.filter(
    entry => !entry.disabled && plugins.get(entry.file ?? entry.plugin)?.provides?.includes('challenge') === true
  )
}

export function asksAlways(
  route: RouteConfig,
  entries: readonly ChainEntryConfig[],
  plugins: ReadonlyMap<string, Plugin>
): boolean {
  return (
    (route.price === undefined || !isFree(route.price)) &&
    asking(entries, plugins).some(entry => entry.mode === 'enforce' && alwaysHolds(entry.when, route.match))
  )
}

/**
 * Guards the terminal plugin of every route: rejects any priced request that was not paid for (decision 181), whatever
 * the chain did. Null where the chain only observes payment.
 *
 * Without a plugin's price the route's own price counts; a merchant's proxy is free only if it was looked up.
 */
export function requirePayment(
  route: RouteConfig,
  entries: readonly ChainEntryConfig[],
  plugins: ReadonlyMap<string, Plugin>
): Hooks | null {
  const ask = asking(entries, plugins)
  if (ask.length > 0 && ask.every(entry => entry.mode === 'observe')) return null
  const proxied = route.upstream.kind === 'proxy'
  const price = route.price ?? 0
  const routeIsFree = isFree(price)
  const costsNothing = (ctx: Context): boolean =>
    ctx.offer !== null ? ctx.offer.amountSats === 0 : proxied ? ctx.upstreamTarget !== null : routeIsFree
  return {
    request(ctx) {
      const isOfBalance = ctx.payment?.scheme === 'session' || (ctx.offer !== null && ctx.offer.meter !== null)
      if (ctx.payment !== null && (!isOfBalance || ctx.isReserved)) return
      if (ctx.payment === null && costsNothing(ctx)) return
      const costs =
        ctx.offer === null
          ? proxied
            ? 'a price that was not looked up'
            : priceWords(price)
          : amountWords(ctx.offer.amountSats ?? ctx.offer.fiat ?? 0)
      throw new Error(
        `the chain "${route.chain}" of the route "${route.name}" let a request through that costs ${costs} and was not paid for; nothing was sent on. ` +
          `It needs credential and challenge${route.meter === undefined ? '' : ' and meter'}, each for every request of the route`
      )
    }
  }
}

/**
 * Guards routes of merchants' proxies that ask for payment without a plugin that draws from balances. A balance bought
 * there could never be used, so it is 503 before payment (decision 351). Null where balances are used, or payment is
 * never requested.
 */
export function requireMetering(
  route: RouteConfig,
  entries: readonly ChainEntryConfig[],
  plugins: ReadonlyMap<string, Plugin>
): Hooks | null {
  if (route.upstream.kind !== 'proxy' || asking(entries, plugins).every(entry => entry.mode === 'observe')) return null
  const isMetered = entries.some(
    entry =>
      !entry.disabled &&
      entry.mode === 'enforce' &&
      plugins.get(entry.file ?? entry.plugin)?.provides?.includes('metering') === true &&
      alwaysHolds(entry.when, route.match)
  )
  if (isMetered) return null
  return {
    request(ctx) {
      if (ctx.offer === null || ctx.offer.meter === null) return
      throw new LongError(
        METERING_UNAVAILABLE,
        'Metering unavailable',
        `This endpoint sells a balance, and nothing here takes from it. Nothing was charged. The operator adds meter to the chain "${route.chain}".`
      )
    }
  }
}
