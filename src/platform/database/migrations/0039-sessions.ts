import type { Migration } from '../migrations.ts'

/**
 * Prepaid sessions of the Payment scheme, each beside its balance, whose id is the payment hash of the first deposit.
 * The refund stands in the row from before its provider is asked, as one of a payment does: of a session there is one,
 * which is sent anew, under another reference, only when it is known to have failed. An invoice takes one refund.
 */
export const sessions: Migration = {
  name: '0039-sessions',
  async up(sql) {
    await sql`
      create table sessions (
        id text primary key,
        open_challenge text not null,
        network text not null,
        charge_id text not null,
        provider_slot text not null,
        provider_kind text not null,
        opened_at timestamptz not null,
        idle_ms bigint not null,
        used_at timestamptz not null,
        closed_at timestamptz,
        closed_by text check (closed_by in ('client', 'idle', 'end', 'operator')),
        close_challenge text,
        told_sats bigint,
        told_status text check (told_status in ('succeeded', 'failed', 'skipped')),
        return_invoice text not null,
        return_hash text not null,
        refund_status text check (refund_status in ('pending', 'processing', 'confirmed', 'failed', 'skipped')),
        refund_reference text,
        refund_sats bigint not null default 0,
        refund_fee_sats bigint not null default 0,
        refund_payout_id text,
        refund_begun_at timestamptz,
        refund_ended_at timestamptz,
        refund_check_at timestamptz,
        refund_fault text,
        settled_by text,
        settled_why text,
        check ((closed_at is null) = (closed_by is null)),
        check (refund_status is null or closed_at is not null)
      ) with (fillfactor = 80)`
    await sql`create unique index sessions_return_hash on sessions (return_hash)`
    await sql`create index sessions_open on sessions (used_at) where closed_at is null`
    await sql`create index sessions_unrefunded on sessions (closed_at) where refund_status is null and closed_at is not null`
    await sql`create index sessions_refunds on sessions (refund_check_at) where refund_status in ('pending', 'processing')`
    await sql`create index sessions_failed on sessions (closed_at) where refund_status = 'failed'`
    await sql`create index sessions_newest on sessions (opened_at, id)`
  }
}
