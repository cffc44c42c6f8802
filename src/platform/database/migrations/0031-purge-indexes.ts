import type { Migration } from '../migrations.ts'

/**
 * The purge must find what may go without reading what stays: paid challenges are kept a month longer than unpaid ones,
 * and stood before them in the one index, so each of its statements read them all again. What may go is told by the
 * later end of invoice and token alone. And each challenge that goes is looked for among the idempotency keys that name
 * challenges, which had no index for it.
 */
export const purgeIndexes: Migration = {
  name: '0031-purge-indexes',
  async up(sql) {
    await sql`
      create index challenges_purge_unpaid on challenges (greatest(expires_at, token_expires_at))
      where source in ('route', 'proxy', 'ping') and scheme is null`
    await sql`
      create index challenges_purge_paid on challenges (greatest(expires_at, token_expires_at))
      where source in ('route', 'proxy', 'ping') and scheme is not null`
    await sql`drop index challenges_purge`
    await sql`create index producer_keys_of_challenge on producer_keys (payment_hash)`
  }
}
