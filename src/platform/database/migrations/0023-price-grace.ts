import type { Migration } from '../migrations.ts'

/**
 * What was asked before the price of now, so that what was paid at it can be served for a while (decision 176): of
 * operators' routes by their place, of proxies beside their prices.
 */
export const priceGrace: Migration = {
  name: '0023-price-grace',
  async up(sql) {
    await sql`
      create table offered_prices (
        place text not null,
        amount_sats bigint not null,
        asked_until timestamptz not null,
        primary key (place, amount_sats)
      )`
    await sql`alter table proxies add column price_grace_seconds integer not null default 0`
    await sql`alter table proxies add column former_prices jsonb not null default '[]'`
  }
}
