import type { Migration } from '../migrations.ts'

/**
 * When a provider was last asked to send the refund of a session: one that it knows nothing of is asked for again where
 * that cannot pay twice. Null in rows that were written before, and by gateways that do not know the column, which ask once.
 */
export const refundsAskedAgain: Migration = {
  name: '0053-refunds-asked-again',
  async up(sql) {
    await sql`alter table sessions add column refund_asked_at timestamptz`
  }
}
