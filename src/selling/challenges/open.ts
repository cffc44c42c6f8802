import { AdminKey } from '../../accounts/merchants/admin-key.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Context } from '../../engine/message/context.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import { NoPrices, type Prices } from '../../lightning/money/prices.ts'
import type { ProviderEvents } from '../../lightning/providers/events.ts'
import type { Database } from '../../platform/database/database.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { systemRandom, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { countProxies, ownerOfProxy } from '../../accounts/merchants/holdings.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { Claims } from '../holding/claims.ts'
import { challengeCounters, type ChallengeCounters, type SaleSource } from '../holding/counters.ts'
import { Leases } from '../holding/leases.ts'
import { PaidResponses } from '../holding/paid-responses.ts'
import { Settlements } from '../holding/settlements.ts'
import { ChallengeStore } from '../holding/store.ts'
import type { OnPaid } from '../holding/challenge.ts'
import { ChallengeUpkeep } from '../holding/upkeep.ts'
import { Minting } from '../minting/minting.ts'
import { chargesOf, payeeOf, type FindPayee, type FindPayeeDependencies } from '../minting/payee.ts'
import { ClientReputation } from '../minting/client-reputation.ts'
import { Offers } from '../offers/offers.ts'
import { challengeSettings, type ChallengeSettings } from '../offers/settings.ts'
import { Paywall, type PaywallContext } from '../paywall/paywall.ts'
import { Audiences } from '../prices/audience.ts'
import type { AskServer } from '../prices/price-server.ts'
import { ChargePolls, type ChargeSources } from '../holding/charge-polls.ts'
import { Revocations } from '../verifying/revocations.ts'
import { Verifier } from '../verifying/verify.ts'
import { challengeOperations } from './operations.ts'
import { priceList, routePrices } from './pricing.ts'
import { leaseOperations, revocationOperations } from './revocation-operations.ts'
import { Challenges } from './service.ts'

/** What a configuration reload changes. */
interface ChallengeRules {
  readonly settings: ChallengeSettings
  readonly keys: TokenKeyRing
}

export interface SellingOptions extends ChallengeRules {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly counters: ChallengeCounters
  readonly payee: FindPayee
  /** Signs the operator's own tests; without it there are none. */
  readonly adminKey?: Pick<AdminKey, 'holdsSession'>
  /** Exchange rates; without them no price in fiat can be sold. */
  readonly rates?: Prices
  /** Queries price servers; default: over HTTP. */
  readonly askServer?: AskServer
  readonly audiences?: Audiences
  /** Without it, neither pay pages nor x402 payments on shared nodes. */
  readonly charges?: ChargeSources
  /** Checkout pages for browsers; without it they get what programs get. */
  readonly paywall?: PaywallContext
  /** Called once for each challenge, at its first successful verification. */
  readonly paid?: OnPaid
  /** Store of client reputation and free calls; default: this process' memory. */
  readonly state?: State
  readonly random?: Random
  readonly store?: ChallengeStore
  /** Refuses what cannot be delivered before it is sold. */
  readonly requireSellable?: (ctx: Context) => void
  /** Name of this process in its leases; default: random. */
  readonly gateway?: string
}

/** For processes whose invoices are all of their own nodes. */
const NO_CHARGES: ChargeSources = { lookUp: async () => null, countedOf: () => '', isShared: () => false }

export type Selling = ReturnType<typeof openSelling>

