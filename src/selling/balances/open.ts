import { everyBatch, periodic } from '../../platform/jobs/jobs.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Claims } from '../holding/claims.ts'
import type { Offers } from '../offers/offers.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Verifier } from '../verifying/verify.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Settlements } from '../holding/settlements.ts'
import type { Minting } from '../minting/minting.ts'
import { balanceOperations } from './operations.ts'
import { keyOperations, type KeyOptions } from './key-operations.ts'
import { Ledger } from './ledger.ts'
import { Balances } from './service.ts'
import { BalanceStore } from './store.ts'

const ENTRY_RETENTION = 90 * 86_400_000
const BALANCE_RETENTION = 90 * 86_400_000
const PURGE_BATCH = 1_000

export function openBalances(dependencies: {
  readonly challenges: Challenges
  readonly claims: Claims
  readonly clock: Clock
  readonly database: Database
  readonly log: Log
  readonly metrics: Metrics
  readonly keyPages: KeyOptions['pages']
  readonly minting: Minting
  readonly offers: Offers
  readonly prices: Quotes
  readonly settlements: Settlements
  readonly verifier: Verifier
  config(): Pick<GatewayConfig, 'routes'>
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}) {
  const { clock, database, log, metrics, prices, settings, verifier } = dependencies
  const store = new BalanceStore(database)
  const ledger = new Ledger({
    store,
    database,
    clock,
    log,
    settled: chargeCounter(metrics),
    timeout: settings().leaseTimeout
  })
  const balances = new Balances({ ...dependencies, store, ledger, quotes: prices })
  const purge = async (): Promise<void> => {
    const now = clock.now()
    await everyBatch(PURGE_BATCH, size => store.purgeEntries(now - ENTRY_RETENTION, size))
    await everyBatch(PURGE_BATCH, size => store.purge(now - BALANCE_RETENTION, size))
  }
  return {
    balances,
    ledger,
    balanceStore: store,
    operations: [
      ...balanceOperations({ store, ledger, verifier }),
      ...keyOperations({ ...dependencies, store, ledger, pages: dependencies.keyPages })
    ],
    jobs: [
      periodic('balances-sweep', 20_000, 'Settles what gateways that died had reserved of balances', async () => {
        await ledger.sweep()
      }),
      periodic('balances-purge', 3_600_000, 'Deletes old entries of balances, and balances that ended long ago', purge)
    ],
    close: () => ledger.close()
  }
}

/** Counts the charge of a metered request and the loss beyond its balance, in millisatoshis. */
function chargeCounter(metrics: Metrics): (chargedMsat: number, unpaidMsat: number) => void {
  const requests = metrics
    .counterCells('boltgate_metered_requests_total', 'Metered requests that were settled.', [])
    .cell({})
  const charged = metrics
    .counterCells('boltgate_metered_msat_total', 'Millisatoshis that metered requests took from their balances.', [])
    .cell({})
  const unpaid = metrics
    .counterCells(
      'boltgate_metered_unpaid_msat_total',
      'Millisatoshis of usage beyond what was reserved, which the balance could not bear: the seller bears them.',
      []
    )
    .cell({})
  return (chargedMsat, unpaidMsat) => {
    requests.add(1)
    charged.add(chargedMsat)
    unpaid.add(unpaidMsat)
  }
}
