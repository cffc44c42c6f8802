import type { Migration } from '../migrations.ts'

/** Merchants' stores (contract, Storefront integration resources), and challenges of orders and of plans paid in bitcoin. */
export const storefronts: Migration = {
  name: '0010-storefronts',
  async up (sql) {
    await sql`alter table challenges drop constraint challenges_source_check`
    await sql`alter table challenges add constraint challenges_source_check check (source in ('route', 'proxy', 'ping', 'producer', 'storefront', 'subscription'))`
  }
}
