import { openAdmin } from '../../web/admin/open.ts'
import { openAudit } from '../../accounts/audit/open.ts'
import { openBalances } from '../../selling/balances/open.ts'
import { openBilling } from '../../plans/open.ts'
import { countEndpoints, hasChallenge, openChallenges } from '../../selling/challenges/open.ts'
import type { Problem } from '../../engine/config/diagnose.ts'
import type { ReloadNote } from '../../web/admin/configuration.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { openConsole } from '../../web/console/open.ts'
import type { Database } from '../../platform/database/database.ts'
import { openDemo } from '../demo/open.ts'
import { openDiscovery } from '../discovery/open.ts'
import type { Gateway } from '../../engine/pipeline/gateway.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { Plugin } from '../../engine/pipeline/plugin.ts'
import type { Services } from '../../engine/pipeline/services.ts'
import { PgBossJobs } from '../../platform/jobs/pg-boss-jobs.ts'
import { Sealer } from '../../platform/keys/secrets.ts'
import { openMail } from '../../web/mail/open.ts'
import { openMerchants } from '../../accounts/merchants/open.ts'
import { openPrices } from '../../lightning/money/open.ts'
import { openNotifications, openProviderAccounts } from '../../payments/notifications/open.ts'
import { openPages, openPaywall } from '../../web/pay/open.ts'
import { hasPaidPayment, openPayments } from '../../payments/payments/open.ts'
import type { ProviderKind } from '../../lightning/kinds/kind.ts'
import { openProviders } from '../../lightning/providers/open.ts'
import { countProxies, openProxies, ownerOfProxy } from '../../payments/proxies/open.ts'
import { openRefunds } from '../../payments/refunds/open.ts'
import type { Secrets } from '../secrets.ts'
import { openSales } from '../../selling/sales/open.ts'
import { openSessions } from '../../selling/sessions/open.ts'
import { openSignIn } from '../../web/sign-in/open.ts'
import { openState } from '../../platform/state/url.ts'
import { openPlatform, openStorefront } from '../../shop/open.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { systemRandom } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Metrics } from '../../platform/telemetry/metrics.ts'
import { openTraffic } from '../../payments/traffic/open.ts'
import { Forwarder } from '../../engine/upstream/forwarder.ts'
import { outboundCall } from '../../engine/upstream/outbound.ts'
import { openWebhooks } from '../../payments/webhooks/open.ts'
import type { Closers } from './closers.ts'
import type { Domain } from './domain.ts'

/** What a gateway is composed from; its owner closes the database. */
export interface Surroundings {
  readonly clock: Clock
  readonly log: Log
  readonly database: Database
  readonly secrets: Secrets
  /** Plugins by the name or the absolute path that chain entries use. */
  readonly plugins: ReadonlyMap<string, Plugin>
  /** The kinds of provider that the configuration may name; those of `lightning/kinds/kinds.ts` when left out. */
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
  /** The configuration of the start: what only a restart changes is as it has it. */
  readonly started: GatewayConfig
  plugins: ReadonlyMap<string, Plugin>
  /** What became of the last reload; null before the first. */
  reload: ReloadNote | null
  /** Takes requests as the listener's; null until the routes are compiled. */
  gateway: Gateway | null
}

/** What plugins are given for as long as the gateway runs. */
export type SteadyServices = Omit<Services, 'policies'>

/** What a gateway is made of, as far as whoever serves it must know. */
export type Parts = Awaited<ReturnType<typeof openParts>>

/** Opens what every domain stands on. */
async function openGround(running: Running, around: Surroundings, closers: Closers) {
  const { config } = running
  const { clock, database, log, publicUrl, secrets } = around
  const production = config.mode === 'production'
  const metrics = new Metrics()
  if (config.metrics.process) metrics.measureProcess()
  const state = closers.add(await openState(config.state.url, { clock, log, cluster: config.state.cluster }), part =>
    part.close()
  )
  const forwarder = closers.add(new Forwarder({ clock, production }), part => part.close())
  const prices = closers.add(openPrices(config, { clock, log, metrics }), part => part.close())
  return {
    call: outboundCall(forwarder.guard),
    clock,
    /** As it is now: a reload changes it. */
    config: () => running.config,
    database,
    forwarder,
    /** Started when all have declared theirs, and closed before everybody else. */
    jobs: new PgBossJobs({ database, clock, log, metrics }),
    log,
    metrics,
    prices,
    production,
    publicUrl,
    random: systemRandom,
    sealer: new Sealer(secrets.ring),
    state
  }
}

/**
 * Opens every domain, each after those that it is given (docs/architecture.md, Composition), and declares their jobs.
 * What was opened is closed by `closers` in the reverse order, also when a later one cannot be opened.
 */
