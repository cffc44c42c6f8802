import type { Migration } from '../migrations.ts'

/** What a request to a proxy costs where its satoshis do not say it: an amount of money, or a table. */
export const proxyPrices: Migration = {
  name: '0054-proxy-prices',
  async up(sql) {
    await sql`alter table proxies add column default_price jsonb`
  }
}
