import { everyBatch, periodic } from '../../platform/jobs/jobs.ts'
import type { Ledger } from '../balances/ledger.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import { UNKNOWN_GRACE } from '../../lightning/providers/payout-states.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { SessionNews } from './news.ts'
import { prepaidOperations } from './operations.ts'
import { RefundOverrides } from './refund-rules.ts'
import { SessionRefunds } from './refunds.ts'
import { PrepaidSessions, type PrepaidSessionsDependencies } from './service.ts'
import { SessionStore, type ClosedBy } from './store.ts'

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
      periodic('sessions-refunds', 30_000, 'Looks up session refunds in flight', () => refunds.followUp()),
      periodic('sessions-purge', 3_600_000, 'Deletes sessions that ended long ago', () =>
        everyBatch(PURGE_BATCH, size => store.purge(clock.now() - KEPT, size))
      )
    ],
    start: () => news.start(),
    close: () => news.close()
  }
}

export interface SessionCounters {
  readonly opened: (depositSats: number) => void
  readonly toppedUp: (depositSats: number) => void
  readonly closed: (by: ClosedBy) => void
  readonly refund: (result: 'confirmed' | 'failed' | 'skipped', sats: number) => void
  /** A stream waits for a deposit; `timedOut`: it got none. */
  readonly paused: () => void
  readonly timedOut: () => void
}

export function sessionCounters(
  metrics: Metrics,
  counts: () => Promise<{ readonly open: number; readonly stuck: number }>
): SessionCounters {
  const opened = metrics.counter('boltgate_sessions_opened_total', 'Prepaid sessions that were opened.', [])
  const deposits = metrics.counter(
    'boltgate_session_deposits_satoshis_total',
    'Satoshis deposited in sessions, by what for.',
    ['action']
  )
  const closed = metrics.counter('boltgate_sessions_closed_total', 'Sessions that were closed, by whom or what.', [
    'by'
  ])
  const refunds = metrics.counter('boltgate_session_refunds_total', 'Refunds of sessions that ended, by how.', [
    'result'
  ])
  const refunded = metrics.counter('boltgate_session_refunded_satoshis_total', 'Satoshis paid back to clients.', [])
  const pauses = metrics.counter(
    'boltgate_session_pauses_total',
    'Streams that paused for a deposit, by whether it arrived.',
    ['result']
  )
  metrics.sampled('boltgate_sessions_open', 'Sessions that are open.', [], async () => [
    { labels: {}, value: (await counts()).open }
  ])
  metrics.sampled(
    'boltgate_session_refunds_stuck',
    'Refunds of sessions that failed or whose outcome is lost: they need attention.',
    [],
    async () => [{ labels: {}, value: (await counts()).stuck }]
  )
  return {
    opened: sats => {
      opened.inc({})
      deposits.inc({ action: 'open' }, sats)
    },
    toppedUp: sats => {
      deposits.inc({ action: 'topUp' }, sats)
    },
    closed: by => {
      closed.inc({ by })
    },
    refund: (result, sats) => {
      refunds.inc({ result })
      if (result === 'confirmed') refunded.inc({}, sats)
    },
    paused: () => {
      pauses.inc({ result: 'paused' })
    },
    timedOut: () => {
      pauses.inc({ result: 'timeout' })
    }
  }
}
