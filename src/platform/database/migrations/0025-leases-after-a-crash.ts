import type { Migration } from '../migrations.ts'

/**
 * What becomes of a lease whose gateway died: `lease_final` ones count as spent once they have lapsed (decision 183),
 * and are kept for the operator in `ambiguous_leases`, since challenges are purged. `client_gone` counts how often a
 * payment came back for a client that had left (decision 184). No index has these columns, as migration 0016 asks.
 */
export const leasesAfterACrash: Migration = {
  name: '0025-leases-after-a-crash',
  async up(sql) {
    await sql`
      alter table challenges
        add column lease_final boolean not null default false,
        add column client_gone smallint not null default 0`
    await sql`
      create table ambiguous_leases (
        lease_id text primary key,
        lease_gateway text not null,
        payment_hash text not null,
        source text not null,
        merchant_id text,
        proxy_id text,
        method text not null,
        path text not null,
        amount_sats bigint not null,
        lapsed_at timestamptz not null
      )`
    await sql`create index ambiguous_leases_newest on ambiguous_leases (lapsed_at desc, lease_id desc)`
  }
}
