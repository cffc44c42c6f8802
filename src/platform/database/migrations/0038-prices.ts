import type { Migration } from '../migrations.ts'

/**
 * Prices that are no satoshis: what a challenge's price was named as, what was asked of a price server for
 * it, and former prices by their text, so that `10` and `USD 0.002` stand beside each other.
 */
export const prices: Migration = {
  name: '0038-prices',
  async up(sql) {
    await sql`alter table challenges add column price text, add column asked text`
    await sql`alter table offered_prices add column price text`
    await sql`update offered_prices set price = amount_sats::text`
    await sql`alter table offered_prices drop constraint offered_prices_pkey`
    await sql`alter table offered_prices drop column amount_sats`
    await sql`alter table offered_prices alter column price set not null, add primary key (place, price)`
  }
}
