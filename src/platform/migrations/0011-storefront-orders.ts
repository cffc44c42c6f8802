import type { Migration } from '../migrations.ts'

/** Orders of the stores (contract, Storefront order). */
export const storefrontOrders: Migration = {
  name: '0011-storefront-orders',
  async up (sql) {
    await sql`select 1`
  }
}
