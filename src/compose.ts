import { adminOperations } from './admin/operations.ts'
import { SqlAdminStore } from './admin/store.ts'
import { challengeCounters } from './challenges/counters.ts'
import type { FindPayee } from './challenges/mint.ts'
import { challengeOperations, countEndpoints, hasChallenge } from './challenges/operations.ts'
import { Challenges } from './challenges/service.ts'
import { challengeSettings } from './challenges/settings.ts'
import type { GatewayConfig } from './config/schema.ts'
import { demoOperations } from './demo/operations.ts'
import { discoveryOperations } from './discovery/operations.ts'
import { compile } from './gateway/compile.ts'
import { Gateway } from './gateway/gateway.ts'
import { InternalUpstream } from './gateway/internal.ts'
import { metricsOperation } from './gateway/metrics-operation.ts'
import { pricedRoutes } from './gateway/openapi.ts'
import type { AnyOperation } from './gateway/operation.ts'
import type { Plugin } from './gateway/plugin.ts'
import type { Services } from './gateway/services.ts'
import type { Snapshot } from './gateway/snapshot.ts'
import { createListener, type Listener } from './http/listener.ts'
import { accountView } from './merchants/account.ts'
import { AdminKey } from './merchants/admin-key.ts'
import { AuthThrottle } from './merchants/auth-throttle.ts'
import { merchantOperations } from './merchants/operations.ts'
import { Merchants } from './merchants/service.ts'
import { SqlMerchantStore } from './merchants/store.ts'
import { FixedPrices, NoPrices } from './money/prices.ts'
import { pageOperations } from './pages/operations.ts'
import { openDemoInvoices } from './payments/demo.ts'
import { paymentOperations } from './payments/operations.ts'
import { Payments } from './payments/service.ts'
import { SqlPaymentStore } from './payments/store.ts'
import { PaymentWatch } from './payments/watch.ts'
import type { Clock } from './platform/clock.ts'
import type { Database } from './platform/database.ts'
import { correlationId, systemRandom } from './platform/ids.ts'
import type { Log } from './platform/log.ts'
import { Metrics } from './platform/metrics.ts'
import { healthOperations } from './platform/operations.ts'
import { Sealer } from './platform/secrets.ts'
import { openState } from './platform/state-url.ts'
import { openProviders } from './providers/kinds.ts'
import { providerOperations } from './providers/operations.ts'
import { Payees } from './providers/payees.ts'
import { ProxyAdmission, RESPONSE_LIMIT } from './proxies/admission.ts'
import { ProxyDirectory } from './proxies/directory.ts'
import { proxyOperations } from './proxies/operations.ts'
import { probeTarget } from './proxies/probe.ts'
import { MAX_TIMEOUT_SECONDS } from './proxies/schema.ts'
import { ProxyService } from './proxies/service.ts'
import { SqlProxyStore } from './proxies/store.ts'
import { refundOperations } from './refunds/operations.ts'
import { Refunds } from './refunds/service.ts'
import { SqlRefundStore } from './refunds/store.ts'
import type { Secrets } from './secrets.ts'
import { Forwarder } from './upstream/forwarder.ts'
import { outboundCall } from './upstream/outbound.ts'

/** What a gateway is composed from; its owner closes the database. */
export interface Surroundings {
  readonly clock: Clock
  readonly log: Log
  readonly database: Database
  readonly secrets: Secrets
  /** Plugins by the name or the absolute path that chain entries use. */
  readonly plugins: ReadonlyMap<string, Plugin>
  /** The address that clients use, without a slash at the end; asked for when it is needed, since port 0 is known late. */
  publicUrl (): string
}

/** Names of the internal upstreams, for the check of routes. */
export const INTERNALS = Object.freeze(['api', 'demo'])

type Close = () => void | Promise<void>

/** Parts that were opened, ended in the reverse order; one that fails does not keep the others open. */
class Closers {
  readonly #log: Log
  readonly #list: Close[] = []

  constructor (log: Log) {
    this.#log = log
  }

  add<T> (part: T, close: (part: T) => void | Promise<void>): T {
    this.#list.push(() => close(part))
    return part
  }

  async close (): Promise<void> {
    for (const close of this.#list.splice(0).toReversed()) {
      try {
        await close()
      } catch (error) {
        this.#log.error({ err: error }, 'a part of the gateway failed to close')
      }
    }
  }
}

/** What operations ask for when they are called, since it changes while the gateway runs. */
interface Running {
  config: GatewayConfig
  serving: boolean
}

/**
 * Composes a gateway: builds every service once, in the order in which they need each other, mounts the operations, and
 * compiles the first snapshot. This is the only place that knows everyone. When a part cannot be made, those made before
 * are closed again.
 */
