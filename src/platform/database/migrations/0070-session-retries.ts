import type { Migration } from '../migrations.ts'

/**
 * How often a provider has refused to send the refund of a session. One that was certainly not sent has no status and a
 * `refund_check_at`, before which it is not sent again.
 */
export const sessionRetries: Migration = {
  name: '0070-session-retries',
  async up(sql) {
    await sql`alter table sessions add column refund_refusals integer not null default 0`
  }
}
