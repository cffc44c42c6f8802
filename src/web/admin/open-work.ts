import type { Sql } from '../../platform/database/database.ts'
import { integer, moment, optional, records, text } from '../../platform/database/rows.ts'
import { stuck } from '../../selling/sessions/store.ts'

/** Milliseconds after which an unacknowledged refund counts as lost. */
const LOST_AFTER = 600_000
const DAY = 86_400_000

export type OpenWorkName =
  | 'pendingSubscriptions'
  | 'lostRefunds'
  | 'openRefunds'
  | 'stuckSessions'
  | 'refusedOrders'
  | 'failedWebhooks'
  | 'pendingWebhooks'
  | 'ambiguousLeases'

/** What people must see to. `since`: the oldest, in milliseconds since the epoch; null without any. */
export type OpenWork = Readonly<Record<OpenWorkName, { readonly count: number; readonly since: number | null }>>

const rows = records({ name: text<OpenWorkName>(), count: integer(), since: optional(moment()) })

export async function openWork(sql: Sql, now: number): Promise<OpenWork> {
  const [dayAgo, lostBefore] = [new Date(now - DAY), new Date(now - LOST_AFTER)]
  const found = await rows.all(sql`
    select 'pendingSubscriptions' as name, count(*)::int as count, min(created_at) as since
      from pending_subscriptions where state = 'pending'
    union all select 'lostRefunds', count(*)::int, min(created_at) from refunds
      where merchant_id > 0 and status = 'pending' and provider_refund_id is null and created_at <= ${lostBefore}
    union all select 'openRefunds', count(*)::int, min(created_at) from refunds where merchant_id > 0 and status in ('pending', 'processing')
    union all select 'stuckSessions', count(*)::int, min(closed_at) from sessions where ${stuck(sql, lostBefore.getTime())}
    union all select 'refusedOrders', count(*)::int, min(failed_at) from storefront_orders
      where failed_at is not null and claimed_at is null
    union all select 'failedWebhooks', count(*)::int, min(created_at) from webhook_deliveries
      where merchant_id > 0 and created_at >= ${dayAgo} and status = 'failed'
    union all select 'pendingWebhooks', count(*)::int, min(created_at) from webhook_deliveries where merchant_id > 0 and status = 'pending'
    union all select 'ambiguousLeases', count(*)::int, min(lapsed_at) from ambiguous_leases where lapsed_at >= ${dayAgo}`)
  // Each part of the union returns its row.
  return Object.fromEntries(found.map(({ name, ...one }) => [name, one])) as OpenWork
}
