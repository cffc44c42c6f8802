import { SqlAdminStore } from '../admin/store.ts'
import { openBilling } from '../billing/open.ts'
import { PriceCheck } from '../billing/price-check.ts'
import { Recheck } from '../billing/recheck.ts'
import { Billing } from '../billing/service.ts'
import { SqlCardSubscriptionStore } from '../billing/store.ts'
import { CardSubscriptions } from '../billing/subscriptions.ts'
import { challengeCounters } from '../challenges/counters.ts'
import type { FindPayee } from '../challenges/mint.ts'
import { countEndpoints } from '../challenges/operations.ts'
import { Challenges } from '../challenges/service.ts'
import { challengeSettings } from '../challenges/settings.ts'
import type { Problem } from '../config/diagnose.ts'
import type { GatewayConfig } from '../config/schema.ts'
import type { Plugin } from '../gateway/plugin.ts'
import { openMailer } from '../mail/open-mailer.ts'
import { Outbox } from '../mail/outbox.ts'
import { receipts } from '../mail/receipt.ts'
import { refundMails } from '../mail/refund.ts'
import type { Merchant } from '../merchants/schema.ts'
import { Merchants } from '../merchants/service.ts'
import { SqlMerchantStore } from '../merchants/store.ts'
import { schedule } from '../jobs/schedule.ts'
import { openPrices } from '../money/open-prices.ts'
import { Registration } from '../notifications/registration.ts'
import { SqlSubscriptionStore } from '../notifications/subscriptions.ts'
import { openDemoInvoices } from '../payments/demo.ts'
import { Payments } from '../payments/service.ts'
import { SqlPaymentStore } from '../payments/store.ts'
import { PaymentWatch } from '../payments/watch.ts'
import type { Clock } from '../system/clock.ts'
import type { Database, TransactionSql } from '../database/database.ts'
import { systemRandom } from '../system/ids.ts'
import { PgBossJobs } from '../jobs/jobs.ts'
import type { Log } from '../telemetry/log.ts'
import { Metrics } from '../telemetry/metrics.ts'
import { Sealer } from '../keys/secrets.ts'
import { openState } from '../state/url.ts'
import { Budgets } from '../providers/budgets.ts'
import type { ProviderKind } from '../providers/kind.ts'
import { providerKinds } from '../providers/kinds.ts'
import { openProviders } from '../providers/open-providers.ts'
import { Payees, type Payee } from '../providers/payees.ts'
import { ProxyDirectory } from '../proxies/directory.ts'
import { probeTarget } from '../proxies/probe.ts'
import { MAX_TIMEOUT_SECONDS } from '../proxies/schema.ts'
import { ProxyService } from '../proxies/service.ts'
import { SqlProxyStore } from '../proxies/store.ts'
import { Refunds } from '../refunds/service.ts'
import { RefundSettlements } from '../refunds/settlement.ts'
import { allSources, paymentSources, type RefundSources } from '../refunds/source.ts'
import { SqlRefundStore } from '../refunds/store.ts'
import type { Secrets } from '../secrets.ts'
import { Forwarder } from '../upstream/forwarder.ts'
import { outboundCall } from '../upstream/outbound.ts'
import { Webhooks } from '../webhooks/service.ts'
import { SqlWebhookStore } from '../webhooks/store.ts'
import type { Closers } from './closers.ts'
import { openNews, type News } from './news.ts'
import { openPlans } from './plans.ts'
import { openPlatform, openStorefront } from './storefront.ts'

/** What a gateway is composed from; its owner closes the database. */
export interface Surroundings {
  readonly clock: Clock
  readonly log: Log
  readonly database: Database
  readonly secrets: Secrets
  /** Plugins by the name or the absolute path that chain entries use. */
  readonly plugins: ReadonlyMap<string, Plugin>
  /** The kinds of provider that the configuration may name; those of `providers/kinds.ts` when left out. */
  readonly providerKinds?: readonly ProviderKind[]
  /**
   * The address that clients use, without a slash at the end; asked for when it is needed, since port 0 is known late.
   */
  publicUrl(): string
  /** Told of each request that begins. */
  begun?(): void
  /** Told of what the configuration allows and probably does not mean; written to the log when left out. */
  warn?(warning: Problem): void
}

/** What operations ask for when they are called, since it changes while the gateway runs. */
export interface Running {
  config: GatewayConfig
  serving: boolean
}

/** Every service of a gateway, made once, in the order in which they need each other. */
export type Parts = Awaited<ReturnType<typeof openParts>>