export async function openParts(running: Running, around: Surroundings, closers: Closers) {
  const ground = await openGround(running, around, closers)
  const { clock, database, forwarder, jobs, log, metrics, state } = ground
  const { secrets, providerKinds } = around
  const domains: Domain[] = []
  const opened = <T extends Domain>(domain: T): T => {
    domains.push(domain)
    return closers.add(domain, part => part.close())
  }

  const providers = opened(openProviders({ ...ground, kinds: providerKinds }))
  const { news, payees } = providers
  const accounts = opened(openProviderAccounts({ ...ground, payees }))
  const { merchants, adminKey, authThrottle } = opened(
    openMerchants({
      ...ground,
      adminKey: secrets.adminKey,
      payees,
      slotFacts: providers.slotFacts,
      keyIsGood: accounts.keyIsGood,
      countProxies: merchantId => countProxies(database.sql, merchantId),
      hasPaidPayment: merchantId => hasPaidPayment(database.sql, merchantId),
      hasChallenge: merchantId => hasChallenge(database.sql, merchantId)
    })
  )
  const known = { ...ground, merchants, news, payees }
  const mail = opened(await openMail(known))
  const webhooks = opened(openWebhooks(known))
  const { paywall } = opened(openPaywall({ ...known, sandbox: providers.wallet }))
  const sale = opened(
    openChallenges({
      ...known,
      paywall,
      keys: secrets.macaroonKeys,
      charged: accounts.charged,
      paid: webhooks.challengesPaid,
      requireSellable: ctx => {
        forwarder.breakers.requireSellable(ctx)
      },
      countProxies: async (tx, merchantId) => (await countProxies(tx, merchantId)).count,
      ownerOf: proxyId => ownerOfProxy(database.sql, proxyId)
    })
  )
  const { challenges } = sale
  const { earnings } = opened(openSales(ground))
  const traffic = opened(openTraffic({ ...ground, generation: () => running.gateway?.generation ?? 0 }))
  const { balances, ledger, balanceStore } = opened(openBalances({ ...known, challenges }))
  const sessions = opened(openSessions({ ...known, challenges, balances, balanceStore, ledger }))
  const billing = opened(await openBilling({ ...known, challenges, outbox: mail.outbox }))
  const { gate } = billing
  const { trail } = opened(openAudit(ground))
  const signIn = opened(openSignIn({ ...known, adminKey, authThrottle, trail, outbox: mail.outbox }))
  opened(
    openAdmin({
      ...known,
      approved: [billing.approved, signIn.invite],
      earnedSince: from => earnings.since(from, clock.now()),
      traffic: traffic.traffic,
      makers: providers.makers,
      running: () => running,
      serving: () => running.serving,
      generation: () => running.gateway?.generation ?? 0,
      providers: providers.report,
      countProxies: merchantId => countProxies(database.sql, merchantId)
    })
  )
  const proxies = opened(openProxies({ ...known, challenges, countOtherEndpoints: countEndpoints }))
  const payments = opened(
    openPayments({
      ...known,
      gate,
      polled: accounts.polled,
      changed: [webhooks.paymentChanged, mail.sendReceipt],
      charged: accounts.charged,
      sold: sale.sold('payment')
    })
  )
  const stores = opened(
    openStorefront({
      ...known,
      platform: openPlatform(running.config, ground),
      challenges,
      gate,
      outbox: mail.outbox,
      orderFailed: webhooks.storeOrderFailed
    })
  )
  opened(openRefunds({ ...known, payments, others: [stores.refundSources], onConfirmed: mail.tellRefunded }))
  opened(
    openNotifications({
      ...known,
      accounts,
      challenges,
      payments: payments.payments,
      recoveries: providers.recoveries
    })
  )
  const pages = opened(
    openPages({ ...known, payments: payments.payments, others: [billing.bitcoinPlans], sandbox: providers.wallet })
  )
  opened(
    openConsole({
      handle(ctx, wire) {
        if (running.gateway === null) throw new TypeError('a page is asked for before there are routes')
        running.gateway.handle(ctx, wire)
      },
      sessions: signIn.sessions,
      publicUrl: ground.publicUrl
    })
  )
  const all: AnyOperation[] = []
  opened(
    openDiscovery({
      ...ground,
      ready: () => running.serving,
      budgets: () => providers.budgets.report(),
      makers: providers.makers,
      prices: sale.priceList,
      operations: () => all,
      webhooks: webhooks.documented,
      icon: pages.icon,
      homePage: pages.home,
      stores: stores.listed
    })
  )
  const api = domains.flatMap(({ operations }) => operations)
  const demo = opened(openDemo()).operations
  all.push(...api, ...demo)
  jobs.declare(domains.flatMap(domain => domain.jobs))
  // Last opened, first closed: what a job uses outlives its runs.
  closers.add(jobs, part => part.close())

  const services: SteadyServices = {
    adminKey,
    authThrottle,
    balances,
    challenges,
    clock,
    forwarder,
    log,
    merchants,
    metrics,
    payees,
    proxies: proxies.admission,
    sessions: signIn.sessions,
    signInRecord: signIn.record,
    prepaidSessions: sessions.prepaid,
    state,
    subscriptionGate: gate
  }
  return {
    services,
    /** The operations of each internal upstream, by its name in `gateway.yaml`. */
    internals: { api, demo },
    /** All of them, as the OpenAPI document lists them. */
    operations: all,
    /** Where the operations' changes are written down. */
    trail,
    configure: sale.configure,
    offer: sale.offer,
    /** Begins what is done beside requests, and to follow what other processes change. May be called again. */
    async start(): Promise<void> {
      await proxies.start()
      await challenges.start()
      await ledger.start()
      await sessions.start()
      // What the others find out at once may have to be told by a job.
      await jobs.start()
      news.begin()
      await payments.start()
      traffic.start()
      // Nobody waits for the billing provider but who buys a plan.
      void billing.start()
    }
  }
}