export function openSelling(options: SellingOptions) {
  const { clock, counters, database, log, random = systemRandom, rates = new NoPrices() } = options
  let rules: ChallengeRules = options
  const changing = { keys: () => rules.keys, settings: () => rules.settings }
  const state = options.state ?? new MemoryState(clock)
  const store = options.store ?? new ChallengeStore(database)
  const reputation = new ClientReputation(state)
  const { adminKey = new AdminKey(null) } = options
  const ground = { adminKey, clock, counters, database, log, random, rates, state, store, reputation, ...changing }

  const gateway = options.gateway === undefined ? {} : { gateway: options.gateway }
  const leases = new Leases({ ...ground, timeout: options.settings.leaseTimeout, ...gateway })
  const paidResponses = new PaidResponses(leases, counters, clock)
  const claims = new Claims({ ...ground, leases, paid: options.paid ?? null })
  const settlements = new Settlements(ground)
  const upkeep = new ChallengeUpkeep(ground)

  const { askServer, audiences } = options
  const offers = new Offers({
    ...ground,
    ...(askServer === undefined ? {} : { askServer }),
    ...(audiences === undefined ? {} : { audiences })
  })
  const revocations = new Revocations(ground)
  const { charges = NO_CHARGES } = options
  const polls = new ChargePolls({ ...ground, ...charges, settled: paymentHash => settlements.settled(paymentHash) })
  const charging = { polls, isShared: charges.isShared }
  const verifier = new Verifier({ ...ground, ...charging, claims, revocations })
  const minting = new Minting({ ...ground, payee: options.payee, offers, revocations, settlements })
  const judging = { ...ground, ...charging, claims, minting, revocations, settlements, verifier }
  const paywall = options.paywall === undefined ? null : new Paywall({ ...judging, ...options.paywall })
  const challenges = new Challenges({
    ...judging,
    leases,
    offers,
    paidResponses,
    paywall,
    requireSellable: options.requireSellable ?? (() => undefined)
  })
  return {
    challenges,
    challengeStore: store,
    claims,
    counters,
    leases,
    minting,
    offers,
    paidResponses,
    revocations,
    settlements,
    upkeep,
    verifier,
    ...changing,
    /**
     * Applies new settings and keys. Requests in flight may see either; other keys invalidate all verified tokens.
     * Discards invoices made ahead.
     */
    configure(next: ChallengeRules): void {
      const rekeyed = next.keys !== rules.keys
      rules = next
      minting.clear()
      if (rekeyed) verifier.forget()
    },
    /** Follows revocations and former prices. Call after the migrations. */
    async start(): Promise<void> {
      await Promise.all([revocations.start(), offers.prices.start()])
    },
    async close(): Promise<void> {
      minting.close()
      await revocations.close()
      await offers.close()
      await leases.close()
      await store.close()
    }
  }
}

export function openChallenges(
  dependencies: Omit<FindPayeeDependencies, 'charged'> & {
    readonly adminKey: AdminKey
    readonly call: OutboundCall
    readonly clock: Clock
    readonly database: Database
    readonly keys: TokenKeyRing
    readonly log: Log
    readonly merchants: Merchants
    readonly metrics: Metrics
    readonly events: ProviderEvents
    readonly prices: Prices
    readonly paywall: Pick<PaywallContext, 'pages' | 'sandbox'>
    readonly production: boolean
    readonly state: State
    requireSellable(ctx: Context): void
    config(): GatewayConfig
    publicUrl(): string
  }
) {
  const { clock, config, database, events, keys, log, merchants, metrics, state } = dependencies
  const listeners: OnPaid[] = []
  const selling = openSelling({
    adminKey: dependencies.adminKey,
    audiences: new Audiences(dependencies),
    clock,
    counters: challengeCounters(metrics),
    database,
    keys,
    log,
    paid: async (tx, paid) => {
      for (const listener of listeners) await listener(tx, paid)
    },
    payee: payeeOf({
      ...dependencies,
      charged: (account, slot, kind) => {
        events.charged(account, slot, kind)
      }
    }),
    paywall: {
      ...dependencies.paywall,
      isSecure: () => dependencies.publicUrl().startsWith('https:')
    },
    charges: chargesOf(dependencies),
    rates: dependencies.prices,
    requireSellable: ctx => {
      dependencies.requireSellable(ctx)
    },
    settings: challengeSettings(config()),
    state
  })
  const { challengeStore, counters, minting, offers, settlements } = selling
  metrics.sampled('boltgate_invoices_ahead', 'Invoices that were made ahead and lie ready.', [], async () => [
    { labels: {}, value: minting.invoicesAhead }
  ])
  events.listen({ paid: paymentHash => settlements.settled(paymentHash) })
  return {
    ...selling,
    /** Adds a listener for the first payment claim of each challenge, in the claim's transaction. */
    onPaid: (listener: OnPaid) => {
      listeners.push(listener)
    },
    /** Counts sales without a credential. */
    sold: (source: SaleSource) => (amountSats: number) => {
      counters.payment(source, 'invoice', amountSats)
    },
    /** Body of `/api/l402/pricing`. */
    priceList: () => priceList(config()),
    offer: (next: GatewayConfig) => {
      offers.prices.ask(routePrices(next))
    },
    /** Applies another configuration's settings; returns a function that restores the former ones. */
    configure: (next: GatewayConfig) => {
      const before = { settings: selling.settings(), keys: selling.keys() }
      selling.configure({ ...before, settings: challengeSettings(next) })
      return () => {
        selling.configure(before)
      }
    },
    operations: [
      ...challengeOperations({
        ...dependencies,
        ...selling,
        countProxies: async (sql, merchantId) => (await countProxies(sql, merchantId)).count
      }),
      ...leaseOperations(challengeStore),
      ...revocationOperations({
        ...selling,
        ownerOf: proxyId => ownerOfProxy(database.sql, proxyId),
        isMerchant: async id => (await merchants.byId(id)) !== null
      })
    ],
    jobs: selling.upkeep.jobs
  }
}
