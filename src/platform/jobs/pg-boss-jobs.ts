import { PgBoss, type SendOptions } from 'pg-boss'
import type { Clock } from '../system/clock.ts'
import { JobsNotStarted, isUniqueViolation } from '../database/errors.ts'
import type { Database, Sql, TransactionSql } from '../database/database.ts'
import { freshId } from '../system/ids.ts'
import { bossDatabase, bossHandle } from './database.ts'
import type { EnqueueOptions, JobDeclaration, Jobs, JsonObject, Pace, QueueView } from './jobs.ts'
import { JobLooks } from './looks.ts'
import { JobRunner, type ClaimedJob } from './runner.ts'
import { JOBS_SCHEMA, JobTable, type JobPage, type JobQuery, type Reason } from './table.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** What jobs are kept and run with. */
export interface JobsParts {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Milliseconds that `close` waits for runs; 10,000 unless said. */
  readonly patience?: number
  /** Milliseconds between looks for jobs whose process was killed; 10,000 unless said. */
  readonly supervise?: number
}

/** How often a job may be lost with its process before it counts as failed: perhaps it is what kills them. */
const LOSSES = 50
/** A periodic job goes on whatever happens. */
const MANY = 1_000_000_000
/** Key of a periodic job: there is one, waiting or running. */
const PERIODIC = 'periodic'
const RETRY_DELAY = 5
const KEEP_DONE = 24 * 60 * 60
const KEEP_PERIODIC = 60 * 60
/** Seconds that failures are kept, longer than what went well: someone must see them. */
const KEEP_FAILED = 14 * 24 * 60 * 60
const DAY = 24 * 60 * 60
/** Milliseconds that `enqueue` waits for the start: longer than a start takes, less than senders of notifications wait. */
const START_WAIT = 5_000
/** Milliseconds within which jobs that another process has added are found, unless a queue wants it sooner. */
const POLL = 2_000
/** The same where there is no other process: what is left are jobs that were lost with a killed one. */
const ALONE = 5_000
/** A claimed job is renewed every so many milliseconds, and lost after so many seconds without that. */
const RENEW_EVERY = 3_000
const LEASE = 12
/** Jobs that may run longer are leased from their claim on; shorter ones from the next renewal. */
const LEASED_FROM = 20_000
/** pg-boss's priority of each pace. Jobs of earlier versions have 0. */
const PRIORITY: Readonly<Record<Pace, number>> = { quick: 1, unproven: 0, slow: -1 }
const NOBODY = '00000000-0000-0000-0000-000000000000'

/** Jobs on pg-boss over the gateway's own database, embedded or PostgreSQL. */
export class PgBossJobs implements Jobs {
  readonly #parts: JobsParts
  readonly #table: JobTable
  readonly #declared = new Map<string, JobDeclaration>()
  readonly #runners = new Map<string, JobRunner>()
  #looks: JobLooks | null = null
  readonly #runs
  #starting: Promise<void> | null = null
  /** Resolves once jobs can be added, or never will. */
  readonly #opened = Promise.withResolvers<void>()
  #boss: PgBoss | null = null
  #renewal: NodeJS.Timeout | null = null
  #renewing: Promise<void> | null = null
  #closed = false

