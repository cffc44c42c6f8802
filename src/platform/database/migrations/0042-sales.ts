import type { Migration } from '../migrations.ts'

/**
 * What was sold, as a list and as sums. A challenge is sold when it is first known to be paid, by its provider or by a
 * credential; a payment when its status is written as paid, which may be later than the provider's own moment. Payments
 * of versions before have that moment alone.
 *
 * `earnings` has the sums of what was sold before `earnings_until`: of each owner (a merchant's id, nothing for the
 * gateway itself, `*` for all of them) by hour, day and month, for each thing that sums are asked by; the index has all of them,
 * so that a year is read from it alone. None of the columns
 * that the indexes name changes with a spend, a release or a heartbeat, as migration 0016 asks.
 */
export const soldRows: Migration = {
  name: '0042-sales',
  async up(sql) {
    await sql`alter table payments add column sold_at timestamptz`
    await sql`
      create index payments_sold on payments (coalesce(sold_at, paid_at)) where coalesce(sold_at, paid_at) is not null`
    await sql`
      create index payments_sold_of_merchant on payments (merchant_id, coalesce(sold_at, paid_at))
      where coalesce(sold_at, paid_at) is not null`
    await sql`
      create index challenges_sales on challenges (least(paid_at, settled_at), payment_hash)
      where least(paid_at, settled_at) is not null`
    await sql`
      create index challenges_sales_of_merchant on challenges (merchant_id, least(paid_at, settled_at), payment_hash)
      where least(paid_at, settled_at) is not null`
    await sql`
      create table earnings (
        owner text not null,
        dimension text not null,
        grain text not null,
        at timestamptz not null,
        key text not null,
        sales bigint not null,
        sats bigint not null,
        primary key (owner, dimension, grain, at, key) include (sales, sats)
      )`
    await sql`create table earnings_until (id boolean primary key default true check (id), at timestamptz not null)`
    await sql`create index payments_newest on payments (created_at, invoice_id)`
  }
}
