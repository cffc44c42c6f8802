import { testSealer } from '../support/merchants.ts'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import tap, { type Test as T } from 'tap'
import { readChallengeLine } from '../../src/app/commands/mint.ts'
import { openStorefront, type Storefront } from '../../src/shop/open.ts'
import type { Selling } from '../../src/selling/challenges/open.ts'
import type { ChallengeSettings } from '../../src/selling/offers/settings.ts'
import { harness, type HarnessRequest, type HarnessResult } from '../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { gate } from '../../src/accounts/merchants/gate.ts'
import { MerchantStore } from '../../src/accounts/merchants/store.ts'
import { FixedPrices, pricesUnavailable, type Quotes } from '../../src/lightning/money/prices.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { systemRandom } from '../../src/platform/system/ids.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { assetOperations } from '../../src/web/kit/assets.ts'
import { FORM_TYPE } from '../../src/web/kit/form.ts'
import type { Mail } from '../../src/web/mail/mail.ts'
import { Metrics } from '../../src/platform/telemetry/metrics.ts'
import { ClaimStore } from '../../src/shop/orders/claims.ts'
import { IntegrationStore } from '../../src/shop/stores/integration-store.ts'
import { OrderStore } from '../../src/shop/orders/store.ts'
import type { Integration, Order } from '../../src/shop/schema.ts'
import { fixtureOn, freshAddress, type FakePayee } from '../selling/challenges/fixture.ts'
import { flaky, type FlakyDatabase } from '../faults/flaky-database.ts'
import { openAnyDatabase } from '../support/database.ts'
import { credentialOf } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { FakeJobs } from '../payments/webhooks/fake-jobs.ts'
import { MUG, SOCKS, TestPlatform } from './test-platform.ts'

export type Json = Record<string, unknown>

export interface Answered extends HarnessResult {
  /** The body, where it is a JSON object. */
  readonly data: Json
}

export type Send = (
  method: string,
  path: string,
  request?: {
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: object | string
    readonly from?: string
  }
) => Promise<Answered>

/** A checkout that waits for payment. */
export interface Unpaid {
  readonly answer: Answered
  readonly orderId: string
  readonly paymentHash: string
  /** Pays the invoice; answers the value of Authorization. Again without paying again. */
  pay(scheme?: 'l402' | 'payment' | 'legacy'): string
}

export const BODY = Object.freeze({
  items: [
    { variantId: MUG, quantity: 2 },
    { variantId: SOCKS, quantity: 1 }
  ]
})
export const LOCATION = 'US-CA-94103'
export const ADDRESS = Object.freeze({
  firstName: 'Ada',
  lastName: 'Lovelace',
  address1: '12 Analytical Way',
  city: 'San Francisco',
  province: 'CA',
  zip: '94103',
  country: 'US'
})
export const EMAIL = 'ada@example.com'
export const PUBLIC_URL = 'https://gateway.example'
export const DAY = 86_400_000

/** The public shop over a test's own platform: every request goes through the operations' schemas. */
export interface Shop {
  readonly database: FlakyDatabase
  readonly clock: ManualClock
  readonly platform: TestPlatform
  readonly payee: FakePayee
  readonly mails: Mail[]
  /** Every failed order that the merchant was notified of. */
  readonly failed: Order[]
  readonly selling: Selling
  readonly storefront: Storefront
  readonly integration: Integration
  readonly orders: OrderStore
  readonly prices: { fails: boolean; price: string }
  /** Set to have the database lose what is written of mails. */
  mailFault: Error | null
  readonly send: Send
  /** Base of the store's own API. */
  readonly base: string
  checkout(request?: {
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: object | string
    readonly from?: string
  }): Promise<Answered>
  unpaid(body?: object): Promise<Unpaid>
  /** A paid order that waits for its address. */
  paid(body?: object): Promise<{
    readonly orderId: string
    readonly claimToken: string
    readonly authorization: string
    readonly paymentHash: string
  }>
  claim(body: object, headers?: Readonly<Record<string, string>>): Promise<Answered>
  /** The provider says that an invoice was paid. */
  settle(paymentHash: string): Promise<void>
  status(orderId: string, claimToken: string): Promise<Answered>
  /** The claim page, or what is returned to its form. */
  page(claimToken: string, form?: Readonly<Record<string, string>>): Promise<Answered>
  change(change: (integration: Integration) => Integration): Promise<void>
  deactivateMerchant(): Promise<void>
  /** The merchant has a paid plan whose subscription was canceled. */
  cancelSubscription(): Promise<void>
  /** Another gateway on the same database, platform and clock. */
  another(): Promise<{ readonly storefront: Storefront; readonly send: Send }>
}

