import type { Migration } from '../migrations.ts'

/**
 * Orders of the stores (contract, Storefront order), who is having the platform's order made and with which address,
 * and what purged orders came to, so that a store's figures do not shrink (decision 149).
 */
export const storefrontOrders: Migration = {
  name: '0011-storefront-orders',
  async up(sql) {
    await sql`
      create table storefront_orders (
        id text primary key,
        storefront_id integer not null references storefronts (id),
        merchant_id integer not null references merchants (id),
        payment_hash text not null unique references challenges (payment_hash),
        status text not null check (status in ('PendingPayment', 'PaidAwaitingDetails', 'PaidWithDetails', 'Fulfilled', 'Shipped')),
        items jsonb not null,
        country text not null,
        state text not null,
        zip text not null,
        subtotal_cents bigint not null check (subtotal_cents >= 0),
        shipping_cents bigint not null check (shipping_cents >= 0),
        tax_cents bigint not null check (tax_cents >= 0),
        total_cents bigint not null check (total_cents = subtotal_cents + shipping_cents + tax_cents),
        total_sats bigint not null check (total_sats > 0),
        email text,
        claim_digest bytea,
        -- sealed for the row
        claim_token text,
        claim_expires_at timestamptz not null,
        claimed_at timestamptz,
        platform_order_id text,
        order_number text,
        tracking_number text,
        tracking_carrier text,
        tracking_url text,
        created_at timestamptz not null,
        paid_at timestamptz,
        mailed_at timestamptz,
        fulfilled_at timestamptz,
        shipped_at timestamptz,
        -- when the platform is asked next how far it is; null when it is asked no more
        next_check_at timestamptz,
        check ((status = 'PendingPayment') = (paid_at is null)),
        check ((claim_digest is null) = (paid_at is null) and (claim_token is null) = (paid_at is null)),
        check ((status in ('PendingPayment', 'PaidAwaitingDetails')) = (claimed_at is null)),
        check ((claimed_at is null) = (platform_order_id is null) and (claimed_at is null) = (order_number is null))
      )`
    await sql`create unique index storefront_orders_claim on storefront_orders (claim_digest)`
    await sql`create unique index storefront_orders_of_platform on storefront_orders (storefront_id, platform_order_id)`
    await sql`create index storefront_orders_of_merchant on storefront_orders (merchant_id, created_at)`
    await sql`create index storefront_orders_unclaimed on storefront_orders (claim_expires_at) where claimed_at is null`
    await sql`create index storefront_orders_claimed on storefront_orders (claimed_at) where claimed_at is not null`
    await sql`create index storefront_orders_open on storefront_orders (next_check_at) where next_check_at is not null`
    await sql`
      create table storefront_claims (
        order_id text primary key references storefront_orders (id) on delete cascade,
        owner text not null,
        lease_until timestamptz not null,
        -- when the platform was asked to make the order and may have done so unheard; null while that is certain not to be
        asked_at timestamptz,
        -- when the order is looked for next; null for at once
        look_at timestamptz,
        -- address and email, sealed for the row
        details text not null,
        fault text
      )`
    await sql`create index storefront_claims_unsure on storefront_claims (asked_at) where asked_at is not null`
    await sql`
      create table storefront_tallies (
        storefront_id integer primary key references storefronts (id),
        checkouts bigint not null,
        paid_orders bigint not null,
        paid_sats bigint not null,
        paid_cents bigint not null,
        fulfilled bigint not null,
        shipped bigint not null,
        first_order_at timestamptz not null,
        last_order_at timestamptz not null
      )`
  }
}
