import type { Database, Sql } from '../database/database.ts'
import type { EnqueueOptions, JobPage, JobQuery, JobState, JsonObject, Pace, QueueView } from './jobs.ts'

/** Runs nowhere else until it is settled, or its lease lapses. */
export interface ClaimedJob {
  readonly id: string
  readonly queue: string
  readonly data: object
  /** With the id it identifies this claim: a lost one settles nothing. */
  readonly runs: number
  readonly pace: Pace
}

export interface Want {
  readonly queue: string
  readonly most: number
  readonly slowest: Pace
  /** Concurrent jobs per group, quick or other; null for unlimited. */
  readonly perGroup: { readonly quick: number; readonly others: number } | null
}

/** Milliseconds until it is due. */
type NewJob = Pick<EnqueueOptions, 'group' | 'pace' | 'key'> & {
  readonly queue: string
  readonly data: JsonObject
  readonly delay?: number
}

export type RunOutcome =
  | { readonly state: 'done' }
  | { readonly state: 'failed'; readonly reason: string }
  | { readonly state: 'waiting'; readonly reason: string; readonly delay: number }

interface JobRow {
  id: string
  queue: string
  state: JobState
  data: unknown
  group_id: string | null
  reason: string | null
  runs: number
  created_at: Date
  due_at: Date
  started_at: Date | null
  ended_at: Date | null
}

export const CHANNEL = 'boltgate_jobs'
/** Key of a periodic job, kept while it runs: there is one, waiting or running. */
export const PERIODIC = ''
const PURGED = 5_000
const RANK: Readonly<Record<Pace, number>> = { quick: 1, unproven: 0, slow: -1 }

/**
 * The table `jobs`. `next_at` is when a waiting job is due, a running one's lease lapses, or an ended one is deleted.
 * Times are the database's.
 */