/** What a browser sends for a page, or with its form. */
export function pageRequest(path: string, form?: Readonly<Record<string, string>>): Parameters<Send> {
  return form === undefined
    ? ['GET', path]
    : ['POST', path, { headers: { 'content-type': FORM_TYPE }, body: String(new URLSearchParams(form)) }]
}

/** The shop in HTTP, with the styles and scripts of its pages; answers its address. */
export async function serveShop(t: T, { send }: Pick<Shop, 'send'>): Promise<string> {
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request)
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
      const answer = await send(request.method ?? '', request.url ?? '', { headers, ...(body === '' ? {} : { body }) })
      response.writeHead(answer.status, [...answer.headers.pairs]).end(answer.text)
    })()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo) /* of TCP */.port}`
}

let shared: Promise<Database> | null = null
let stores = 0

/** A body of a claim. */
export function claimBody(claimToken: string | null, changes: object = {}): object {
  return { ...(claimToken === null ? {} : { claimToken }), email: EMAIL, shippingAddress: ADDRESS, ...changes }
}

/** The claim token in an answer's claimPageUrl. */
export function tokenOf(answer: Answered): string {
  return new URL(textOf(answer, 'claimPageUrl')).searchParams.get('claimToken') ?? ''
}

/** A member of an answer that must be text. */
export function textOf({ data }: Answered, name: string): string {
  const value = data[name]
  if (typeof value !== 'string') throw new Error(`${name} is no text: ${JSON.stringify(data)}`)
  return value
}

/** A store of its own with a clock of its own, over a database that the tests of one file share. */
export async function openShop(t: T, changes: Partial<ChallengeSettings> = {}): Promise<Shop> {
  shared ??= openAnyDatabase(tap)
  const database = flaky(await shared)
  const clock = new ManualClock()
  const { selling, payee, another } = fixtureOn(t, database, clock, changes)
  stores++
  const merchants = new MerchantStore(database)
  const { id: merchantId } = await merchants.insert(
    {
      id: await merchants.nextId(),
      name: 'Corner',
      email: `corner-${process.pid}-${stores}@example.com`,
      keyId: `key${process.pid}x${stores}`,
      keyDigest: Buffer.alloc(32),
      planTier: 'free',
      isActive: true,
      subscriptionStatus: 'active',
      refundsEnabled: false,
      multiCurrencyEnabled: false,
      l402Enabled: false
    },
    clock.now()
  )
  const integrations = new IntegrationStore(database)
  const nothing = () => Promise.resolve()
  const slug = `corner-${stores}`
  const integration: Integration = {
    id: await integrations.nextId(),
    merchantId,
    slug,
    platform: 'sandbox',
    storefrontDomain: 'corner.example',
    shopHandle: 'corner',
    shopName: 'Corner shop',
    shopCountry: 'US',
    clientId: null,
    clientSecret: null,
    adminApiToken: null,
    shipping: { domesticCents: 490, domesticOnly: false, freeEnabled: false, freeThresholdCents: null },
    defaultTaxLocation: 'US-NY-10001',
    listInRegistry: false,
    registryCategories: null,
    registryDescription: null,
    claimWindowDays: 30,
    isActive: true,
    createdAt: clock.now(),
    updatedAt: clock.now()
  }
  await integrations.insert(integration, nothing)

  const platform = new TestPlatform()
  const prices = { fails: false, price: '100000' }
  const quotes: Pick<Quotes, 'quote'> = {
    quote: currency =>
      prices.fails
        ? Promise.reject(pricesUnavailable(9))
        : new FixedPrices({ USD: prices.price, EUR: '1', GBP: '1' }, clock).quote(currency)
  }
  const mails: Mail[] = []
  const failed: Order[] = []
  const jobs = new FakeJobs(database, clock)
  await jobs.start()
  const open = async (gateway: Selling) => {
    const storefront = openStorefront({
      ...gateway,
      platform,
      merchants: { byId: id => merchants.byId(id) },
      gate: { refusal: gate },
      prices: quotes,
      jobs,
      database,
      sealer: testSealer,
      clock,
      random: systemRandom,
      log: silentLog,
      metrics: new Metrics(),
      orderFailed: async (_sql, order) => {
        failed.push(order)
      },
      outbox: {
        queue: async (_sql, mail) => {
          if (shop.mailFault !== null) throw shop.mailFault
          mails.push(mail)
        }
      },
      publicUrl: () => PUBLIC_URL
    })
    jobs.declare(storefront.jobs)
    const upstream = new InternalUpstream([...storefront.operations, ...assetOperations()])
    const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
    const send: Send = async (method, target, { headers = {}, body, from = freshAddress() } = {}) => {
      const request: HarnessRequest = {
        method,
        target,
        peerAddress: from,
        headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) })
      }
      const result = await chain.run(request)
      // Only objects are looked into.
      return { ...result, data: result.text.startsWith('{') ? (result.json() as Json) : {} }
    }
    return { storefront, send }
  }
  const base = `/api/storefront/${slug}`
  const here = await open(selling)
  const shop: Shop = {
    database,
    clock,
    platform,
    payee,
    mails,
    failed,
    selling,
    integration,
    prices,
    base,
    mailFault: null,
    ...here,
    orders: new OrderStore(database),
    checkout: ({ headers = {}, body = BODY, ...rest } = {}) =>
      here.send('POST', `${base}/checkout`, { headers: { 'x-buyer-location': LOCATION, ...headers }, body, ...rest }),
    unpaid: async (body = BODY) => {
      const answer = await shop.checkout({ body })
      if (answer.status !== 402) throw new Error(`expected a 402, got ${answer.status}: ${answer.text}`)
      return {
        answer,
        orderId: textOf(answer, 'orderId'),
        paymentHash: textOf(answer, 'paymentHash'),
        pay: (scheme = 'l402') => {
          const preimage = payee.pay(textOf(answer, 'invoice'))
          if (scheme === 'legacy') return `Payment method="lightning", preimage="${preimage}"`
          const line = answer.headers
            .all('www-authenticate')
            .map(readChallengeLine)
            .find(found => found?.scheme === scheme)
          if (line === undefined || line === null) throw new Error(`no line of ${scheme}`)
          return credentialOf(line, preimage)
        }
      }
    },
    paid: async body => {
      const order = await shop.unpaid(body)
      const authorization = order.pay()
      const answer = await shop.checkout({ headers: { authorization } })
      if (answer.status !== 200) throw new Error(`expected a 200, got ${answer.status}: ${answer.text}`)
      return { orderId: order.orderId, paymentHash: order.paymentHash, claimToken: tokenOf(answer), authorization }
    },
    claim: (body, headers = {}) => here.send('POST', `${base}/claim`, { headers, body }),
    settle: paymentHash => selling.settlements.settled(paymentHash),
    status: (orderId, claimToken) =>
      here.send('GET', `${base}/orders/${orderId}?claimToken=${encodeURIComponent(claimToken)}`),
    page: (claimToken, form) => here.send(...pageRequest(`/storefront/${slug}/claim?claimToken=${claimToken}`, form)),
    change: async change => {
      await integrations.update(merchantId, held => ({ ...change(held), updatedAt: held.updatedAt + 1 }), nothing)
    },
    deactivateMerchant: async () => {
      await database.sql`update merchants set is_active = false where id = ${merchantId}`
    },
    cancelSubscription: async () => {
      await database.sql`update merchants set plan_tier = 'individual', subscription_status = 'canceled' where id = ${merchantId}`
    },
    another: () => open(another('gateway-2').selling)
  }
  return shop
}

/** What is kept of claims. */
export function claimsOf(shop: Shop): ClaimStore {
  return new ClaimStore(shop.database)
}
