import type { Migration } from '../migrations.ts'

/**
 * What an order of a store needs beyond its happy path: the taxes as the shop worked them out, the goods that the shop
 * holds for it, why the shop refused it, that the shop has called it off, and what its buyer wants given back.
 */
export const storefrontTroubles: Migration = {
  name: '0021-storefront-troubles',
  async up(sql) {
    await sql`
      alter table storefront_orders
        add column tax_lines jsonb not null default '[]',
        add column taxes_included boolean not null default false,
        -- once the shop was asked to hold the goods, which is asked once; the hold's own id where the shop gave one
        add column hold_asked_at timestamptz,
        add column hold_id text,
        -- why the shop did not make the order, in a word and in the platform's words
        add column failure_code text,
        add column failure_message text,
        add column failed_at timestamptz,
        -- called off at the shop
        add column canceled_at timestamptz,
        -- where the buyer wants the money back
        add column refund_address text,
        add column refund_type text check (refund_type in ('chain', 'ln')),
        add column refund_asked_at timestamptz,
        -- all that was paid has been given back
        add column refunded_at timestamptz,
        add check ((failure_code is null) = (failed_at is null) and (failure_code is null) = (failure_message is null)),
        add check ((refund_address is null) = (refund_asked_at is null) and (refund_address is null) = (refund_type is null))`
    await sql`create index storefront_orders_failed on storefront_orders (failed_at) where failed_at is not null and claimed_at is null`
    await sql`create index storefront_orders_to_hold on storefront_orders (paid_at) where paid_at is not null and claimed_at is null and hold_asked_at is null`
  }
}
