import type { ChallengeCounters } from '../selling/holding/counters.ts'
import type { Settlements } from '../selling/holding/settlements.ts'
import type { GatewayConfig } from '../engine/config/schema.ts'
import type { AnyOperation } from '../engine/operations/operation.ts'
import { decodeInvoice } from '../lightning/codecs/bolt11.ts'
import type { Outbox } from '../web/mail/outbox.ts'
import type { SubscriptionGate } from '../accounts/merchants/gate.ts'
import type { Merchants } from '../accounts/merchants/service.ts'
import type { Quotes } from '../lightning/money/prices.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Database, TransactionSql } from '../platform/database/database.ts'
import { randomToken } from '../platform/system/ids.ts'
import { periodic, type Jobs } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import type { Sealer } from '../platform/keys/secrets.ts'
import { readDestination } from '../payments/refunds/destination.ts'
import { isGivenBack } from '../payments/refunds/store.ts'
import { storefrontAdminOperations, storefrontMerchantOperations } from './merchant-operations.ts'
import { Catalogs } from './catalogs.ts'
import { Checkout, type CheckoutOptions, type StoreStatus } from './checkout.ts'
import { ClaimStore, OrderClaims } from './orders/claims.ts'
import { ShopCredentials, type ShopCredentialsOptions } from './credentials.ts'
import { Fulfilments } from './orders/fulfilments.ts'
import { IntegrationStore } from './stores/integration-store.ts'
import { Storefronts } from './stores/integrations.ts'
import { OrderHolds } from './orders/holds.ts'
import { OrderSources, RefundRequests } from './orders/refunds.ts'
import { OrderPlacement } from './orders/placement.ts'
import { OrderStore, type ShopServices } from './orders/store.ts'
import { Orders } from './orders/orders.ts'
import { payableOrders } from './pages/buying.ts'
import { storefrontPageOperations } from './pages/operations.ts'
import { PaidOrders } from './orders/paid-orders.ts'
import { CALL_TIMEOUT, type StorePlatform } from './platform.ts'
import { storefrontPublicOperations } from './public-operations.ts'
import { openSandboxShop } from './sandbox/sandbox.ts'
import type { Integration, Order } from './schema.ts'
import { openShopify } from './shopify/shopify.ts'
import type { OutboundCall } from '../engine/upstream/outbound.ts'

interface OpenStorefrontOptions
  extends
    Omit<ShopCredentialsOptions, 'counters'>,
    Omit<ShopServices, 'orders' | 'stores'>,
    Pick<CheckoutOptions, 'challengeStore' | 'minting'> {
  readonly counters: ChallengeCounters
  readonly settlements: Settlements
  readonly gate: SubscriptionGate
  readonly merchants: Pick<Merchants, 'byId'>
  readonly prices: Pick<Quotes, 'quote'>
  readonly outbox: Pick<Outbox, 'queue'>
  /** Notifies the merchant of a paid order that the shop did not make. */
  orderFailed(sql: TransactionSql, order: Order): Promise<void>
  readonly metrics: Metrics
  readonly jobs: Jobs
  publicUrl(): string
}

export type Storefront = ReturnType<typeof openStorefront>

const SECOND = 1_000
/** Shopify supports a version for a year; the queries are checked against this one. */
const SHOPIFY_VERSION = '2026-10'

export function openPlatform(
  { storefront }: Pick<GatewayConfig, 'storefront'>,
  around: {
    readonly database: Database
    readonly clock: Clock
    readonly log: Log
    readonly call: OutboundCall
  }
): StorePlatform {
  return storefront.kind === 'sandbox'
    ? openSandboxShop(around)
    : openShopify({
        ...around,
        config: { url: storefront.url, apiVersion: SHOPIFY_VERSION, timeout: CALL_TIMEOUT }
      })
}

