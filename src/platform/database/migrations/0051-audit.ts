import type { Migration } from '../migrations.ts'

/**
 * Who changed what. A row is written before the change and gets its status afterwards, so that no change
 * is without one; it outlives its account.
 */
export const audit: Migration = {
  name: '0051-audit',
  async up(sql) {
    await sql`
      create table audit (
        id text primary key,
        at timestamptz not null,
        merchant_id integer,
        actor_kind text not null check (actor_kind in ('key', 'member', 'admin', 'operator')),
        actor text not null,
        operation text not null,
        target jsonb not null,
        change jsonb not null,
        status smallint
      )`
    await sql`create index audit_of_merchant on audit (merchant_id, at desc, id desc)`
    await sql`create index audit_by_time on audit (at desc, id desc)`
  }
}
