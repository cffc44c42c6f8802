import type { Database, Sql, TransactionSql } from '../database/database.ts'
import type { Clock, Timer } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'
import type { EnqueueOptions, JobDeclaration, JobPage, JobQuery, JsonObject, Pace, QueueView } from './jobs.ts'
import { CHANNEL, JobTable, PERIODIC } from './table.ts'
import { JobWorker } from './worker.ts'

export interface JobsOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Milliseconds that `close` waits for runs; default 10,000. */
  readonly patience?: number
}

/** Milliseconds within which delayed jobs of other processes are found. */
const POLL = 2_000
/** For the embedded database, which no other process has. */
const POLL_EMBEDDED = 5_000
const TEND_EVERY = 10_000
/** A purge reads the whole table. */
const PURGE_EVERY = 600_000

/**
 * Durable background jobs, run by any process that shares the database. The database's clock decides when a job is due;
 * handlers that decide about money check the injected Clock again. Jobs run at least once, so handlers must be
 * idempotent.
 */
export class DatabaseJobs {
  readonly #options: JobsOptions
  readonly #table: JobTable
  readonly #declared = new Map<string, JobDeclaration>()
  readonly #periodic = new Set<string>()
  readonly #runs: Counter<'queue' | 'result'>
  #starting: Promise<void> | null = null
  #worker: JobWorker | null = null
  #isListening = false
  #tending: Promise<void> | null = null
  #timer: Timer | null = null
  #isClosed = false

