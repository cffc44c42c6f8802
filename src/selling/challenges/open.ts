import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Context } from '../../engine/message/context.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Prices } from '../../lightning/money/prices.ts'
import type { ProviderEvents } from '../../lightning/providers/events.ts'
import type { State } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { countProxies, ownerOfProxy } from '../../accounts/merchants/holdings.ts'
import type { OnPaid } from './store.ts'
import { challengeCounters, type SaleSource } from './counters.ts'
import { leaseOperations } from '../holding/lease-operations.ts'
import { challengeOperations } from './operations.ts'
import { countedOf, lookUpOf, payeeOf, type FindPayeeParts } from '../minting/payee.ts'
import type { PaywallSurroundings } from '../paywall/paywall.ts'
import { priceList, routePrices } from '../offers/pricing.ts'
import { revocationOperations } from './revocation-operations.ts'
import { Challenges } from './service.ts'
import { challengeSettings } from './settings.ts'

/** What pay-per-request is opened with. */
export interface OpenChallengesParts extends Omit<FindPayeeParts, 'charged'> {
  readonly clock: Clock
  readonly database: Database
  readonly keys: TokenKeyRing
  readonly log: Log
  readonly merchants: Merchants
  readonly metrics: Metrics
  readonly events: ProviderEvents
  /** What fiat is worth. */
  readonly prices: Prices
  /** How people are asked. */
  readonly paywall: Pick<PaywallSurroundings, 'pages' | 'sandbox'>
  readonly state: State
  /** Refuses what cannot be delivered; see `Challenges.requireSellable`. */
  requireSellable(ctx: Context): void
  config(): GatewayConfig
  publicUrl(): string
}

/** Opens pay-per-request: challenges, the producer API, and what takes back what was sold. */
export function openChallenges(parts: OpenChallengesParts) {
  const { clock, config, database, keys, log, merchants, metrics, events, state } = parts
  const listeners: OnPaid[] = []
  const challenges = new Challenges({
    database,
    clock,
    log,
    state,
    payee: payeeOf({
      ...parts,
      charged: (account, slot, kind) => {
        events.charged(account, slot, kind)
      }
    }),
    rates: parts.prices,
    paid: async (tx, paid) => {
      for (const listener of listeners) await listener(tx, paid)
    },
    paywall: {
      ...parts.paywall,
      isSecure: () => parts.publicUrl().startsWith('https:'),
      lookUp: lookUpOf(parts),
      countedOf: countedOf(parts)
    },
    counters: challengeCounters(metrics),
    settings: challengeSettings(config()),
    keys,
    requireSellable: ctx => {
      parts.requireSellable(ctx)
    }
  })
  metrics.sampled('boltgate_invoices_ahead', 'Invoices that were made ahead and lie ready.', [], async () => [
    { labels: {}, value: challenges.invoicesAhead }
  ])
  events.listen({ paid: paymentHash => challenges.settled(paymentHash) })
  return {
    challenges,
    /** Adds who is called with challenges whose payment is claimed first, in the transaction of the claim. */
    onPaid: (listener: OnPaid) => {
      listeners.push(listener)
    },
    /** Counts what is sold without a credential. */
    sold: (source: SaleSource) => (amountSats: number) => {
      challenges.counters.payment(source, 'invoice', amountSats)
    },
    /** What `/api/l402/pricing` says. */
    priceList: () => priceList(config()),
    /** Has the prices of a configuration's routes offered from now on. */
    offer: (next: GatewayConfig) => {
      challenges.prices.ask(routePrices(next))
    },
    /** Takes the settings of another configuration; the function that is returned takes the former ones again. */
    configure: (next: GatewayConfig) => {
      const before = { settings: challenges.settings, keys: challenges.keys }
      challenges.configure({ ...before, settings: challengeSettings(next) })
      return () => {
        challenges.configure(before)
      }
    },
    operations: [
      ...challengeOperations({
        ...parts,
        challenges,
        countProxies: async (sql, merchantId) => (await countProxies(sql, merchantId)).count
      }),
      ...leaseOperations(challenges),
      ...revocationOperations({
        challenges,
        ownerOf: proxyId => ownerOfProxy(database.sql, proxyId),
        isMerchant: async id => (await merchants.byId(id)) !== null
      })
    ],
    jobs: challenges.jobs,
    close: () => challenges.close()
  }
}