export async function compose (config: GatewayConfig, around: Surroundings): Promise<App> {
  const closers = new Closers(around.log)
  try {
    return await build(config, around, closers)
  } catch (error) {
    await closers.close()
    throw error
  }
}

async function build (config: GatewayConfig, around: Surroundings, closers: Closers): Promise<App> {
  const { clock, log, database, secrets, publicUrl } = around
  const running: Running = { config, serving: false }
  const production = config.mode === 'production'
  const metrics = new Metrics()
  if (config.metrics.process) metrics.measureProcess()

  const state = closers.add(await openState(config.state.url, { clock, log }), part => part.close())
  const providers = closers.add(openProviders({ mode: config.mode, lightning: config.lightning, dataDir: config.data, database, clock }), part => part.close())
  const forwarder = closers.add(new Forwarder({ clock, production }), part => part.close())
  const sealer = new Sealer(secrets.ring)
  const merchants = new Merchants({ store: new SqlMerchantStore(database), sealer, clock, plans: () => running.config.plans })
  const payees = new Payees(providers.seats, sealer)
  const challenges = closers.add(new Challenges({
    database,
    clock,
    log,
    payee: payeeOf(payees, merchants),
    counters: challengeCounters(metrics),
    settings: challengeSettings(config),
    keys: secrets.macaroonKeys
  }), part => part.close())
  const proxyStore = new SqlProxyStore(database)
  const proxies = new ProxyService({
    store: proxyStore,
    sealer,
    clock,
    random: systemRandom,
    publicUrl,
    production,
    defaults: () => ({ tokenValiditySeconds: Math.floor(running.config.payment.tokenValidity / 1000), timeoutSeconds: MAX_TIMEOUT_SECONDS }),
    caps: merchant => merchants.caps(merchant),
    countOtherEndpoints: countEndpoints,
    probe: probeTarget(outboundCall(forwarder.guard), clock),
    changed: proxyId => directory.refresh(proxyId)
  })
  const directory: ProxyDirectory = closers.add(new ProxyDirectory({
    store: proxyStore, database, clock, log, merchants: ids => merchants.byIds(ids), open: row => proxies.openAuthValue(row)
  }), part => part.stop())

  const paymentStore = new SqlPaymentStore(database)
  const payments = closers.add(new Payments({
    store: paymentStore,
    database,
    clock,
    random: systemRandom,
    log,
    payees,
    // The sandbox has a price of its own; real ones come with the price feed.
    prices: production ? new NoPrices() : new FixedPrices(),
    demo: openDemoInvoices(config.data, clock),
    watch: new PaymentWatch(database, log),
    publicUrl,
    settings: () => running.config.payments,
    merchant: id => merchants.byId(id),
    refusal: (merchant, feature, now) => merchants.refusal(merchant, feature, now)
  }), part => part.close())
  const refunds = new Refunds({
    store: new SqlRefundStore(database),
    database,
    clock,
    random: systemRandom,
    log,
    payees,
    payments: {
      get: (merchantId, invoiceId) => paymentStore.get(merchantId, invoiceId),
      lock: (sql, merchantId, invoiceId) => paymentStore.lock(sql, merchantId, invoiceId),
      applyChange: (sql, payment, to, facts, tellMerchant) => payments.applyChange(sql, payment, to, facts, tellMerchant)
    },
    merchant: id => merchants.byId(id)
  })

  // An invoice is a challenge's or a payment's; who does not know the hash does nothing.
  const settled = async (paymentHash: string): Promise<void> => {
    await Promise.all([challenges.settled(paymentHash), payments.settled(paymentHash)])
  }
  if (providers.sandbox !== null) providers.sandbox.onSettled = settled

  const mounted: AnyOperation[] = []
  const api: AnyOperation[] = [
    ...healthOperations(database, clock, { ready: () => running.serving }),
    metricsOperation(metrics),
    ...discoveryOperations({
      publicUrl,
      serviceName: () => running.config.payment.serviceName,
      operations: () => mounted,
      pricedRoutes: () => pricedRoutes(running.config.routes)
    }),
    ...providerOperations({ sandbox: providers.sandbox, mode: config.mode, onSettled: settled }),
    ...challengeOperations({
      challenges, clock, database, publicUrl, config: () => running.config, countProxies: (sql, merchantId) => proxyStore.count(sql, merchantId)
    }),
    ...proxyOperations(proxies),
    ...merchantOperations({
      merchants,
      production,
      plans: () => running.config.plans,
      publicUrl,
      validate: (merchant, slot) => payees.validate(merchant, slot),
      countProxies: merchantId => proxyStore.counts(merchantId),
      hasPaidPayment: merchantId => payments.hasPaid(merchantId),
      hasChallenge: merchantId => hasChallenge(database.sql, merchantId)
    }),
    ...paymentOperations(payments),
    ...refundOperations(refunds),
    ...pageOperations({ payments, watch: payments, merchant: id => merchants.byId(id), clock, log, publicUrl, sandboxHint: !production }),
    ...adminOperations({
      database,
      store: new SqlAdminStore(database),
      merchants,
      clock,
      production,
      account: async merchant => accountView(merchant, running.config.plans, await proxyStore.counts(merchant.id))
    })
  ]
  const demo = demoOperations()
  mounted.push(...api, ...demo)
  const internals: ReadonlyMap<string, InternalUpstream> = new Map([['api', new InternalUpstream(api)], ['demo', new InternalUpstream(demo)]])
  const services: SteadyServices = {
    clock,
    log,
    metrics,
    state,
    merchants,
    adminKey: new AdminKey(secrets.adminKey),
    authThrottle: new AuthThrottle(state, clock),
    payees,
    challenges,
    proxies: new ProxyAdmission(directory, clock, { invoiceExpirySeconds: () => Math.floor(challenges.settings.invoiceExpiry / 1000), responseLimit: RESPONSE_LIMIT }),
    forwarder
  }
  const compileFor: Compile = (next, plugins, generation) => compile(next, { services: { ...services, policies: next.policies }, plugins, internals, generation })
  const gateway = closers.add(new Gateway(await compileFor(config, around.plugins, 1)), part => part.close())
  const listener = createListener({
    limits: config.server.limits,
    trustedProxies: config.server.trustedProxies,
    clock,
    freshId: correlationId,
    handle: (ctx, wire) => { gateway.handle(ctx, wire) },
    refused: event => { log.info(event, 'refused at the front door') },
    failed: error => { log.error({ err: error }, 'a connection could not be accepted') }
  })
  const follow = async (): Promise<void> => {
    await directory.start()
    await challenges.start()
    await payments.start()
  }
  return new App({ running, around, challenges, closers, gateway, listener, operations: mounted, compile: compileFor, follow })
}

