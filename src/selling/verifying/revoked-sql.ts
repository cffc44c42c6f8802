import type postgres from 'postgres'
import type { Sql } from '../../platform/database/database.ts'

type Fragment = postgres.PendingQuery<postgres.Row[]>

/** Columns of a row that was sold. */
export interface SoldColumns {
  readonly payment: Fragment
  readonly proxy: Fragment
  readonly merchant: Fragment
  /** When it was issued, or when it was known to stand. */
  readonly since: Fragment
}

/** Whether a row's payment, or everything that was issued for its proxy or merchant until some moment, was revoked. */
export function isRevoked(sql: Sql, { payment, proxy, merchant, since }: SoldColumns): Fragment {
  return sql`exists (
    select from revocations where (kind, id) = ('payment', ${payment})
      or (kind, id) = ('proxy', ${proxy}) and revoked_at >= ${since}
      or (kind, id) = ('merchant', ${merchant}) and revoked_at >= ${since})`
}