/** Makes them; what was opened is closed by `closers`, also when a later one cannot be made. */
export async function openParts(running: Running, around: Surroundings, closers: Closers) {
  const { config } = running
  const { clock, log, database, secrets, publicUrl } = around
  const production = config.mode === 'production'
  const random = systemRandom
  const metrics = new Metrics()
  if (config.metrics.process) metrics.measureProcess()

  const state = closers.add(await openState(config.state.url, { clock, log }), part => part.close())
  const budgets = new Budgets({ state, clock, metrics })
  const providers = closers.add(
    openProviders({
      kinds: around.providerKinds ?? providerKinds,
      mode: config.mode,
      lightning: config.lightning,
      dataDir: config.data,
      database,
      clock,
      budgets,
      receiver: slot => `${publicUrl()}/api/webhooks/${slot}`
    }),
    part => part.close()
  )
  const forwarder = closers.add(new Forwarder({ clock, production }), part => part.close())
  const call = outboundCall(forwarder.guard)
  const sealer = new Sealer(secrets.ring)
  const cards = await openBilling(config, { database, clock, random, publicUrl })
  const merchants: Merchants = new Merchants({
    store: new SqlMerchantStore(database),
    sealer,
    clock,
    plans: () => running.config.plans,
    billing: async merchant => (await recheck?.ask(merchant)) ?? null,
    keySaved: (id, slot) => news.keyIsGood(id, slot)
  })
  const cardStore = new SqlCardSubscriptionStore(database)
  const subscriptions =
    cards.provider === null
      ? null
      : new CardSubscriptions({
          provider: cards.provider,
          database,
          store: cardStore,
          merchants,
          pending: new SqlAdminStore(database),
          clock,
          log
        })
  const recheck =
    subscriptions === null ? null : new Recheck({ subscriptions, store: cardStore, merchants, clock, log })
  const payees = new Payees(providers.seats, sealer)
  const prices = closers.add(openPrices(config, { clock, log, metrics }), part => part.close())
  const registration = closers.add(
    new Registration({ store: new SqlSubscriptionStore(database), payees, sealer, clock, random, log, publicUrl }),
    part => part.close()
  )
  const challenges = closers.add(
    new Challenges({
      database,
      clock,
      log,
      state,
      payee: payeeOf(payees, merchants, registration),
      counters: challengeCounters(metrics),
      settings: challengeSettings(config),
      keys: secrets.macaroonKeys
    }),
    part => part.close()
  )

  const proxyStore = new SqlProxyStore(database)
  const proxies = new ProxyService({
    store: proxyStore,
    sealer,
    clock,
    random,
    publicUrl,
    production,
    defaults: () => ({
      tokenValiditySeconds: Math.floor(running.config.payment.tokenValidity / 1000),
      timeoutSeconds: MAX_TIMEOUT_SECONDS
    }),
    caps: merchant => merchants.caps(merchant),
    countOtherEndpoints: countEndpoints,
    probe: probeTarget(call, clock),
    changed: proxyId => directory.refresh(proxyId)
  })
  const directory: ProxyDirectory = closers.add(
    new ProxyDirectory({
      store: proxyStore,
      database,
      clock,
      log,
      merchants: ids => merchants.byIds(ids),
      open: row => proxies.openAuthValue(row)
    }),
    part => part.stop()
  )

  const paymentStore = new SqlPaymentStore(database)
  const payments = closers.add(
    new Payments({
      store: paymentStore,
      database,
      clock,
      random,
      log,
      payees,
      prices,
      demo: openDemoInvoices(config.data, clock),
      watch: new PaymentWatch(database, log),
      publicUrl,
      settings: () => running.config.payments,
      merchant: id => merchants.byId(id),
      refusal: (merchant, feature, now) => merchants.refusal(merchant, feature, now),
      polled: () => news.polled,
      paid: payment => {
        challenges.counters.payment('payment', 'invoice', payment.amountSats ?? payment.receivedSats ?? 0)
      },
      created: (merchant, payment) => {
        registration.charged(merchant, payment.slot)
      }
    }),
    part => part.close()
  )
  const refundStore = new SqlRefundStore(database)
  const refundSources: RefundSources = allSources(
    paymentSources({
      get: (merchantId, invoiceId) => paymentStore.get(merchantId, invoiceId),
      lock: (sql, merchantId, invoiceId) => paymentStore.lock(sql, merchantId, invoiceId),
      applyChange: (sql, payment, to, facts, tellMerchant) =>
        payments.applyChange(sql, payment, to, facts, tellMerchant)
    }),
    {
      // Stores are opened last, since all they need is there then.
      get: (merchantId, orderId, now) => storefront.refundSources.get(merchantId, orderId, now),
      lock: (sql, merchantId, orderId, now) => storefront.refundSources.lock(sql, merchantId, orderId, now),
      refunded: (sql, source) => storefront.refundSources.refunded(sql, source)
    }
  )
  const refundSettlements = new RefundSettlements({
    store: refundStore,
    sources: refundSources,
    onConfirmed: (sql, refund) => tellRefunded(sql, refund),
    database,
    clock,
    log
  })
  const refunds = new Refunds({
    onConfirmed: (sql, refund) => tellRefunded(sql, refund),
    store: refundStore,
    database,
    clock,
    random,
    log,
    payees,
    sources: refundSources,
    merchant: id => merchants.byId(id)
  })

  const mailer = closers.add(await openMailer(config, { clock, log }), part => part.close())
  // Last opened, first closed: what a job uses outlives its runs.
  const jobs = closers.add(new PgBossJobs({ database, clock, log, metrics }), part => part.close())
  const webhooks = new Webhooks({
    store: new SqlWebhookStore(database),
    database,
    jobs,
    merchants,
    call,
    clock,
    random,
    log,
    metrics
  })
  const planPrices = cards.provider === null ? null : new PriceCheck({ provider: cards.provider, clock, log, metrics })
  const billing = new Billing({
    provider: cards.provider,
    prices: planPrices,
    subscriptions,
    database,
    jobs,
    log,
    production,
    publicUrl,
    settings: () => running.config
  })
  if (cards.sandbox !== null) cards.sandbox.notify = (signature, body) => billing.receive(signature, body)
  const outbox = new Outbox({ jobs, database, mailer, sealer, clock, log })
  const scheduled = schedule({ clock, payments, challenges, refunds, sandbox: providers.sandbox })
  jobs.declare([...webhooks.jobs, ...billing.jobs, ...scheduled, ...outbox.jobs])
  const storefront = openStorefront({
    platform: openPlatform(config, { database, clock, log, call }),
    challenges,
    merchants,
    prices,
    outbox,
    jobs,
    database,
    sealer,
    clock,
    random,
    log,
    metrics,
    publicUrl,
    config: () => running.config,
    isGivenBack: async (sql, orderId) => (await refundStore.sums(sql, orderId)).held > 0,
    orderFailed: (sql, order) => webhooks.storeOrderFailed(sql, order)
  })
  const bought = openPlans({ challenges, merchants, payees, prices, jobs, outbox, sealer }, running, around)
  const mailing = {
    outbox,
    merchantName: async (sql: TransactionSql, id: number) => (await merchants.within(sql).byId(id))?.name ?? null
  }
  const sendReceipt = receipts(mailing)
  const tellRefunded = refundMails(mailing)
  payments.onChange = async (sql, change) => {
    await webhooks.paymentChanged(sql, change)
    await sendReceipt(sql, change)
  }
  challenges.onPaid = (sql, challenge) => webhooks.challengePaid(sql, challenge)

  const news: News = openNews({ challenges, payments, merchants, payees, registration, jobs, metrics }, config, around)

  /**
   * Somebody says that an invoice was paid; it is a challenge's or a payment's, and who does not know the hash does
   * nothing.
   */
  const settled = async (paymentHash: string): Promise<void> => {
    await Promise.all([challenges.settled(paymentHash), payments.settled(paymentHash)])
  }
  if (providers.sandbox !== null) providers.sandbox.onSettled = settled

  return {
    production,
    metrics,
    state,
    budgets,
    providers,
    forwarder,
    merchants,
    payees,
    challenges,
    proxyStore,
    proxies,
    directory,
    payments,
    refunds,
    refundSettlements,
    jobs,
    webhooks,
    news,
    storefront,
    settled,
    billing,
    sandboxBilling: cards.sandbox,
    ...bought
  }
}

/**
 * Who is paid for an offer; its provider is told where to send notifications, where it must be, once it made an
 * invoice.
 */
function payeeOf(payees: Payees, merchants: Merchants, registration: Registration): FindPayee {
  const charging = (account: Merchant | null, payee: Payee): ReturnType<FindPayee> => ({
    slot: payee.slot,
    kind: payee.kind,
    createInvoice: async request => {
      const charge = await payee.createInvoice(request)
      // Not before: a provider that is away would use up the attempt, and the next one is minutes later.
      registration.charged(account, payee.slot)
      return charge
    }
  })
  return async offer => {
    if (offer.payee === 'platform') return await charging(null, payees.platform())
    const merchant = await merchants.byId(Number(offer.merchantId))
    if (merchant === null)
      throw new TypeError(`an offer names merchant ${offer.merchantId ?? 'null'}, who does not exist`)
    return await charging(merchant, payees.forMerchant(merchant))
  }
}