export function openStorefront(options: OpenStorefrontOptions) {
  const { gate, merchants, database, clock } = options
  const stores = new Storefronts({ ...options, store: new IntegrationStore(database) })
  const around = { ...options, stores, orders: new OrderStore(database) }
  const standing = async (integration: Integration): Promise<StoreStatus> => {
    const merchant = integration.isActive ? await merchants.byId(integration.merchantId) : null
    if (merchant === null || !merchant.isActive) return 'closed'
    return (await gate.refusal(merchant, null, clock.now())) === null ? 'selling' : 'lapsed'
  }

  const claimStore = new ClaimStore(database)
  const catalogs = new Catalogs(around)
  const credentials = new ShopCredentials(options)
  const failures = options.metrics.counter(
    'boltgate_store_orders_failed_total',
    'Paid orders of stores that their shop did not make, by reason: each reason of an order once.',
    ['reason']
  )
  const onFailed = async (sql: TransactionSql, order: Order): Promise<void> => {
    if (order.failure === null) return
    await options.orderFailed(sql, order)
    failures.inc({ reason: order.failure.reason })
  }
  const paid = new PaidOrders({
    ...around,
    sold: order => {
      options.counters.payment('storefront', 'invoice', order.totalSats)
    }
  })
  const placement = new OrderPlacement({ ...around, claims: claimStore, isGivenBack, onFailed })
  const claims = new OrderClaims({ ...around, paid, placement, credentials })
  const orders = new Orders({ ...around, claims: claimStore, placement, paid })
  const checkout = new Checkout({ ...around, credentials, catalogs, paid, standing })
  const fulfilments = new Fulfilments(around)
  const holds = new OrderHolds(around)

  options.settlements.onSettled('storefront', paid.settled)
  /** Null for a closed store; the goods of one whose merchant has lapsed are still shown. */
  const open = async (slug: string): Promise<Integration | null> => {
    const integration = await stores.bySlug(slug)
    return integration !== null && (await standing(integration)) !== 'closed' ? integration : null
  }
  const refundRequests = new RefundRequests({
    ...around,
    readAddress: async (text, order, now) => {
      const challenge = await options.claims.find(order.paymentHash)
      if (challenge === null) throw new TypeError(`order ${order.id} has no challenge`)
      const type = /^ln/i.test(text) ? 'ln' : 'chain'
      return { type, ...readDestination(type, text, decodeInvoice(challenge.invoice).network, now) }
    }
  })
  const services = { ...options, catalogs, checkout, claims, orders, fulfilments, refundRequests, selling: open }
  const operations: AnyOperation[] = [
    ...storefrontPublicOperations(services),
    ...storefrontMerchantOperations({ storefronts: stores, orders }),
    ...storefrontPageOperations(services),
    ...storefrontAdminOperations(orders)
  ]
  return {
    payables: payableOrders({ ...around, paid }),
    refundSources: new OrderSources({ ...around, placement }),
    listed: async () =>
      (await stores.listed()).map(({ slug, registryDescription }) => ({ slug, description: registryDescription })),
    holds,
    storefronts: stores,
    catalogs,
    checkout,
    claims,
    orders,
    placement,
    fulfilments,
    operations,
    jobs: [
      ...stores.jobs,
      periodic(
        'storefront-holds',
        20 * SECOND,
        'Has shops hold the goods of paid orders until they are claimed',
        () => holds.run(),
        { expiry: 300 * SECOND }
      ),
      periodic(
        'storefront-fulfilments',
        20 * SECOND,
        'Asks shops how far claimed orders are',
        () => fulfilments.poll(),
        {
          expiry: 300 * SECOND
        }
      ),
      periodic(
        'storefront-claims',
        30 * SECOND,
        'Looks for orders that shops may have taken without saying so',
        () => placement.followUp(),
        { expiry: 300 * SECOND }
      ),
      periodic('storefront-purge', 3600 * SECOND, 'Deletes orders that can no longer be read', () => orders.purge())
    ]
  }
}

interface Around {
  readonly clock: Clock
  readonly database: Database
  readonly sealer: Sealer
  readonly publicUrl: string
}

/**
 * Opens a sandbox store for the first merchant, to have something to buy. Does nothing where the merchant has a store
 * or the slug is taken. Call it from one process.
 */
export async function openFirstStore(
  { clock, database, sealer, publicUrl }: Around,
  merchantId: number,
  slug: string
): Promise<void> {
  const storefronts = new Storefronts({
    store: new IntegrationStore(database),
    sealer,
    clock,
    platform: openSandboxShop({ database, clock }),
    // The sandbox sends no notifications.
    jobs: null,
    publicUrl: () => publicUrl
  })
  if ((await storefronts.ofMerchant(merchantId)) !== null || (await storefronts.bySlug(slug)) !== null) return
  await storefronts.create(merchantId, {
    slug,
    storefrontDomain: 'demo.example.com',
    adminApiToken: `sandbox-${randomToken(12)}`,
    domesticShippingUsd: 4.9,
    freeShippingEnabled: true,
    freeShippingThresholdUsd: 50,
    listInRegistry: true,
    registryDescription: 'The shop of the sandbox: a few goods to try a purchase with'
  })
}
