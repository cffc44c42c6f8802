import type { Database, Sql } from '../database/database.ts'
import type { Due } from './looks.ts'

/** PostgreSQL schema that pg-boss's tables are in. Its column names are those of the version that package.json pins. */
export const JOBS_SCHEMA = 'boltgate_jobs'

/** As people read it: `waiting` for its time or a place, `running`, `done`, `failed` for good until retried by hand. */
export type JobState = 'waiting' | 'running' | 'done' | 'failed'

/** How many jobs of a queue are in which state. */
export interface QueueCounts extends Readonly<Record<JobState, number>> {
  readonly name: string
  /** Of those that wait, how many are not due yet. */
  readonly later: number
  /** When one last ended well, in milliseconds since the epoch, by the database's clock; null when none is kept. */
  readonly lastDone: number | null
}

/** A job as an operator sees it. Times are milliseconds since the epoch by the database's clock. */
export interface JobView {
  readonly id: string
  readonly queue: string
  readonly state: JobState
  readonly data: unknown
  readonly group: string | null
  /** Why it failed, or failed last before it was tried again; null when it never has. */
  readonly reason: string | null
  /** How often it was begun. */
  readonly runs: number
  readonly createdAt: number
  /** When it is due, or was. */
  readonly dueAt: number
  readonly startedAt: number | null
  readonly endedAt: number | null
}

/** Why a run failed, as it is kept. */
export interface Reason {
  readonly message: string
  readonly stack: string | null
}

/** Which jobs to list, newest first. */
export interface JobQuery {
  readonly queue?: string | undefined
  readonly state?: JobState | undefined
  /** From 1. */
  readonly page: number
  readonly size: number
}

/** One page of jobs; `more` when there are others behind it. */
export interface JobPage {
  readonly jobs: readonly JobView[]
  readonly more: boolean
}

const STATES: Readonly<Record<JobState, readonly string[]>> = {
  waiting: ['created', 'retry'],
  running: ['active'],
  done: ['completed', 'cancelled'],
  failed: ['failed']
}

interface JobRow {
  id: string
  name: string
  state: string
  data: unknown
  group_id: string | null
  output: unknown
  retry_count: number
  created_on: Date
  start_after: Date
  started_on: Date | null
  completed_on: Date | null
}

/** What pg-boss has no call for: lists for people, and a failure that is not tried again by itself. */
export class JobTable {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  get #sql(): Sql {
    return this.#database.sql
  }

  /** When the jobs of each queue are due that has some waiting. */
  async due(names: readonly string[]): Promise<Due[]> {
    // pg-boss's index of what waits holds nothing that is blocked, and is used only where that is asked for.
    const waiting = this.#sql`from boltgate_jobs.job where name = queue and state < 'active' and not blocked`
    return await this.#sql<Due[]>`
      select * from (
        select queue as name, exists (select ${waiting} and start_after <= now()) as "isDue", (
          select (extract(epoch from min(start_after) - clock_timestamp()) * 1000)::float8
          ${waiting} and start_after > now()) as "inMs"
        from unnest(${[...names]}::text[]) queue) found
      where "isDue" or "inMs" is not null`
  }

  /** Of every queue that has jobs. */
  async counts(): Promise<QueueCounts[]> {
    return await this.#sql<QueueCounts[]>`
      select name,
        (count(*) filter (where state in ('created', 'retry')))::int as waiting,
        (count(*) filter (where state in ('created', 'retry') and start_after > now()))::int as later,
        (count(*) filter (where state = 'active'))::int as running,
        (count(*) filter (where state in ('completed', 'cancelled')))::int as done,
        (count(*) filter (where state = 'failed'))::int as failed,
        (extract(epoch from max(completed_on) filter (where state = 'completed')) * 1000)::float8 as "lastDone"
      from boltgate_jobs.job group by name order by name`
  }

  async list({ queue, state, page, size }: JobQuery): Promise<JobPage> {
    const sql = this.#sql
    const rows = await sql<JobRow[]>`
      select id, name, state, data, group_id, output, retry_count, created_on, start_after, started_on, completed_on
      from boltgate_jobs.job
      where ${queue === undefined ? sql`true` : sql`name = ${queue}`}
        and ${state === undefined ? sql`true` : sql`state::text = any(${[...STATES[state]]})`}
      order by coalesce(completed_on, started_on, created_on) desc, id
      limit ${size + 1} offset ${(page - 1) * size}`
    return { jobs: rows.slice(0, size).map(viewOf), more: rows.length > size }
  }

  /** Ends a claimed job as failed for good, to be kept for `keepSeconds`. Leaves it alone when another claim has it. */
  async fail(
    sql: Sql,
    queue: string,
    { id, retryCount }: { readonly id: string; readonly retryCount: number },
    reason: Reason,
    keepSeconds: number
  ): Promise<void> {
    await sql`
      update boltgate_jobs.job
      set state = 'failed', completed_on = now(), output = ${sql.json({ ...reason })}, deletion_seconds = ${keepSeconds}
      where name = ${queue} and id = ${id} and retry_count = ${retryCount} and state = 'active'`
  }

  /** Changes priority and tier of a group's waiting jobs. */
  async rank(sql: Sql, queue: string, group: string, priority: number, tier: string | null): Promise<void> {
    await sql`
      update boltgate_jobs.job set priority = ${priority}, group_tier = ${tier}
      where name = ${queue} and group_id = ${group} and state < 'active' and priority <> ${priority}`
  }

  /** Renews the lease of claimed jobs: without another renewal within `seconds` they count as lost. */
  async renew(
    jobs: ReadonlyArray<{ readonly id: string; readonly retryCount: number }>,
    seconds: number
  ): Promise<void> {
    await this.#sql`
      update boltgate_jobs.job set heartbeat_on = now(), heartbeat_seconds = ${seconds}
      from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ retryCount }) => retryCount)}::int[]) held (job_id, claim)
      where id = held.job_id and retry_count = held.claim and state = 'active'`
  }

  /** Has what waits in a queue be due now. */
  async bringForward(queue: string): Promise<void> {
    await this.#sql`update boltgate_jobs.job set start_after = now() where name = ${queue} and state in ('created', 'retry') and start_after > now()`
  }
}

function viewOf(row: JobRow): JobView {
  const begun = row.started_on !== null
  return {
    id: row.id,
    queue: row.name,
    state: stateOf(row.state),
    data: row.data,
    group: row.group_id,
    reason: reasonOf(row.output),
    runs: begun ? row.retry_count + 1 : 0,
    createdAt: row.created_on.getTime(),
    dueAt: row.start_after.getTime(),
    startedAt: row.started_on?.getTime() ?? null,
    endedAt: row.completed_on?.getTime() ?? null
  }
}

function stateOf(state: string): JobState {
  if (state === 'active') return 'running'
  if (state === 'failed') return 'failed'
  return state === 'created' || state === 'retry' ? 'waiting' : 'done'
}

/** pg-boss itself writes `{value: {message}}`, we write `{message, stack}`. */
function reasonOf(output: unknown): string | null {
  if (typeof output !== 'object' || output === null) return null
  if ('message' in output && typeof output.message === 'string') return output.message
  if (!('value' in output)) return null
  const message = reasonOf(output.value)
  return message === 'job timed out' || message === 'job heartbeat timeout'
    ? 'the process that ran it ended, or stood still for longer than the job may take'
    : message
}
