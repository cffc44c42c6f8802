import type { Migration } from '../migrations.ts'

/**
 * The poller asks every few seconds for orders and plans that may have been paid unheard; it must not read every
 * challenge for them.
 */
export const soldChallenges: Migration = {
  name: '0015-sold-challenges',
  async up(sql) {
    await sql`create index challenges_sold on challenges (expires_at) where source in ('storefront', 'subscription') and settled_at is null`
  }
}