export class JobTable {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  get #sql(): Sql {
    return this.#database.sql
  }

  /** Skips jobs whose key a waiting one has. */
  async add(sql: Sql, jobs: readonly NewJob[]): Promise<void> {
    const rows = jobs.map(({ pace = 'unproven', delay = 0, ...job }) => ({ ...job, pace: RANK[pace], delay }))
    await sql`
      with added as (
        insert into jobs (queue, data, group_id, pace, key, due_at, next_at)
        select queue, data, "group", pace, key, at, at
        from jsonb_to_recordset(${sql.json(rows)})
            as job (queue text, data jsonb, "group" text, pace int, key text, delay float8),
          lateral (select now() + delay * interval '1 ms' as at) due
        on conflict do nothing returning queue, next_at)
      select pg_notify(${CHANNEL}, queue) from added where next_at <= now() group by queue`
  }

  /** Claims due jobs, and returns them with the milliseconds until the next is due, null for none. */
  async claim(wants: readonly Want[]): Promise<{ readonly jobs: readonly ClaimedJob[]; readonly inMs: number | null }> {
    const rows = await this.#sql<
      Array<{ id: string | null; queue: string; data: object; runs: number; pace: number; inMs: number | null }>
    >`
      with claimed as (
        update jobs set state = 'running', runs = runs + 1, started_at = now(), next_at = now() + interval '12 s',
          key = case when key = ${PERIODIC} then key end
        where id = any(array(
          select job.id
          from unnest(
            ${wants.map(want => want.queue)}::text[], ${wants.map(want => want.most)}::int[],
            ${wants.map(want => RANK[want.slowest])}::int[], ${wants.map(want => want.perGroup?.quick ?? null)}::int[],
            ${wants.map(want => want.perGroup?.others ?? null)}::int[]) want (queue, most, slowest, quick, others)
          cross join lateral (
            select array_agg(group_id) filter (where places >= want.quick) as full_if_quick,
              array_agg(group_id) filter (where places >= want.others) as full_if_not
            from (
              select group_id, count(*) as places from jobs
              where queue = want.queue and state = 'running' and group_id is not null and next_at > now()
              group by group_id) busy) groups
          cross join lateral (
            select id from jobs job
            where queue = want.queue and ended_at is null and next_at <= now() and pace >= want.slowest
              and (group_id = any(case when pace > 0 then full_if_quick else full_if_not end)) is not true
            order by pace desc, created_at limit want.most for update skip locked) job))
        returning id, queue, data, runs, pace)
      select claimed.*, (
        select extract(epoch from min(next_at) - clock_timestamp()) * 1000
        from jobs where ended_at is null and next_at > now())::float8 as "inMs"
      from (values (1)) one left join claimed on true`
    const jobs = rows.flatMap(({ id, queue, data, runs, pace }) =>
      id === null
        ? []
        : [{ id, queue, data, runs, pace: pace > 0 ? 'quick' : pace === 0 ? 'unproven' : 'slow' } as const]
    )
    return { jobs, inMs: rows[0]?.inMs ?? null }
  }

  /** Leases lapse 12 s after the claim or the last renewal. */
  async renew(jobs: readonly ClaimedJob[]): Promise<void> {
    await this.#sql`
      update jobs set next_at = now() + interval '12 s'
      from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ runs }) => runs)}::int[]) held (job_id, claim)
      where id = job_id and runs = claim and state = 'running'`
  }

  /**
   * Adds a periodic job's next run in the same statement, so that it never stops. Does nothing if another claim has the
   * job.
   */
  async settle({ id, runs }: ClaimedJob, outcome: RunOutcome, every: number | null): Promise<void> {
    const again = outcome.state === 'waiting' ? outcome.delay : null
    const keep = (outcome.state === 'failed' ? 14 * 24 : every === null ? 24 : 1) * 3_600_000
    await this.#sql`
      with settled as (
        update jobs set state = ${outcome.state}, reason = ${outcome.state === 'done' ? null : outcome.reason},
          next_at = now() + ${again ?? keep}::float8 * interval '1 ms',
          due_at = coalesce(now() + ${again}::float8 * interval '1 ms', due_at),
          ended_at = case when ${again}::float8 is null then now() end,
          key = case when ${again}::float8 is not null then key end
        where id = ${id} and runs = ${runs} and state = 'running'
        returning queue, now() + ${every}::float8 * interval '1 ms' as next, ended_at)
      insert into jobs (queue, key, due_at, next_at)
      select queue, ${PERIODIC}, next, next from settled where next is not null and ended_at is not null
      on conflict do nothing`
  }

  async setPace(sql: Sql, queue: string, group: string, pace: Pace): Promise<void> {
    await sql`
      update jobs set pace = ${RANK[pace]}
      where queue = ${queue} and group_id = ${group} and ended_at is null and state = 'waiting' and pace <> ${RANK[pace]}`
  }

  async bringForward(queue: string): Promise<void> {
    await this.#sql`
      update jobs set due_at = now(), next_at = now()
      where queue = ${queue} and ended_at is null and state = 'waiting' and next_at > now()`
  }

  /** Requeues a failed job, or brings the next run of a periodic one forward; false if there is none. */
  async retry(queue: string, id: string, isPeriodic: boolean): Promise<boolean> {
    const found = await this.#sql`
      with failed as (select id from jobs where queue = ${queue} and id = ${id} and state = 'failed'),
        due as (
          update jobs set state = 'waiting', due_at = now(), next_at = now(), ended_at = null from failed
          where case when ${isPeriodic} then queue = ${queue} and key = ${PERIODIC} and state = 'waiting'
            else jobs.id = failed.id and state = 'failed' end)
      select from failed`
    return found.length === 1
  }

  /** Deletes what ended a day ago, periodic runs after an hour and failures after 14 days. */
  async purge(): Promise<void> {
    for (;;) {
      const { count } = await this.#sql`
        delete from jobs where id in (
          select id from jobs where ended_at is not null and next_at <= now() limit ${PURGED} for update skip locked)`
      if (count < PURGED) return
    }
  }

  async counts(): Promise<Array<Omit<QueueView, 'title' | 'every'>>> {
    return await this.#sql<Array<Omit<QueueView, 'title' | 'every'>>>`
      select queue as name,
        (count(*) filter (where state = 'waiting'))::int as waiting,
        (count(*) filter (where state = 'waiting' and next_at > now()))::int as later,
        (count(*) filter (where state = 'running'))::int as running,
        (count(*) filter (where state = 'done'))::int as done,
        (count(*) filter (where state = 'failed'))::int as failed,
        (extract(epoch from max(ended_at) filter (where state = 'done')) * 1000)::float8 as "lastDone",
        (extract(epoch from max(ended_at) filter (where state = 'failed')) * 1000)::float8 as "lastFailed",
        coalesce(extract(epoch from now() - min(next_at) filter (where state = 'waiting' and next_at <= now())), 0)::float8 as overdue
      from jobs group by queue order by queue`
  }

  async list({ page, size, ...query }: JobQuery): Promise<JobPage> {
    const { queue, state } = { queue: query.queue ?? null, state: query.state ?? null }
    const rows = await this.#sql<JobRow[]>`
      select id, queue, state, data, group_id, reason, runs, created_at, due_at, started_at, ended_at from jobs
      where (${queue}::text is null or queue = ${queue}) and (${state}::text is null or state = ${state})
      order by coalesce(ended_at, started_at, created_at) desc, id limit ${size + 1} offset ${(page - 1) * size}`
    const jobs = rows.slice(0, size).map(row => ({
      id: row.id,
      queue: row.queue,
      state: row.state,
      data: row.data,
      group: row.group_id,
      reason: row.reason,
      runs: row.runs,
      createdAt: row.created_at.getTime(),
      dueAt: row.due_at.getTime(),
      startedAt: row.started_at?.getTime() ?? null,
      endedAt: row.ended_at?.getTime() ?? null
    }))
    return { jobs, more: rows.length > size }
  }
}
