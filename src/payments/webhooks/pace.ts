import type { TransactionSql } from '../../platform/database/database.ts'
import type { Pace } from '../../platform/jobs/jobs.ts'
import type { AddedDelivery } from './store.ts'

/** Last quick and last slow or failed response of an endpoint. Milliseconds since the epoch. */
export interface EndpointTimes {
  readonly quickAt: number | null
  readonly slowAt: number | null
}

/** Milliseconds from which an attempt is slow, including timeouts. */
const SLOW = 2_000
/** Milliseconds that an endpoint stays slow after one slow attempt; else it could stall all others. */
const PROBATION = 60_000

export function groupOf({ merchantId, endpointId }: Omit<AddedDelivery, 'id'>): string {
  return endpointId ?? String(merchantId)
}

/** `now` in milliseconds. */
export function paceOf({ quickAt, slowAt }: EndpointTimes, now: number): Pace {
  if (slowAt !== null && (quickAt === null || slowAt >= quickAt || slowAt + PROBATION > now)) return 'slow'
  return quickAt === null ? 'unproven' : 'quick'
}

/**
 * Records an attempt's milliseconds (null: no call) and returns the endpoint's new pace. Locks its row, so that
 * concurrent attempts agree.
 */
export async function recordAttempt(
  sql: TransactionSql,
  endpoint: string,
  before: Pace,
  took: number | null,
  endedAt: number
): Promise<Pace> {
  const isSlow = took !== null && took >= SLOW
  // The usual case writes nothing.
  if (took === null || (!isSlow && before === 'quick')) return before
  const at = new Date(endedAt)
  const [row] = await sql<Array<{ quick_at: Date | null; slow_at: Date | null }>>`
    insert into webhook_paces as kept (endpoint, quick_at, slow_at)
    values (${endpoint}, ${isSlow ? null : at}, ${isSlow ? at : null})
    on conflict (endpoint) do update set
      quick_at = greatest(kept.quick_at, excluded.quick_at), slow_at = greatest(kept.slow_at, excluded.slow_at)
    returning quick_at, slow_at`
  const times = { quickAt: row?.quick_at?.getTime() ?? null, slowAt: row?.slow_at?.getTime() ?? null }
  return paceOf(times, endedAt)
}
