import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { ClosedBy } from './store.ts'

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
    'Streams that waited for a deposit, and those that waited in vain.',
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