  constructor(parts: JobsParts) {
    this.#parts = parts
    this.#table = new JobTable(parts.database)
    this.#runs = parts.metrics.counter(
      'boltgate_job_runs_total',
      'Runs of background jobs that ended, by queue and result.',
      ['queue', 'result']
    )
  }

  declare(jobs: readonly JobDeclaration[]): void {
    for (const job of jobs) this.#declare(job)
  }

  async enqueue(
    sql: TransactionSql | Sql,
    name: string,
    data: JsonObject,
    options: EnqueueOptions = {}
  ): Promise<void> {
    await this.#send(await this.#started(name, sql), sql, name, data, options)
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
    const rows = jobs.map(({ data, group, pace, key }) => ({ data, ...placed(group, pace), singletonKey: key }))
    const boss = await this.#started(name, sql)
    await boss.insert(name, rows, { db: bossHandle(sql) })
  }

  async setPace(sql: TransactionSql, name: string, group: string, pace: Pace): Promise<void> {
    await this.#table.rank(sql, name, group, PRIORITY[pace], tierOf(pace))
  }

  /** Waits for the start while the gateway begins to serve, unless it would hold a transaction's connection. */
  async #started(name: string, sql: TransactionSql | Sql): Promise<PgBoss> {
    if (!this.#declared.has(name)) throw new TypeError(`There is no queue ${name}`)
    const { database, clock } = this.#parts
    if (this.#boss === null && !this.#closed && sql === database.sql) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = clock.after(START_WAIT, resolve)
      void this.#opened.promise.then(resolve)
      await promise
      timer.cancel()
    }
    if (this.#boss === null) throw new JobsNotStarted()
    return this.#boss
  }

  async #send(
    boss: PgBoss,
    sql: TransactionSql | Sql,
    name: string,
    data: JsonObject,
    { startAfter, group, pace, key }: EnqueueOptions
  ): Promise<void> {
    // As a delay: the clocks of the gateway and the database need not agree.
    const delay = startAfter === undefined ? 0 : Math.max(startAfter - this.#parts.clock.now(), 0) / 1000
    const settings: SendOptions = {
      db: bossHandle(sql),
      // Jobs with the same key are one while they wait, so one without a key gets one of its own.
      singletonKey: key ?? freshId(),
      ...(delay > 0 ? { startAfter: delay.toFixed(3) } : {}),
      ...(group === undefined ? {} : placed(group, pace))
    }
    await boss.send(name, data, settings)
    if (delay > 0) this.#looks?.soon(delay * 1000)
  }

  async start(): Promise<void> {
    if (this.#closed || this.#boss !== null) return
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null
    })
    await this.#starting
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#opened.resolve()
    await this.#starting?.catch(() => {})
    await this.#looks?.close()
    const patience = this.#parts.patience ?? 10_000
    await Promise.all([...this.#runners.values()].map(runner => runner.close(patience)))
    if (this.#renewal !== null) clearInterval(this.#renewal)
    await this.#renewing
    const boss = this.#boss
    this.#boss = null
    // Its own workers are not used, so it has nothing to wait for.
    await boss?.stop({ graceful: false })
  }

  async queues(): Promise<readonly QueueView[]> {
    const counts = new Map(this.#boss === null ? [] : (await this.#table.counts()).map(row => [row.name, row]))
    const names = [...new Set([...this.#declared.keys(), ...counts.keys()])]
    return names.map(name => {
      const declared = this.#declared.get(name)
      const none = { name, waiting: 0, later: 0, running: 0, done: 0, failed: 0, lastDone: null }
      return { ...none, ...counts.get(name), title: declared?.options.title ?? name, every: declared?.every ?? null }
    })
  }

  async list(query: JobQuery): Promise<JobPage> {
    return this.#boss === null ? { jobs: [], more: false } : await this.#table.list(query)
  }

  async retry(queue: string, id: string): Promise<boolean> {
    const boss = this.#boss
    if (boss === null) throw new JobsNotStarted()
    // Of another version's queue this process could run nothing.
    if (!this.#declared.has(queue)) return false
    try {
      // Its types hide that the answer counts what was found.
      const answer = (await boss.retry(queue, id)) as { readonly affected?: number }
      if (answer.affected !== 1) return false
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      // The next run of a periodic job waits already: it is brought forward.
      await this.#table.bringForward(queue)
    }
    this.#runners.get(queue)?.wake()
    return true
  }

  async hasten(name: string): Promise<void> {
    if (this.#boss === null) return
    await this.#table.bringForward(name)
    this.#runners.get(name)?.wake()
  }

  #declare(declared: JobDeclaration): void {
    if (this.#boss !== null || this.#starting !== null)
      throw new TypeError(`The queue ${declared.name} is declared after the start`)
    if (this.#declared.has(declared.name)) throw new TypeError(`The queue ${declared.name} is declared twice`)
    if ((declared.options.expiry ?? 60_000) < 1_000)
      throw new TypeError(`The jobs of ${declared.name} need at least a second`)
    this.#declared.set(declared.name, declared)
  }

  async #start(): Promise<void> {
    const { database, log, supervise = 10_000 } = this.#parts
    const seconds = Math.max(Math.round(supervise / 1000), 1)
    const boss = new PgBoss({
      db: bossDatabase(
        database,
        queue => {
          this.#runners.get(queue)?.wake()
        },
        () => this.#boss === null
      ),
      backend: database.kind,
      schema: JOBS_SCHEMA,
      schedule: false,
      useListenNotify: true,
      superviseIntervalSeconds: seconds,
      monitorIntervalSeconds: seconds,
      maintenanceIntervalSeconds: 600,
      // Flows are not used; commands of migrations are run at once.
      flowIntervalSeconds: DAY,
      bamIntervalSeconds: 600
    })
    boss.on('error', error => {
      log.warn({ err: error }, 'the job queue: a statement failed; it is tried again')
    })
    boss.on('warning', warning => {
      log.warn({ about: warning.data }, `the job queue: ${warning.message}`)
    })
    try {
      await boss.start()
      const known = new Map((await boss.getQueues([...this.#declared.keys()])).map(queue => [queue.name, queue]))
      for (const declared of this.#declared.values()) await this.#make(boss, declared, known.get(declared.name))
      for (const { name, every } of this.#declared.values()) {
        if (every !== null) await this.#send(boss, database.sql, name, {}, { key: PERIODIC })
      }
    } catch (error) {
      await boss.stop({ graceful: false })
      throw error
    }
    this.#boss = boss
    this.#opened.resolve()
    const names = [...this.#declared.keys()]
    const polls = [...this.#declared.values()].map(({ options }) => options.poll ?? POLL)
    const looks = (this.#looks = new JobLooks({
      log,
      // Other processes add jobs as well, and only those that are due at once are told of. Nobody else has the embedded
      // one.
      most: database.kind === 'pglite' ? ALONE : Math.min(POLL, ...polls),
      due: () => this.#table.due(names),
      wake: queue => {
        this.#runners.get(queue)?.wake()
      }
    }))
    for (const declared of this.#declared.values()) {
      const runner = this.#runner(boss, declared)
      this.#runners.set(declared.name, runner)
      if (!this.#closed) runner.start()
    }
    if (this.#closed) return
    looks.soon(0)
    this.#renewal = setInterval(() => {
      this.#renewing ??= this.#renew([...this.#runners.values()].flatMap(({ running }) => running)).finally(() => {
        this.#renewing = null
      })
    }, RENEW_EVERY)
    this.#renewal.unref()
  }

  /** Renews the leases of jobs. */
  async #renew(jobs: readonly ClaimedJob[]): Promise<void> {
    if (jobs.length === 0) return
    try {
      await this.#table.renew(jobs, LEASE)
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'the leases of running jobs could not be renewed; it is tried again')
    }
  }

  /** Makes a queue, or sets the one that is `known` right. */
  async #make(boss: PgBoss, { name, options, every }: JobDeclaration, known: object | undefined): Promise<void> {
    const settings = {
      retryLimit: every === null ? (options.retries ?? 0) + LOSSES : MANY,
      retryDelay: (options.retries ?? 0) === 0 ? 0 : RETRY_DELAY,
      retryBackoff: (options.retries ?? 0) > 0,
      expireInSeconds: lostAfter((options.expiry ?? 60_000) / 1000),
      deleteAfterSeconds: every === null ? KEEP_DONE : KEEP_PERIODIC,
      notify: true
    }
    if (known === undefined) {
      // `short`: one waiting job a key. `exclusive`: one that waits or runs. (pg-boss would also have `stately`, of
      // which it remembers for minutes which keys are running.)
      await boss.createQueue(name, { ...settings, policy: every === null ? 'short' : 'exclusive' })
    } else if (Object.entries(settings).some(([key, value]) => Reflect.get(known, key) !== value)) {
      await boss.updateQueue(name, settings)
    }
    // pg-boss asks once for what it does not know of a queue, over a connection of its own: inside a transaction on the
    // embedded database that would wait for itself for ever.
    await boss.findJobs(name, { id: NOBODY })
  }

  #runner(boss: PgBoss, declared: JobDeclaration): JobRunner {
    const { name, options } = declared
    return new JobRunner({
      name,
      log: this.#parts.log,
      concurrency: options.concurrency,
      isGrouped: options.perGroup !== undefined,
      paced: options.paced ?? null,
      expiry: options.expiry ?? 60_000,
      claim: async (most, pace) => {
        const jobs = await boss.fetch<object>(name, {
          batchSize: most,
          includeMetadata: true,
          ...(options.perGroup === undefined ? {} : { groupConcurrency: limitsOf(options.perGroup, options.paced) }),
          ...(pace === 'slow' ? {} : { minPriority: PRIORITY[pace] })
        })
        const claimed = jobs.map(({ id, data, retryCount, priority }) => ({
          id,
          data,
          retryCount,
          pace: paceOf(priority)
        }))
        if ((options.expiry ?? 60_000) >= LEASED_FROM) await this.#renew(claimed)
        return claimed
      },
      run: (job, signal) => declared.run(job, signal),
      settle: (job, error) => this.#settle(boss, declared, job, error),
      giveBack: async job => {
        await boss.fail(name, job, { message: 'the gateway stopped before it was finished' })
      }
    })
  }

  async #settle(
    boss: PgBoss,
    declared: JobDeclaration,
    job: ClaimedJob,
    error: { readonly reason: unknown } | null
  ): Promise<void> {
    const { name, options, every } = declared
    const reason = error === null ? null : described(error.reason)
    const again = reason !== null && job.retryCount < (options.retries ?? 0)
    if (every === null) await this.#write(boss, this.#parts.database.sql, declared, job, reason, again)
    else {
      // In one transaction: a periodic job never ends without its next run, nor has two.
      await this.#parts.database.transaction(async tx => {
        await this.#write(boss, tx, declared, job, reason, false)
        await this.#send(boss, tx, name, {}, { key: PERIODIC, startAfter: this.#parts.clock.now() + every })
      })
    }
    this.#runs.inc({ queue: name, result: reason === null ? 'done' : 'failed' })
    if (error !== null)
      this.#parts.log.warn(
        { err: error.reason, queue: name, job: job.id, run: job.retryCount + 1 },
        again ? 'a job failed; it is tried again' : 'a job failed'
      )
  }

  async #write(
    boss: PgBoss,
    sql: Sql,
    { name }: JobDeclaration,
    { id, retryCount }: ClaimedJob,
    reason: Reason | null,
    again: boolean
  ): Promise<void> {
    const options = { db: bossHandle(sql) }
    if (reason === null) await boss.complete(name, { id, retryCount }, null, options)
    else if (again) {
      await boss.fail(name, { id, retryCount }, reason, options)
      // When it is due again was decided by pg-boss.
      this.#looks?.soon(0)
    } else await this.#table.fail(sql, name, { id, retryCount }, reason, KEEP_FAILED)
  }
}

/**
 * Seconds after which others take a run for lost: later than what it may take, so that its own process settles it
 * first.
 */
function lostAfter(expiry: number): number {
  return Math.ceil(expiry + Math.min(Math.max(expiry / 10, 1), 5))
}

/** Priority and group of a job. */
function placed(group: string, pace: Pace = 'unproven') {
  const tier = tierOf(pace)
  return { priority: PRIORITY[pace], group: { id: group, ...(tier === null ? {} : { tier }) } }
}

function tierOf(pace: Pace): string | null {
  return pace === 'quick' ? pace : null
}

function paceOf(priority: number): Pace {
  return priority > 0 ? 'quick' : priority === 0 ? 'unproven' : 'slow'
}

function limitsOf(perGroup: number, paced: JobDeclaration['options']['paced']) {
  return paced === undefined ? perGroup : { default: 1, tiers: { quick: perGroup } }
}

function described(reason: unknown): Reason {
  if (!(reason instanceof Error)) return { message: String(reason), stack: null }
  return { message: reason.message === '' ? reason.name : reason.message, stack: reason.stack ?? null }
}
