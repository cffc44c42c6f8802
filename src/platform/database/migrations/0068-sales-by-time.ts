import type { Migration } from '../migrations.ts'

/**
 * The indexes of sales held each payment hash a second and a third time, for the order of what was sold in the same
 * moment: 270 bytes for each sale, and a place of its own among those of its moment. Writing them was an eighth of what a
 * redemption cost PostgreSQL, a sixth of a claim. A page of a list sorts the few of one moment itself.
 */
export const salesByTime: Migration = {
  name: '0068-sales-by-time',
  async up(sql) {
    await sql`
      create index challenges_sold_at on challenges (least(paid_at, settled_at))
      where least(paid_at, settled_at) is not null`
    await sql`
      create index challenges_sold_at_of_merchant on challenges (merchant_id, least(paid_at, settled_at))
      where least(paid_at, settled_at) is not null`
    await sql`drop index challenges_sales`
    await sql`drop index challenges_sales_of_merchant`
  }
}
