import type { Migration } from '../migrations.ts'

/**
 * Webhooks to merchants. A row is written in the transaction that changed what it tells of, with the bytes that every
 * attempt sends; at most one for a payment and status, and one for a challenge.
 */
export const webhooks: Migration = {
  name: '0008-webhooks',
  async up(sql) {
    await sql`
      create table webhook_deliveries (
        id uuid primary key,
        merchant_id integer not null references merchants (id),
        event text not null,
        event_key text not null unique,
        invoice_id text references payments (invoice_id),
        payment_hash text,
        body text not null,
        status text not null check (status in ('pending', 'delivered', 'failed')),
        attempts integer not null default 0,
        -- whether a failed attempt is followed by the next of the schedule; not after a resend of what was decided
        retries boolean not null default true,
        -- while a process is making an attempt
        claimed_until timestamptz,
        -- the job whose failure tells operators of the last one; running it again by hand resends
        failed_job text,
        url text,
        response_status integer,
        response_body text,
        error text,
        created_at timestamptz not null,
        last_attempt_at timestamptz,
        next_attempt_at timestamptz,
        delivered_at timestamptz
      )`
    await sql`create index webhook_deliveries_of_merchant on webhook_deliveries (merchant_id, created_at desc, id desc)`
    await sql`create index webhook_deliveries_purge on webhook_deliveries (created_at)`
    await sql`create index webhook_deliveries_due on webhook_deliveries (next_attempt_at) where status = 'pending'`
  }
}
