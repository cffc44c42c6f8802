import { amountWords, isFree, priceWords } from '../checks/price.ts'
import { alwaysHolds } from '../checks/sale.ts'
import type { ChainEntryConfig, RouteConfig } from '../config/schema.ts'
import type { Context } from '../message/context.ts'
import { LongError } from '../operations/errors.ts'
import type { Hooks, Plugin } from './plugin.ts'
import { defineError } from '../../platform/system/errors.ts'

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
            ? 'a price that nobody looked up'
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
