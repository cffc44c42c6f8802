import { everyBatch, periodic } from '../../platform/jobs/jobs.ts'
import type { Ledger } from '../balances/ledger.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import { UNKNOWN_GRACE } from '../../lightning/providers/payout-states.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { sessionCounters } from './counters.ts'
import { SessionNews } from './news.ts'
import { prepaidOperations } from './operations.ts'
import { RefundOverrides } from './refund-rules.ts'
import { SessionRefunds } from './refunds.ts'
import { PrepaidSessions, type PrepaidSessionsDependencies } from './service.ts'
import { SessionStore } from './store.ts'

/** Milliseconds that an ended session is kept. */
const KEPT = 90 * 86_400_000
const PURGE_BATCH = 1_000

export function openSessions(
  dependencies: Omit<
    PrepaidSessionsDependencies,
    'store' | 'refunds' | 'overrides' | 'news' | 'counters' | 'payees'
  > & {
    readonly ledger: Ledger
    readonly metrics: Metrics
    readonly payees: Payees
    readonly random: Random
  }
) {
  const { balanceStore, clock, database, log, metrics } = dependencies
  const store = new SessionStore(database)
  const counters = sessionCounters(metrics, () => store.counts(clock.now() - UNKNOWN_GRACE))
  const news = new SessionNews(database, log)
  const refunds = new SessionRefunds({ ...dependencies, store, balances: balanceStore, news, counters })
  const overrides = new RefundOverrides({ store, refunds, database, clock, log })
  const prepaid = new PrepaidSessions({ ...dependencies, store, refunds, overrides, news, counters })
  return {
    prepaid,
    operations: prepaidOperations({ store, refunds, overrides, clock }),
    jobs: [
      periodic('sessions-close', 10_000, 'Closes idle sessions and pays back what is left', async () => {
        await refunds.sweep()
        await refunds.begin()
      }),
      periodic('sessions-refunds', 30_000, 'Looks up refunds of sessions that are under way', () => refunds.followUp()),
      periodic('sessions-purge', 3_600_000, 'Deletes sessions that ended long ago', () =>
        everyBatch(PURGE_BATCH, size => store.purge(clock.now() - KEPT, size))
      )
    ],
    start: () => news.start(),
    close: () => news.close()
  }
}
