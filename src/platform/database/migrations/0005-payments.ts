import type { Migration } from '../migrations.ts'

/**
 * Merchants' payments. A row stands only once its invoice does: until then an order id is held by a row of
 * `payment_reservations`, which a create that failed gives back (decision 45). Amounts are what the merchant asked for, in
 * its currency; satoshis are what the invoice asks for and what came. Metadata is the compact JSON that webhooks carry,
 * as text, because jsonb would sort its members.
 */
export const payments: Migration = {
  name: '0005-payments',
  async up(sql) {
    await sql`
      create table payments (
        invoice_id text primary key check (invoice_id ~ '^[1-9][0-9]{14}$'),
        merchant_id integer not null references merchants (id),
        order_id text not null,
        status text not null check (status in ('unpaid', 'processing', 'paid', 'underpaid', 'expired', 'refunded')),
        amount numeric not null check (amount >= 0),
        currency text not null check (currency in ('USD', 'EUR', 'GBP', 'BTC')),
        description text,
        customer_email text,
        customer_name text,
        success_url text,
        metadata text,
        pay_token text not null unique,
        provider_slot text not null check (provider_slot in ('primary', 'alternate')),
        provider_kind text not null,
        charge_id text not null,
        invoice text not null,
        payment_hash text not null unique check (payment_hash ~ '^[0-9a-f]{64}$'),
        network text not null,
        onchain_address text,
        checkout_url text,
        amount_sats bigint check (amount_sats > 0),
        received_sats bigint check (received_sats >= 0),
        created_at timestamptz not null,
        expires_at timestamptz not null,
        confirms_at timestamptz,
        paid_at timestamptz,
        updated_at timestamptz not null,
        unique (merchant_id, order_id),
        check ((amount = 0) = (confirms_at is not null)),
        check (amount = 0 or amount_sats is not null)
      )`
    await sql`create index payments_of_merchant on payments (merchant_id, created_at desc, invoice_id desc)`
    await sql`create index payments_of_charge on payments (charge_id)`
    await sql`create index payments_to_confirm on payments (confirms_at) where status = 'unpaid' and confirms_at is not null`
    await sql`create index payments_to_expire on payments (expires_at) where status = 'unpaid'`
    await sql`
      create table payment_reservations (
        merchant_id integer not null references merchants (id),
        order_id text not null,
        reservation_id text not null,
        held_until timestamptz not null,
        primary key (merchant_id, order_id)
      )`
  }
}
