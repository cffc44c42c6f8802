import type { Migration } from '../migrations.ts'

/**
 * Refunds, reserved before the provider is asked, and what the sandbox paid out. `provider_refund_id` is null while it
 * is not known whether the provider took the request. A Lightning invoice can be paid once, so two refunds that may
 * have paid cannot share one.
 */
export const refunds: Migration = {
  name: '0006-refunds',
  async up(sql) {
    await sql`
      create table refunds (
        refund_id text primary key check (refund_id ~ '^[1-9][0-9]{14}$'),
        merchant_id integer not null references merchants (id),
        invoice_id text not null references payments (invoice_id),
        status text not null check (status in ('pending', 'processing', 'confirmed', 'failed')),
        refund_type text not null check (refund_type in ('chain', 'ln')),
        refund_address text not null,
        payment_hash text check (payment_hash ~ '^[0-9a-f]{64}$'),
        amount_sats bigint not null check (amount_sats > 0),
        fee_sats bigint not null default 0 check (fee_sats >= 0),
        provider_slot text not null check (provider_slot in ('primary', 'alternate')),
        provider_kind text not null,
        provider_refund_id text,
        transaction_hash text,
        email text,
        reason text,
        created_at timestamptz not null,
        processed_at timestamptz,
        updated_at timestamptz not null,
        next_check_at timestamptz not null,
        check ((refund_type = 'ln') = (payment_hash is not null))
      )`
    await sql`create index refunds_of_merchant on refunds (merchant_id, created_at desc, refund_id desc)`
    await sql`create index refunds_of_invoice on refunds (invoice_id)`
    await sql`create index refunds_to_check on refunds (next_check_at) where status in ('pending', 'processing')`
    await sql`create unique index refunds_of_lightning_invoice on refunds (merchant_id, payment_hash) where payment_hash is not null and status <> 'failed'`
    await sql`
      create table sandbox_payouts (
        payout_id text primary key,
        reference text not null unique,
        type text not null check (type in ('chain', 'ln')),
        destination text not null,
        payment_hash text unique check (payment_hash ~ '^[0-9a-f]{64}$'),
        amount_sats bigint not null check (amount_sats > 0),
        fee_sats bigint not null check (fee_sats >= 0),
        transaction_hash text,
        created_at timestamptz not null,
        confirms_at timestamptz not null,
        check ((type = 'ln') = (payment_hash is not null)),
        check ((type = 'chain') = (transaction_hash is not null))
      )`
  }
}
