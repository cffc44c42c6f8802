import type { Database } from '../database/database.ts'

const MOVED = 1_000

/**
 * Moves jobs from pg-boss's tables, used before migration 0085. Gateways of the version before may still use them, so
 * this repeats until none was seen for a day; then drops the schema. A job is in one of the two tables at any time, and
 * one that another gateway runs stays there until it has ended or is lost.
 * @returns whether more may come.
 */
export async function adoptFormerJobs({ kind, sql }: Database): Promise<boolean> {
  const [schema] = await sql`select to_regclass('boltgate_jobs.job') is not null as exists`
  if (schema?.['exists'] !== true) return false
  // No other process has the embedded database.
  const isAlone = kind === 'pglite' ? 1 : 0
  for (;;) {
    const { count } = await sql`
      with moved as (
        delete from boltgate_jobs.job where (name, id) in (
          select name, id from boltgate_jobs.job
          where state in ('created', 'retry', 'failed') or state = 'active' and (
            ${isAlone} = 1 or started_on + expire_seconds * interval '1 s' < now()
            or heartbeat_on + heartbeat_seconds * interval '1 s' < now())
          limit ${MOVED} for update skip locked)
        returning *),
      added as (
        insert into jobs (
          id, queue, state, data, group_id, pace, key, runs, reason, created_at, due_at, next_at, started_at, ended_at)
        select id, name, case when state = 'failed' then 'failed' else 'waiting' end, coalesce(data, '{}'), group_id,
          priority, case when state = 'failed' then null when policy = 'exclusive' then '' when state = 'created' then singleton_key end,
          case when started_on is null then 0 else retry_count + 1 end,
          coalesce(output ->> 'message', output -> 'value' ->> 'message'), created_on, start_after,
          case state when 'failed' then completed_on + deletion_seconds * interval '1 s' else start_after end,
          started_on, case when state = 'failed' then completed_on end
        from moved on conflict do nothing)
      select from moved`
    if (count < MOVED) break
  }
  // A periodic job that another gateway runs is added here once that run is over.
  await sql`
    insert into jobs (queue, key, due_at, next_at)
    select name, '', at, at from boltgate_jobs.job, lateral (select started_on + expire_seconds * interval '1 s' as at) due
    where state = 'active' and policy = 'exclusive' on conflict do nothing`
  const [seen] = await sql`
    select max(greatest(monitor_claim_on, updated_on)) > now() - interval '1 day' as lately from boltgate_jobs.queue`
  if (kind === 'postgres' && seen?.['lately'] === true) return true
  await sql`drop schema boltgate_jobs cascade`
  return false
}
