import type { Migration } from '../migrations.ts'

/**
 * Sign-in links and the sessions that they open, by digests of their tokens; and plans paid in bitcoin with their
 * invoices.
 *
 * A deactivated account's sessions and links end for good, however it was deactivated, so the database itself sees to
 * it: one that is reactivated does not come back signed in.
 */
export const signIn: Migration = {
  name: '0013-sign-in',
  async up(sql) {
    await sql`
      create table sign_in_links (
        digest bytea primary key check (octet_length(digest) = 32),
        request_id text not null unique,
        merchant_id integer not null references merchants (id),
        created_at timestamptz not null,
        expires_at timestamptz not null,
        used_at timestamptz
      )`
    await sql`create index sign_in_links_of_merchant on sign_in_links (merchant_id, created_at)`
    await sql`
      create table sign_in_sessions (
        digest bytea primary key check (octet_length(digest) = 32),
        merchant_id integer not null references merchants (id),
        created_at timestamptz not null,
        expires_at timestamptz not null
      )`
    await sql`create index sign_in_sessions_of_merchant on sign_in_sessions (merchant_id)`
    await sql`
      create function end_sign_ins () returns trigger language plpgsql as $$
      begin
        delete from sign_in_sessions where merchant_id = new.id;
        delete from sign_in_links where merchant_id = new.id;
        return null;
      end $$`
    await sql`
      create trigger merchants_deactivated after update of is_active on merchants
      for each row when (old.is_active and not new.is_active) execute function end_sign_ins()`
    await sql`
      create table bitcoin_subscriptions (
        id text primary key,
        email text not null check (email = lower(email)),
        customer_name text,
        plan_tier text not null,
        merchant_id integer references merchants (id),
        state text not null default 'incomplete' check (state in ('incomplete', 'active', 'past_due', 'canceled', 'replaced')),
        current_period_end timestamptz,
        anchor_day integer check (anchor_day between 1 and 31),
        reminded text check (reminded in ('week', 'three-days', 'day', 'ended', 'canceled')),
        created_at timestamptz not null,
        check (state not in ('active', 'past_due', 'canceled') or (current_period_end is not null and anchor_day is not null))
      )`
    await sql`create index bitcoin_subscriptions_ends on bitcoin_subscriptions (current_period_end) where state in ('active', 'past_due', 'canceled')`
    await sql`create index bitcoin_subscriptions_of_merchant on bitcoin_subscriptions (merchant_id)`
    await sql`create index bitcoin_subscriptions_waiting on bitcoin_subscriptions (email) where merchant_id is null and state <> 'incomplete'`
    await sql`
      create table bitcoin_invoices (
        invoice_id text primary key,
        subscription_id text not null references bitcoin_subscriptions (id),
        payment_hash text not null unique,
        pay_token text not null unique,
        price_usd integer not null,
        amount_sats bigint not null,
        description text not null,
        invoice text not null,
        provider_kind text not null,
        created_at timestamptz not null,
        expires_at timestamptz not null,
        paid_at timestamptz
      )`
    await sql`create index bitcoin_invoices_unpaid on bitcoin_invoices (expires_at) where paid_at is null`
    await sql`create index bitcoin_invoices_of_subscription on bitcoin_invoices (subscription_id, created_at)`
  }
}
