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
import { type Random, randomToken } from '../platform/system/ids.ts'
import { periodic, type Jobs } from '../platform/jobs/jobs.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import { UnsealError, type Sealer } from '../platform/keys/secrets.ts'
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
import { OrderStore } from './orders/store.ts'
import { Orders } from './orders/orders.ts'
import { storefrontPageOperations } from './pages/operations.ts'
import { PaidOrders } from './orders/paid-orders.ts'
import { StorePlatformError, type StoreAccess, type StorePlatform } from './platform.ts'
import { storefrontPublicOperations } from './public-operations.ts'
import { openSandboxShop } from './sandbox/sandbox.ts'
import type { Integration, Order } from './schema.ts'
import { openShopify } from './shopify/shopify.ts'
import type { OutboundCall } from '../engine/upstream/outbound.ts'

interface OpenStorefrontOptions
  extends Omit<ShopCredentialsOptions, 'counters'>, Pick<CheckoutOptions, 'challengeStore' | 'minting'> {
  readonly counters: ChallengeCounters
  readonly settlements: Settlements
  readonly platform: StorePlatform
  readonly gate: SubscriptionGate
  readonly merchants: Pick<Merchants, 'byId'>
  readonly prices: Pick<Quotes, 'quote'>
  readonly outbox: Pick<Outbox, 'queue'>
  /** Notifies the merchant of a paid order that the shop did not make. */
  orderFailed(sql: TransactionSql, order: Order): Promise<void>
  readonly metrics: Metrics
  readonly jobs: Jobs
  readonly database: Database
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  config(): Pick<GatewayConfig, 'storefront'>
  publicUrl(): string
}

export type Storefront = ReturnType<typeof openStorefront>

const SECOND = 1_000
/** Shopify supports a version for a year; the queries are checked against this one. */
const SHOPIFY_VERSION = '2026-10'
/** Milliseconds for one call to the platform. */
const CALL_TIMEOUT = 10 * SECOND
/** Milliseconds for which a catalog is cached. */
const CATALOG_TTL = 300 * SECOND
/** Milliseconds in which the invoice of a checkout can be paid (contract, Limits). */
const INVOICE_EXPIRY = 600 * SECOND

export function openPlatform(
  { storefront }: Pick<GatewayConfig, 'storefront'>,
  around: { readonly database: Database; readonly clock: Clock; readonly log: Log; readonly call: OutboundCall }
): StorePlatform {
  return storefront.kind === 'sandbox'
    ? openSandboxShop(around)
    : openShopify({
        ...around,
        config: { url: storefront.url, apiVersion: SHOPIFY_VERSION, timeout: CALL_TIMEOUT }
      })
}

export function openStorefront(options: OpenStorefrontOptions) {
  const { platform, gate, merchants, database, sealer, clock, random, log, publicUrl, jobs } = options
  const storefronts = new Storefronts({
    store: new IntegrationStore(database),
    sealer,
    clock,
    platform,
    jobs,
    publicUrl
  })
  const access = (integration: Integration): StoreAccess => {
    try {
      return storefronts.access(integration)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      throw new StorePlatformError('credentials', 'the credentials of the store cannot be opened', { cause: error })
    }
  }
  const bySlug = (slug: string) => storefronts.bySlug(slug)
  const byId = (id: number) => storefronts.byId(id)
  const standing = async (integration: Integration): Promise<StoreStatus> => {
    const merchant = integration.isActive ? await merchants.byId(integration.merchantId) : null
    if (merchant === null || !merchant.isActive) return 'closed'
    return (await gate.refusal(merchant, null, clock.now())) === null ? 'selling' : 'lapsed'
  }

  const store = new OrderStore(database)
  const claimStore = new ClaimStore(database)
  const catalogs = new Catalogs({ platform, clock, log, access, ttl: () => CATALOG_TTL })
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
    store,
    database,
    clock,
    random,
    sealer,
    log,
    outbox: options.outbox,
    integration: byId,
    publicUrl,
    sold: order => {
      options.counters.payment('storefront', 'invoice', order.totalSats)
    }
  })
  const placement = new OrderPlacement({
    orders: store,
    claims: claimStore,
    database,
    platform,
    sealer,
    clock,
    random,
    log,
    access,
    isGivenBack,
    onFailed,
    integration: byId,
    timeout: () => CALL_TIMEOUT
  })
  const claims = new OrderClaims({ orders: store, paid, placement, credentials, clock, store: bySlug })
  const orders = new Orders({ store, claims: claimStore, placement, paid, clock, bySlug, byId })
  const checkout = new Checkout({
    challengeStore: options.challengeStore,
    minting: options.minting,
    credentials,
    catalogs,
    orders: store,
    paid,
    platform,
    prices: options.prices,
    database,
    clock,
    random,
    log,
    access,
    standing,
    store: bySlug,
    invoiceExpiry: () => INVOICE_EXPIRY
  })
  const fulfilments = new Fulfilments({ orders: store, platform, database, clock, log, access, bySlug, byId })

  const holds = new OrderHolds({ orders: store, platform, clock, log, access, integration: byId })

  options.settlements.onSettled('storefront', paid.settled)
  /** Null for a closed store; the goods of one whose merchant has lapsed are still shown. */
  const open = async (slug: string): Promise<Integration | null> => {
    const integration = await bySlug(slug)
    return integration !== null && (await standing(integration)) !== 'closed' ? integration : null
  }
  const refundRequests = new RefundRequests({
    database,
    clock,
    orders: store,
    store: bySlug,
    readAddress: async (text, order, now) => {
      const challenge = await options.claims.find(order.paymentHash)
      if (challenge === null) throw new TypeError(`order ${order.id} has no challenge`)
      const type = /^ln/i.test(text) ? 'ln' : 'chain'
      return { type, ...readDestination(type, text, decodeInvoice(challenge.invoice).network, now) }
    }
  })
  const refundSources = new OrderSources({ database, clock, placement })
  const operations: AnyOperation[] = [
    ...storefrontPublicOperations({
      catalogs,
      checkout,
      claims,
      orders,
      fulfilments,
      refundRequests,
      settings: options.settings,
      clock,
      selling: open,
      publicUrl
    }),
    ...storefrontMerchantOperations({ storefronts, orders }),
    ...storefrontPageOperations({
      orders,
      claims,
      refundRequests,
      storefronts: { bySlug: open },
      catalogs,
      publicUrl,
      buying: {
        checkout,
        orders: {
          byPaymentHash: paymentHash => store.byPaymentHash(paymentHash),
          claimPageUrl: (integration, order) => paid.claimPageUrl(integration, order)
        },
        sealer,
        clock,
        store: bySlug,
        challenge: paymentHash => options.claims.find(paymentHash),
        publicUrl
      }
    }),
    ...storefrontAdminOperations(orders)
  ]
  return {
    refundSources,
    listed: async () =>
      (await storefronts.listed()).map(({ slug, registryDescription }) => ({ slug, description: registryDescription })),
    holds,
    storefronts,
    catalogs,
    checkout,
    claims,
    orders,
    placement,
    fulfilments,
    operations,
    jobs: [
      ...storefronts.jobs,
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
    ],
    close: () => {}
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
