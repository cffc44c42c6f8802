import { Agent } from 'undici'
import type { Test as T } from 'tap'
import { localAddress, portOf } from '../../src/engine/config/listen-address.ts'
import { loadConfigText } from '../../src/engine/config/load.ts'
import { compile } from '../../src/engine/pipeline/compile.ts'
import { LongError, Unavailable, type GatewayError } from '../../src/engine/operations/errors.ts'
import { Gateway } from '../../src/engine/pipeline/gateway.ts'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { openApiDocument } from '../../src/engine/openapi/openapi.ts'
import type { Services } from '../../src/engine/pipeline/plugin.ts'
import { defaultLimits } from '../../src/engine/listener/deadlines.ts'
import { createListener } from '../../src/engine/listener/listener.ts'
import { assetOperations } from '../../src/web/kit/assets.ts'
import { systemClock } from '../../src/platform/system/clock.ts'
import { UnsealError } from '../../src/platform/keys/secrets.ts'
import { freshId } from '../../src/platform/system/ids.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { builtInPlugins } from '../../src/app/plugins.ts'
import { storefrontPageOperations, type StorefrontPageOptions } from '../../src/shop/pages/operations.ts'
import type { Catalog } from '../../src/shop/platform.ts'
import type { Integration, Order } from '../../src/shop/schema.ts'
import { sender, type Answer, type Send } from '../support/gateway.ts'
import { OpenApiCheck } from '../support/openapi-check.ts'

const YAML = `
mode: development
server: { listen: "127.0.0.1:0" }
data: /nowhere
chains:
  pages: [ correlation, body-limit ]
routes:
  - match: { path: [ /storefront/*, /assets/* ] }
    chain: pages
    upstream: { internal: api }
`

const PAID_AT = Date.parse('2026-11-21T09:05:00Z')

/** An order of two lines that is paid and not claimed, but for what is said. */
export function anOrder(more: Partial<Order> = {}): Order {
  return {
    id: 'ord_00000000000000a1',
    storefrontId: 7,
    merchantId: 1,
    paymentHash: 'ab'.repeat(32),
    status: 'PaidAwaitingDetails',
    items: [
      {
        variantId: 10101,
        productTitle: 'Coin mug',
        variantTitle: 'Small',
        quantity: 2,
        priceCents: 1250,
        requiresShipping: true
      },
      {
        variantId: 10301,
        productTitle: 'Sticker pack',
        variantTitle: 'Default Title',
        quantity: 1,
        priceCents: 420,
        requiresShipping: true
      }
    ],
    location: { country: 'US', state: 'CA', zip: '94110' },
    subtotalCents: 2920,
    shippingCents: 500,
    taxCents: 248,
    tax: { lines: [], isIncluded: false },
    totalCents: 3668,
    totalSats: 36_680,
    email: 'ada@example.org',
    claimToken: null,
    claimExpiresAt: Date.parse('2026-12-21T09:00:00Z'),
    claimedAt: null,
    platformOrderId: null,
    orderNumber: null,
    tracking: { number: null, carrier: null, url: null },
    createdAt: PAID_AT - 60_000,
    paidAt: PAID_AT,
    fulfilledAt: null,
    failure: null,
    canceledAt: null,
    refundRequest: null,
    refundedAt: null,
    shippedAt: null,
    ...more
  }
}

/** A store in the United States that ships everywhere for five dollars, but for what is said. */
export function anIntegration(more: Partial<Integration> = {}): Integration {
  return {
    id: 7,
    merchantId: 1,
    slug: 'mugs',
    platform: 'sandbox',
    storefrontDomain: 'mugs.example.com',
    shopHandle: 'mugs',
    shopName: 'Corner Mugs',
    shopCountry: 'US',
    shipping: { domesticCents: 500, domesticOnly: false, freeEnabled: true, freeThresholdCents: 5000 },
    defaultTaxLocation: null,
    listInRegistry: false,
    registryCategories: null,
    registryDescription: null,
    claimWindowDays: 30,
    isActive: true,
    createdAt: 0,
    updatedAt: 0,
    clientId: null,
    clientSecret: null,
    adminApiToken: null,
    ...more
  }
}

/** Two products, one of which is sold out. */
export const CATALOG: Catalog = {
  storeName: 'Corner Mugs',
  products: [
    {
      productId: 101,
      title: 'Coin mug',
      description: 'A stoneware mug with an orange coin on its side. Holds coffee, not keys.',
      imageUrl: null,
      variants: [
        { variantId: 10101, title: 'Small', priceCents: 1250, available: true },
        { variantId: 10102, title: 'Large', priceCents: 1590, available: false }
      ]
    },
    {
      productId: 103,
      title: 'Sticker pack',
      description: 'Twelve stickers.',
      imageUrl: null,
      variants: [{ variantId: 10301, title: 'Default Title', priceCents: 420, available: false }]
    }
  ]
}

/** A form that can be claimed with. */
export const GOOD: Readonly<Record<string, string>> = {
  email: 'ada@example.org',
  firstName: 'Ada',
  lastName: 'Lovelace',
  country: 'US',
  address1: '1 Market St',
  address2: '',
  city: 'San Francisco',
  province: 'CA',
  zip: '94110',
  phone: ''
}

type ClaimInput = Parameters<StorefrontPageOptions['claims']['claim']>[1]

