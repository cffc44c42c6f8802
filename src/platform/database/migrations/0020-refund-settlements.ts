import type { Migration } from '../migrations.ts'

/**
 * Refunds that an administrator settled by hand, with who did it and why. And a refund may give back what was paid for
 * a store's order, so its `invoice_id` is a payment's or an order's.
 */
export const refundSettlements: Migration = {
  name: '0020-refund-settlements',
  async up(sql) {
    await sql`alter table refunds drop constraint refunds_invoice_id_fkey`
    await sql`
      create table refund_settlements (
        refund_id text primary key references refunds (refund_id),
        outcome text not null check (outcome in ('sent', 'not-sent')),
        settled_by text not null,
        reason text not null,
        correlation_id text not null,
        settled_at timestamptz not null
      )`
    await sql`create index refund_settlements_newest on refund_settlements (settled_at desc)`
  }
}
