import { openAudit } from '../../accounts/audit/open.ts'
import { NO_SESSIONS } from '../../accounts/merchants/principal.ts'
import { openMerchants } from '../../accounts/merchants/open.ts'
import { openTraffic } from '../../accounts/traffic/open.ts'
import { Forwarder } from '../../engine/upstream/forwarder.ts'
import { outboundCall } from '../../engine/upstream/outbound.ts'
import { openPrices } from '../../lightning/money/open.ts'
import { openProviders } from '../../lightning/providers/open.ts'
import { DatabaseJobs } from '../../platform/jobs/queue.ts'
import { Sealer } from '../../platform/keys/secrets.ts'
import { systemRandom } from '../../platform/system/ids.ts'
import { Metrics } from '../../platform/telemetry/metrics.ts'
import { openBalances } from '../../selling/balances/open.ts'
import { openChallenges } from '../../selling/challenges/open.ts'
import type { ChallengePages } from '../../selling/paywall/paywall.ts'
import { openSales } from '../../selling/sales/open.ts'
import { openSessions } from '../../selling/sessions/open.ts'
import type { Closers } from './closers.ts'
import type { Open, Running, GatewayEnvironment } from './domains.ts'
import { openState } from '../../platform/state/redis.ts'

/** What every gateway opens: the pay-per-request core. */
export type Core = Awaited<ReturnType<typeof openCore>>

async function openGround(running: Running, environment: GatewayEnvironment, closers: Closers) {
  const { config } = running
  const { clock, database, log, publicUrl, secrets } = environment
  const production = config.mode === 'production'
  const metrics = new Metrics(clock)
  metrics.measureProcess()
  const state = closers.add(await openState(config.state.url, { clock, log }), part => part.close())
  const forwarder = closers.add(new Forwarder({ clock, production }), part => part.close())
  const one = (value: number) => [{ labels: {}, value }]
  metrics.sampled('boltgate_database_up', '1 while the database responds and accepts writes, else 0.', [], async () =>
    one((await database.health()).status === 'unhealthy' ? 0 : 1)
  )
  metrics.sampled(
    'boltgate_database_statements',
    'Statements and transactions that have a connection (running), or wait for one (waiting).',
    ['state'],
    async () => Object.entries(database.load()).map(([name, value]) => ({ labels: { state: name }, value }))
  )
  metrics.sampled('boltgate_state_up', '1 while the shared state (Redis) responds, else 0.', [], async () =>
    one((await state.healthy()) ? 1 : 0)
  )
  const prices = closers.add(openPrices(config, { clock, log, metrics }), part => part.close())
  return {
    call: outboundCall(forwarder.guard),
    clock,
    config: () => running.config,
    database,
    forwarder,
    /** Started after all domains have declared their jobs, closed before them. */
    jobs: new DatabaseJobs({ database, clock, log, metrics }),
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

/** Opens engine, platform, providers, accounts and selling in order of their dependencies. */
export async function openCore(running: Running, environment: GatewayEnvironment, closers: Closers, opened: Open) {
  const ground = await openGround(running, environment, closers)
  const { clock, forwarder, log, metrics, state } = ground
  const { secrets, providerKinds } = environment
  const providers = opened(openProviders({ ...ground, kinds: providerKinds }))
  const { events, payees } = providers
  const { merchants, adminKey, authThrottle } = opened(
    openMerchants({ ...ground, adminKey: secrets.adminKey, events, payees, slotFacts: providers.slotFacts })
  )
  const known = { ...ground, merchants, events, payees }
  const sale = opened(
    openChallenges({
      ...known,
      adminKey,
      paywall: { pages: pagesOnDemand(known, providers.wallet), sandbox: providers.wallet },
      keys: secrets.macaroonKeys,
      requireSellable: ctx => {
        forwarder.breakers.requireSellable(ctx)
      }
    })
  )
  const { challenges, challengeStore, claims, counters, minting, revocations, settings, settlements, verifier } = sale
  const { earnings } = opened(openSales(ground))
  const traffic = opened(openTraffic({ ...ground, generation: () => running.gateway?.generation ?? 0 }))
  const { balances, ledger, balanceStore } = opened(
    openBalances({
      ...known,
      ...sale,
      // Loaded for the first browser.
      keyPages: async shown => (await import('../../web/pay/paywall.ts')).openKeyPages(known)(shown)
    })
  )
  const sessions = opened(openSessions({ ...known, ...sale, balances, balanceStore, ledger }))
  const { trail } = opened(openAudit(ground))
  return {
    ...known,
    adminKey,
    authThrottle,
    balances,
    challengeStore,
    claims,
    counters,
    earnings,
    ledger,
    minting,
    providers,
    revocations,
    running,
    sale,
    sessions,
    settings,
    settlements,
    traffic,
    trail,
    verifier,
    services: {
      adminKey,
      authThrottle,
      balances,
      challenges,
      clock,
      forwarder,
      log,
      merchants,
      metrics,
      outbound: ground.call,
      payees,
      prepaidSessions: sessions.prepaid,
      sessions: NO_SESSIONS,
      state
    }
  }
}

type PaywallDependencies = Parameters<typeof import('../../web/pay/paywall.ts').openPaywall>[0]

/** Payment pages, loaded for the first browser that gets a 402. */
function pagesOnDemand(
  known: Omit<PaywallDependencies, 'sandbox'>,
  sandbox: PaywallDependencies['sandbox']
): ChallengePages {
  let pages: Promise<ChallengePages> | undefined
  return async request => {
    pages ??= import('../../web/pay/paywall.ts').then(({ openPaywall }) => openPaywall({ ...known, sandbox }))
    return (await pages)(request)
  }
}