/** What the pages know, in memory, and the means to change it. */
export class PageWorld {
  integration = anIntegration()
  catalog: Catalog | GatewayError = CATALOG
  readonly claimed: ClaimInput[] = []
  /** What the next claims are refused with. */
  refusal: GatewayError | null = null
  /** Nothing can be read; a claim that fails for it sets it. */
  away = false
  /** Claims wait for it. */
  gate: Promise<void> = Promise.resolve()
  readonly #orders = new Map<string, Order>()
  #count = 0

  /** A new order; answers its token. */
  add(more: Partial<Order> = {}): string {
    const token = String(++this.#count).padStart(43, 'T')
    this.#orders.set(token, anOrder({ id: `ord_${String(this.#count).padStart(16, '0')}`, ...more }))
    return token
  }

  change(token: string, more: Partial<Order>): void {
    this.#orders.set(token, { ...this.order(token), ...more })
  }

  forget(token: string): void {
    this.#orders.delete(token)
  }

  order(token: string): Order {
    const order = this.#orders.get(token)
    if (order === undefined) throw new Error('there is no such order')
    return order
  }

  readonly parts: StorefrontPageOptions = {
    buying: {
      checkout: {
        order: async () => {
          throw new Unavailable('Service unavailable', 'Not in this world.')
        }
      },
      orders: { byPaymentHash: async () => null },
      paid: { claimPageUrl: () => null },
      sealer: {
        seal: text => text,
        open: () => {
          throw new UnsealError('not in this world')
        }
      },
      clock: systemClock,
      stores: { bySlug: async () => this.integration },
      challenges: { find: async () => null },
      publicUrl: () => 'https://gateway.example'
    },
    orders: {
      byClaimToken: async (slug, token) => {
        if (this.away) throw new Unavailable('Service unavailable', 'secret words')
        return this.#find(slug, token)
      }
    },
    claims: {
      claim: async (slug, input) => {
        await this.gate
        if (this.refusal !== null) {
          this.away = this.refusal instanceof Unavailable
          throw this.refusal
        }
        const token = input.claimToken ?? ''
        const found = this.#find(slug, token)
        if (found === null) throw new LongError(404, 'Order not found', 'There is none.')
        if (found.order.claimedAt !== null) throw new LongError(400, 'Already claimed', 'The order was claimed before.')
        this.claimed.push(input)
        this.change(token, {
          status: 'PaidWithDetails',
          claimedAt: PAID_AT + 600_000,
          orderNumber: '#1001',
          platformOrderId: 'p1',
          email: input.email
        })
        return { order: this.order(token), integration: this.integration, challengeId: null }
      }
    },
    refundRequests: {
      ask: async (slug, token, address) => {
        if (this.refusal !== null) throw this.refusal
        if (this.#find(slug, token) === null) throw new LongError(404, 'Order not found', 'There is none.')
        this.change(token, { refundRequest: { address, type: 'chain', at: PAID_AT } })
        return this.order(token)
      }
    },
    selling: async slug => (slug === this.integration.slug ? this.integration : null),
    catalogs: {
      get: async () => {
        if (this.catalog instanceof Error) throw this.catalog
        return this.catalog
      }
    },
    publicUrl: () => 'https://gateway.example'
  }

  #find(slug: string, token: string) {
    const order = this.#orders.get(token)
    return order === undefined || slug !== this.integration.slug ? null : { order, integration: this.integration }
  }
}

/** The pages over HTTP. */
export interface ServedPages {
  readonly url: string
  /** Answers are held against the OpenAPI document. */
  readonly send: Send
  /** Sends a claim page's form; text goes as it is. */
  post(token: string, form: Readonly<Record<string, string>> | string): Promise<Answer>
  get(token: string): Promise<Answer>
}

/** Serves them until the test ends, by the engine and listener that the gateway has. */
export async function servePages(t: T, world: PageWorld): Promise<ServedPages> {
  const config = await loadConfigText('gateway.yaml', YAML, {}, { plugins: builtInPlugins, internals: ['api'] })
  const operations = [...storefrontPageOperations(world.parts), ...assetOperations()]
  // The plugins of this chain use no other service.
  const services = { clock: systemClock, log: silentLog } as unknown as Services
  const gateway = new Gateway(
    await compile(config, {
      services,
      plugins: builtInPlugins,
      internals: new Map([['api', new InternalUpstream(operations)]]),
      generation: 1
    })
  )
  const listener = createListener({
    limits: { ...defaultLimits, ...config.server.limits },
    trustedProxies: [],
    clock: systemClock,
    freshId,
    handle: (ctx, wire) => {
      gateway.handle(ctx, wire)
    },
    refused: () => {},
    failed: error => {
      throw error
    }
  })
  await listener.listen(localAddress())
  const agent = new Agent({ keepAliveTimeout: 1000 })
  t.teardown(async () => {
    await agent.destroy()
    await listener.drain(100)
    await gateway.close()
  })
  const url = `http://127.0.0.1:${portOf(listener.addresses)}`
  const check = new OpenApiCheck(
    openApiDocument(operations, { title: 'test', description: 'test', publicUrl: url, pricedRoutes: [] })
  )
  const send = sender(url, agent, answered => {
    check.check(answered)
  })
  const pathOf = (token: string) => `/storefront/mugs/claim?claimToken=${token}`
  return {
    url,
    send,
    post: (token, form) =>
      send('POST', pathOf(token), {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: typeof form === 'string' ? form : new URLSearchParams({ ...form }).toString()
      }),
    get: token => send('GET', pathOf(token))
  }
}
