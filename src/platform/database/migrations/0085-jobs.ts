import type { Migration } from '../migrations.ts'

/**
 * Background jobs (`platform/jobs/table.ts`), which pg-boss kept in the schema `boltgate_jobs`. Gateways of the version
 * before go on using that schema beside us, so its jobs are moved by `platform/jobs/former-jobs.ts` and not here.
 */
export const jobs: Migration = {
  name: '0085-jobs',
  async up(sql) {
    await sql`
      create table jobs (
        id uuid primary key default gen_random_uuid(),
        queue text not null,
        state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed')),
        data jsonb not null default '{}',
        group_id text,
        pace smallint not null default 0,
        key text,
        runs integer not null default 0,
        reason text,
        created_at timestamptz not null default now(),
        due_at timestamptz not null default now(),
        next_at timestamptz not null default now(),
        started_at timestamptz,
        ended_at timestamptz
      )`
    await sql`create unique index jobs_keys on jobs (queue, key) where key is not null`
    await sql`create index jobs_claims on jobs (queue, pace desc, created_at, next_at) where ended_at is null`
    await sql`create index jobs_next on jobs (next_at) where ended_at is null`
    await sql`create index jobs_groups on jobs (queue, group_id) where state = 'running' and group_id is not null`
  }
}