  constructor(options: JobsOptions) {
    this.#options = options
    this.#table = new JobTable(options.database)
    this.#runs = options.metrics.counter(
      'boltgate_job_runs_total',
      'Runs of background jobs that ended, by queue and result.',
      ['queue', 'result']
    )
    options.metrics.sampled(
      'boltgate_jobs',
      'Background jobs: due (the backlog), running, and failed for good.',
      ['queue', 'state'],
      async () =>
        (await this.queues()).flatMap(({ failed, later, name, running, waiting }) =>
          Object.entries({ due: waiting - later, running, failed }).map(([state, value]) => ({
            labels: { queue: name, state },
            value
          }))
        )
    )
    options.metrics.sampled(
      'boltgate_jobs_oldest_due_seconds',
      'How long the oldest job of the backlog has been due.',
      ['queue'],
      async () => (await this.queues()).map(({ name, overdue }) => ({ labels: { queue: name }, value: overdue }))
    )
  }

  /**
   * Takes what the domains declare. Periodic jobs that are declared after `start` begin when it is called again.
   * @throws TypeError for a name that is declared twice
   */
  declare(jobs: readonly JobDeclaration[]): void {
    for (const job of jobs) {
      if (this.#declared.has(job.name)) throw new TypeError(`The queue ${job.name} is declared twice`)
      if ((job.options.expiry ?? 60_000) < 1_000) throw new TypeError(`The jobs of ${job.name} need at least a second`)
      this.#declared.set(job.name, job)
    }
  }

  /** Adds a job in the transaction of `sql`, or immediately with `database.sql`. */
  async enqueue(
    sql: TransactionSql | Sql,
    name: string,
    data: JsonObject,
    { startAfter, ...options }: EnqueueOptions = {}
  ): Promise<void> {
    // As a delay: the clocks of the gateway and the database may differ.
    const delay = startAfter === undefined ? 0 : Math.max(startAfter - this.#options.clock.now(), 0)
    await this.#table.add(sql, [{ queue: this.#known(name), data, delay, ...options }])
    if (delay > 0) this.#worker?.soon(delay)
  }

  async enqueueAll(
    sql: TransactionSql | Sql,
    name: string,
    jobs: ReadonlyArray<{
      readonly data: JsonObject
      readonly group: string
      readonly pace?: Pace
      readonly key: string
    }>
  ): Promise<void> {
    const queue = this.#known(name)
    await this.#table.add(
      sql,
      jobs.map(job => ({ queue, ...job }))
    )
  }

  async setPace(sql: TransactionSql, name: string, group: string, pace: Pace): Promise<void> {
    await this.#table.setPace(sql, name, group, pace)
  }

  /** Rejects when the database is unavailable, and may be called again. */
  async start(): Promise<void> {
    if (this.#isClosed) return
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null
    })
    await this.#starting
  }

  /** Claims nothing more, waits a while for running jobs, and releases the unfinished ones. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#starting?.catch(() => {})
    this.#timer?.cancel()
    await this.#tending
    await this.#worker?.close(this.#options.patience ?? 10_000)
  }

  async queues(): Promise<readonly QueueView[]> {
    const counts = new Map((await this.#table.counts()).map(row => [row.name, row]))
    return [...new Set([...this.#declared.keys(), ...counts.keys()])].map(name => {
      const declared = this.#declared.get(name)
      const none = {
        name,
        waiting: 0,
        later: 0,
        running: 0,
        done: 0,
        failed: 0,
        lastDone: null,
        lastFailed: null,
        overdue: 0
      }
      return { ...none, ...counts.get(name), title: declared?.options.title ?? name, every: declared?.every ?? null }
    })
  }

  async list(query: JobQuery): Promise<JobPage> {
    return await this.#table.list(query)
  }

  async retry(queue: string, id: string): Promise<boolean> {
    const declared = this.#declared.get(queue)
    // This process cannot run another version's queue.
    if (declared === undefined || !(await this.#table.retry(queue, id, declared.every !== null))) return false
    this.#worker?.wake(queue)
    return true
  }

  async hasten(name: string): Promise<void> {
    await this.#table.bringForward(name)
    this.#worker?.wake(name)
  }

  #known(name: string): string {
    if (!this.#declared.has(name)) throw new TypeError(`There is no queue ${name}`)
    return name
  }

  async #start(): Promise<void> {
    const { database } = this.#options
    if (!this.#isListening)
      await database.listen(CHANNEL, queue => {
        this.#worker?.wake(queue)
      })
    this.#isListening = true
    const hasFormer = this.#worker === null && (await adoptFormerJobs(database))
    const periodic = [...this.#declared.values()].filter(
      ({ name, every }) => every !== null && !this.#periodic.has(name)
    )
    await this.#table.add(
      database.sql,
      periodic.map(({ name }) => ({ queue: name, data: {}, key: PERIODIC }))
    )
    for (const { name } of periodic) this.#periodic.add(name)
    if (this.#isClosed) return
    if (this.#worker === null) this.#run(hasFormer)
    else this.#worker.wake()
  }

  #run(isUpgrade: boolean): void {
    const { clock, database, log } = this.#options
    const declared = this.#declared
    const poll = (): number =>
      database.kind === 'pglite'
        ? POLL_EMBEDDED
        : Math.min(POLL, ...[...declared.values()].map(({ options }) => options.poll ?? POLL))
    this.#worker = new JobWorker({ table: this.#table, declared, log, runs: this.#runs, poll })
    let hasFormer = isUpgrade
    let purgedAt = -Infinity
    const tend = async (): Promise<void> => {
      try {
        if (hasFormer) hasFormer = await adoptFormerJobs(database)
        if (clock.monotonic() - purgedAt < PURGE_EVERY) return
        purgedAt = clock.monotonic()
        await this.#table.purge()
      } catch (error) {
        log.warn({ err: error }, 'old jobs could not be moved or deleted; it is tried again')
      }
    }
    this.#timer = clock.every(TEND_EVERY, () => {
      this.#tending ??= tend().finally(() => {
        this.#tending = null
      })
    })
  }
}

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
    select max(greatest(monitor_claim_on, updated_on)) > now() - interval '1 day' as recently from boltgate_jobs.queue`
  if (kind === 'postgres' && seen?.['recently'] === true) return true
  await sql`drop schema boltgate_jobs cascade`
  return false
}
