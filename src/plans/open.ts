import { SqlAdminStore } from '../web/admin/store.ts'
import type { ChallengeCounters } from '../selling/holding/counters.ts'
import type { Settlements } from '../selling/holding/settlements.ts'
import type { ChallengeStore } from '../selling/holding/store.ts'
import type { Minting } from '../selling/minting/minting.ts'
import type { GatewayConfig } from '../engine/config/schema.ts'
import type { Database } from '../platform/database/database.ts'
import type { Jobs } from '../platform/jobs/jobs.ts'
import type { Outbox } from '../web/mail/outbox.ts'
import { subscriptionGate } from '../accounts/merchants/gate.ts'
import type { Merchants } from '../accounts/merchants/service.ts'
import type { Quotes } from '../lightning/money/prices.ts'
import type { Payees } from '../lightning/providers/payees.ts'
import type { Clock } from '../platform/system/clock.ts'
import type { Random } from '../platform/system/ids.ts'
import type { Log } from '../platform/telemetry/log.ts'
import type { Metrics } from '../platform/telemetry/metrics.ts'
import { BitcoinPlans } from './bitcoin/bitcoin.ts'
import { PlanInvoices } from './bitcoin/invoices.ts'
import { bitcoinOperations, billingOperations, sandboxBillingOperations } from './operations.ts'
import { BitcoinStore } from './bitcoin/store.ts'
import { PriceCheck } from './price-check.ts'
import { Recheck, CardSubscriptions } from './subscriptions.ts'
import { PlanReminders } from './reminders.ts'
import { Billing } from './service.ts'
import { CardSubscriptionStore } from './store.ts'
import { Secret } from '../platform/keys/secrets.ts'
import type { BillingProvider } from './provider.ts'
import { SandboxBilling, type SandboxBillingOptions } from './sandbox/sandbox.ts'

interface OpenBillingOptions {
  readonly challengeStore: ChallengeStore
  readonly clock: Clock
  readonly counters: ChallengeCounters
  readonly database: Database
  readonly jobs: Jobs
  readonly log: Log
  readonly merchants: Merchants
  readonly metrics: Metrics
  readonly outbox: Outbox
  readonly payees: Payees
  readonly prices: Quotes
  readonly production: boolean
  readonly random: Random
  readonly minting: Minting
  readonly settlements: Settlements
  config(): GatewayConfig
  publicUrl(): string
}

/**
 * Opens the billing of plans, by card and by Lightning, and the subscription gate, which may ask billing for a renewal.
 */
export async function openBilling(options: OpenBillingOptions) {
  const pending = new SqlAdminStore(options.database)
  const cards = await openCards({ ...options, pending })
  const bitcoin = openBitcoin({ ...options, pending })
  return {
    gate: cards.gate,
    bitcoinPlans: bitcoin.plans,
    /** Assigns an approved bitcoin subscription to its account, in the transaction of the approval. */
    approved: bitcoin.plans.approved.bind(bitcoin.plans),
    start: () => cards.billing.start(),
    operations: [...cards.operations, ...bitcoinOperations(bitcoin.plans)],
    jobs: [...cards.billing.jobs, ...bitcoin.reminders.jobs]
  }
}

interface WithPending extends OpenBillingOptions {
  readonly pending: SqlAdminStore
}

async function openCards(options: WithPending) {
  const { config } = options
  const { provider, sandbox } = await openBillingProvider(config(), options)
  const store = new CardSubscriptionStore(options.database)
  const subscriptions = provider === null ? null : new CardSubscriptions({ ...options, provider, store })
  const recheck = subscriptions === null ? null : new Recheck({ ...options, subscriptions, store })
  const billing = new Billing({
    ...options,
    provider,
    prices: provider === null ? null : new PriceCheck({ ...options, provider }),
    subscriptions,
    settings: config
  })
  return {
    billing,
    gate: subscriptionGate(recheck === null ? null : merchant => recheck.ask(merchant)),
    operations: [...billingOperations(billing), ...sandboxBillingOperations(sandbox, id => billing.changed(id))]
  }
}

function openBitcoin(options: WithPending) {
  const { config } = options
  const store = new BitcoinStore(options.database)
  const invoices = new PlanInvoices({ ...options, store })
  const around = { ...options, store, invoices, payee: () => config().payment.serviceName }
  const plans = new BitcoinPlans({
    ...around,
    caps: () => config().plans,
    sold: amountSats => {
      options.counters.payment('subscription', 'invoice', amountSats)
    }
  })
  options.settlements.onSettled('subscription', challenge => plans.settled(challenge))
  return { plans, reminders: new PlanReminders(around) }
}

interface OpenedBillingProvider {
  readonly provider: BillingProvider | null
  /** The same, if it is the sandbox, which has pages. */
  readonly sandbox: SandboxBilling | null
}

async function openBillingProvider(
  { billing }: Pick<GatewayConfig, 'billing'>,
  around: SandboxBillingOptions
): Promise<OpenedBillingProvider> {
  if (billing.kind === 'none') return { provider: null, sandbox: null }
  if (billing.kind === 'sandbox') {
    const sandbox = new SandboxBilling(around)
    return { provider: sandbox, sandbox }
  }
  const {
    key,
    webhookSecret,
    prices: { individual: price },
    url = null
  } = billing
  // Checked with the configuration, with line and column.
  if (key === undefined || webhookSecret === undefined || price === undefined)
    throw new TypeError('billing of kind stripe needs key, webhookSecret and prices.individual')
  // Loaded only where it is used, to save memory.
  const { StripeBilling } = await import('./stripe/stripe.ts')
  const provider = new StripeBilling({
    key: new Secret(key),
    webhookSecret: new Secret(webhookSecret),
    price,
    url,
    timeout: 20_000,
    clock: around.clock
  })
  return { provider, sandbox: null }
}
