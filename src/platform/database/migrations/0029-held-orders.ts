import type { Migration } from '../migrations.ts'

/**
 * Orders whose goods are held are looked for every 20 seconds, among all that strangers have left unpaid for 30 days.
 */
export const heldOrders: Migration = {
  name: '0029-held-orders',
  async up(sql) {
    await sql`create index storefront_orders_held on storefront_orders (hold_asked_at) where hold_id is not null`
  }
}
