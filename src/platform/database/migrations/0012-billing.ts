import type { Migration } from '../migrations.ts'

/**
 * Subscriptions by card: each as the billing provider last said it is, with the ticket of the newest look at it, so
 * that what an older look saw is never written; and the checkouts and subscriptions of the sandbox, which has no
 * provider to keep them.
 */
export const billing: Migration = {
  name: '0012-billing',
  async up(sql) {
    await sql`
      create table card_subscriptions (
        subscription_id text primary key,
        -- of the newest look that was begun; only that one may write
        ticket bigint not null,
        -- the rest is null until a look was written
        merchant_id integer references merchants (id),
        customer_id text,
        plan_tier text,
        status text,
        current_period_end timestamptz,
        started_at timestamptz
      )`
    await sql`create index card_subscriptions_of_merchant on card_subscriptions (merchant_id) where merchant_id is not null`
    await sql`create index merchants_of_subscription on merchants (billing_subscription_id) where billing_subscription_id is not null`
    await sql`
      create table sandbox_billing_sessions (
        session_id text primary key,
        kind text not null check (kind in ('checkout', 'portal')),
        -- a checkout as it was asked for, or where a portal leads back to
        request jsonb not null,
        -- null until the checkout is completed
        subscription_id text,
        customer_id text,
        idempotency_key text unique,
        created_at timestamptz not null
      )`
    await sql`
      create table sandbox_subscriptions (
        subscription_id text primary key,
        customer_id text not null,
        merchant_id integer,
        email text not null,
        customer_name text,
        plan_tier text not null,
        status text not null,
        current_period_end timestamptz not null,
        started_at timestamptz not null
      )`
    await sql`create index sandbox_subscriptions_of_customer on sandbox_subscriptions (customer_id)`
  }
}
