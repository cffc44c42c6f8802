import type { Test as T } from 'tap'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { startFakeShopify } from '../fakes/shopify.ts'
import { defaultYaml, startGateway, paidFor } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { inTimeOf } from '../support/passing-time.ts'
import { json } from './shop-front.ts'

export const SLUG = 'goods'
/** How long one call to the platform may take, in milliseconds. */
export const PATIENCE = 10_000
/** Longer than the platform's search is behind, in milliseconds. */
export const LAG = 31_000
/** How long a catalog is served, in milliseconds. */
export const FRESH = 300_000

/** Where the goods go; New York taxes 8.875 %. */
export const ADDRESS = Object.freeze({
  firstName: 'Ada',
  lastName: 'Byron',
  address1: '1 Main Street',
  city: 'New York',
  province: 'NY',
  zip: '10001',
  country: 'United States'
})
const LOCATION = { 'x-buyer-location': 'US-NY-10001' }

type Items = ReadonlyArray<{ readonly variantId: number; readonly quantity: number }>

/** A paid, unclaimed order. */
export interface Bought {
  readonly orderId: string
  readonly claimToken: string
  readonly authorization: string
}

/**
 * A merchant's store on a whole gateway, over the fake platform: the merchant names domain and app, and the platform gets
 * the webhook addresses.
 */
export async function openCounter(t: T) {
  const clock = new ManualClock(Date.now())
  const fake = await startFakeShopify({ clock })
  t.teardown(() => fake.close())
  const yaml = defaultYaml({
    replace: [['storefront: { kind: sandbox }', `storefront: { kind: shopify, url: "${fake.url}" }`]]
  })
  const gateway = await startGateway(t, { yaml, clock, closesConnections: true })
  const jobs = new JobTable(gateway.database)
  json(
    await gateway.merchantSend('POST', '/api/merchant/storefront', {
      slug: SLUG,
      storefrontDomain: fake.shop.domain,
      clientId: fake.clientId,
      clientSecret: fake.clientSecret,
      domesticShippingUsd: 5
    }),
    201
  )
  const base = `/api/storefront/${SLUG}`
  const all: Bought[] = []
  const mugs = () => [{ variantId: fake.shop.variantOf('Enamel Mug').id, quantity: 2 }]
  const checkout = (items: Items = mugs(), headers: Readonly<Record<string, string>> = {}) =>
    gateway.send('POST', `${base}/checkout`, { headers: { ...LOCATION, ...headers }, body: { items } })
  /** Lets time go on while something waits for it. */
  const inTime = <R>(doing: Promise<R>) => inTimeOf(gateway, clock, doing)
  return {
    gateway,
    fake,
    clock,
    /** Everything that was bought here. */
    bought: all as readonly Bought[],
    checkout,
    /** Checks out, pays, and fetches the claim token. */
    buy: async (items?: Items): Promise<Bought> => {
      const unpaid = await checkout(items)
      const { orderId } = json(unpaid, 402)
      const authorization = await paidFor(gateway, unpaid)
      const paid = json(await checkout(items, { authorization }), 200)
      const bought = {
        orderId: String(orderId),
        claimToken: new URL(String(paid['claimPageUrl'])).searchParams.get('claimToken') ?? '',
        authorization
      }
      all.push(bought)
      return bought
    },
    claim: ({ claimToken }: Pick<Bought, 'claimToken'>) =>
      gateway.send('POST', `${base}/claim`, {
        body: { claimToken, email: 'buyer@example.com', shippingAddress: ADDRESS }
      }),
    /** The order as its buyer reads it. */
    status: async ({ orderId, claimToken }: Bought) =>
      json(await gateway.send('GET', `${base}/orders/${orderId}?claimToken=${claimToken}`), 200),
    /** What the platform has of an order. */
    ordersOf: ({ orderId }: Bought) => fake.shop.orders.filter(({ input }) => input.sourceIdentifier === orderId),
    inTime,
    /** A periodic job has its turn now and then until `look` answers something. */
    afterJob: <R>(what: string, job: string, look: () => Promise<R | null>) =>
      inTime(
        eventually(what, async () => {
          const found = await look()
          if (found !== null) return found
          await jobs.bringForward(job)
          return null
        })
      )
  }
}

export type Counter = Awaited<ReturnType<typeof openCounter>>