type SteadyServices = Omit<Services, 'policies'>
type Compile = (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>, generation: number) => Promise<Snapshot>

function payeeOf (payees: Payees, merchants: Merchants): FindPayee {
  return async offer => {
    if (offer.payee === 'platform') return payees.platform()
    const merchant = await merchants.byId(Number(offer.merchantId))
    if (merchant === null) throw new TypeError(`an offer names merchant ${offer.merchantId ?? 'null'}, who does not exist`)
    return payees.forMerchant(merchant)
  }
}

interface AppParts {
  readonly running: Running
  readonly around: Surroundings
  readonly challenges: Challenges
  readonly closers: Closers
  readonly gateway: Gateway
  readonly listener: Listener
  readonly operations: readonly AnyOperation[]
  readonly compile: Compile
  follow (): Promise<void>
}

/** A composed gateway: listens, reloads, drains. */
export class App {
  readonly #parts: AppParts

  constructor (parts: AppParts) {
    this.#parts = parts
  }

  /** Every operation behind the internal upstreams, as the OpenAPI document lists them. */
  get operations (): readonly AnyOperation[] {
    return this.#parts.operations
  }

  /** Opens the port. Rejects with the system's error when it cannot. */
  async listen (): Promise<{ readonly host: string, readonly port: number }> {
    const { host, port } = this.#parts.running.config.server.listen
    await this.#parts.listener.listen(host, port)
    return this.#parts.listener.address ?? { host, port }
  }

  /** Begins to follow what other processes change, once the database has its tables; from here on the gateway is ready. */
  async follow (): Promise<void> {
    await this.#parts.follow()
    this.#parts.running.serving = true
  }

  /** Takes a new configuration for new requests. Throws, and changes nothing, when it cannot be compiled. */
  async reload (config: GatewayConfig, plugins: ReadonlyMap<string, Plugin>): Promise<void> {
    const { running, around, challenges, gateway } = this.#parts
    const { keys, settings } = challenges
    const next = challengeSettings(config)
    // Offers are made with the settings of now, while their route is compiled.
    challenges.configure({ settings: next, keys })
    try {
      gateway.swap(await this.#parts.compile(config, plugins, gateway.generation + 1))
    } catch (error) {
      challenges.configure({ settings, keys })
      throw error
    }
    running.config = config
    around.log.info({ generation: gateway.generation }, 'the configuration was reloaded')
  }

  /** Finishes what is under way, for at most the drain timeout, and ends everything but the database. */
  async close (): Promise<void> {
    const { running, listener, closers } = this.#parts
    running.serving = false
    await listener.drain(running.config.server.limits.drainTimeout)
    await closers.close()
  }
}
