import type { Migration } from '../migrations.ts'

/**
 * What was paid beforehand and is used bit by bit, in millisatoshis. What is left of a balance is
 * `deposited - spent - refunded`; `held` is the part of it that gateways have in their slices, out of which they serve
 * without asking. A deposit is counted once, by its payment hash. An entry stands for each request that was settled, and
 * is purged by age: what it took is in `spent`.
 *
 * The one check says all that money hangs on. Rows that change with every settling leave room in their pages, and no
 * index names what changes, as migration 0016 has it.
 */
export const balances: Migration = {
  name: '0033-balances',
  async up(sql) {
    await sql`
      create table balances (
        id text primary key,
        kind text not null,
        merchant_id text,
        proxy_id text,
        place text not null,
        unit text not null,
        deposited_msat bigint not null,
        spent_msat bigint not null default 0,
        refunded_msat bigint not null default 0,
        held_msat bigint not null default 0,
        state text not null default 'open',
        opened_at timestamptz not null,
        expires_at timestamptz not null,
        check (
          least(spent_msat, refunded_msat, held_msat, deposited_msat - spent_msat - refunded_msat - held_msat) >= 0
        )
      ) with (fillfactor = 50)`
    await sql`create index balances_of_merchant on balances (merchant_id, opened_at)`
    await sql`create index balances_newest on balances (opened_at, id)`
    await sql`create index balances_purge on balances (expires_at)`
    await sql`
      create table balance_deposits (
        payment_hash text primary key,
        balance_id text not null,
        msat bigint not null,
        made_at timestamptz not null
      )`
    await sql`create index balance_deposits_of_balance on balance_deposits (balance_id)`
    await sql`
      create table balance_slices (
        id text primary key,
        balance_id text not null,
        gateway text not null,
        amount_msat bigint not null,
        reserved_msat bigint not null default 0,
        writes integer not null default 0,
        kept_until timestamptz not null,
        check (least(reserved_msat, amount_msat - reserved_msat) >= 0)
      ) with (fillfactor = 50)`
    await sql`create index balance_slices_of_balance on balance_slices (balance_id)`
    await sql`
      create table balance_entries (
        id bigint generated always as identity primary key,
        balance_id text not null,
        made_at timestamptz not null,
        request text not null,
        model text,
        input bigint,
        output bigint,
        msat bigint not null,
        unpaid_msat bigint not null,
        basis text not null
      )`
    await sql`create index balance_entries_of_balance on balance_entries (balance_id, id)`
  }
}
