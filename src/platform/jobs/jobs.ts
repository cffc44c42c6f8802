import type { Sql, TransactionSql } from '../database/database.ts'

/** What JSON can hold. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

/** What a job carries: small, ids instead of content, and no secrets, since operators see it at /jobs. */
export interface JsonObject {
  readonly [name: string]: JsonValue
}

/** How a queue's jobs are run. */
export interface QueueOptions {
  /** For people, at /jobs. */
  readonly title: string
  /** Jobs at once in each process. */
  readonly concurrency: number
  /** Jobs of one group at once over all processes, so that one group cannot take all places; no limit by default. */
  readonly perGroup?: number
  /**
   * Reserves places for quick groups: in each process at most `slow` jobs of slow groups run at once, and at most
   * `unproven` of slow and unproven groups together. Such a group runs one job at a time. Needs `perGroup`.
   */
  readonly paced?: { readonly slow: number; readonly unproven: number }
  /** Retries of a run that threw, with growing pauses from 5 s on; 0 by default. A run lost with its process counts. */
  readonly retries?: number
  /**
   * Milliseconds that one run may take; 60,000 by default, at least 1,000. Then its signal is aborted and it has
   * failed. Jobs of a killed process are run again by another within 25 s, which does not count as a failure.
   */
  readonly expiry?: number
  /** Milliseconds, 2,000 by default, within which due jobs are found whose notification was lost. */
  readonly poll?: number
}

/** How long the latest jobs of a group took; nothing is known of an unproven group. */
export type Pace = 'quick' | 'unproven' | 'slow'

/** How one job is added. */
export interface EnqueueOptions {
  /** Milliseconds since the epoch of the Clock; now by default. */
  readonly startAfter?: number
  /** Whose it is, for `perGroup`. */
  readonly group?: string
  /** Pace of the group, in a `paced` queue; `unproven` by default. */
  readonly pace?: Pace
  /** Not empty. While a job with this key waits for its first run, another is not added. */
  readonly key?: string
}

/** Runs a job, perhaps more than once. `signal` is aborted when its time is over or the gateway stops. */
export type RunJob<T extends JsonObject> = (
  job: { readonly id: string; readonly data: T },
  signal: AbortSignal
) => Promise<void>

/** As people read it: `waiting` for its time or a place, `running`, `done`, `failed` for good until retried by hand. */
export type JobState = 'waiting' | 'running' | 'done' | 'failed'

/** A queue for the dashboard: how many of its jobs are in which state. */
export interface QueueView extends Readonly<Record<JobState, number>> {
  readonly name: string
  readonly title: string
  /** Milliseconds between the runs of a periodic job; null for queues. */
  readonly every: number | null
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

/**
 * Work done behind the requests, kept in the database: it survives the process, and any process that shares the database
 * may do it. The database's clock decides when a job is due; what decides about money asks the injected Clock again in
 * the handler. A job runs at least once, so handlers must be idempotent.
 */
export interface Jobs {
  /** Takes what the domains declare. @throws TypeError for a name that is declared twice, or after `start` */
  declare(jobs: readonly JobDeclaration[]): void
  /** Adds a job in the transaction of `sql`, or immediately with `database.sql`. */
  enqueue(sql: TransactionSql | Sql, name: string, data: JsonObject, options?: EnqueueOptions): Promise<void>
  /** The same for several, of which none is delayed, in one statement. */
  enqueueAll(
    sql: TransactionSql | Sql,
    name: string,
    jobs: ReadonlyArray<{
      readonly data: JsonObject
      readonly group: string
      readonly pace?: Pace
      readonly key: string
    }>
  ): Promise<void>
  /** Changes the pace of a group's waiting jobs, in the transaction of `sql`. */
  setPace(sql: TransactionSql, name: string, group: string, pace: Pace): Promise<void>
  /** Begins to run jobs. Rejects when the database is unavailable, and may be called again. */
  start(): Promise<void>
  /** Claims nothing more, waits a while for what runs, and gives back what did not end. */
  close(): Promise<void>
  /** Every queue of this process or the database. */
  queues(): Promise<readonly QueueView[]>
  list(query: JobQuery): Promise<JobPage>
  /** Runs a failed job again; of a periodic job the next run comes now. False when there is none. */
  retry(queue: string, id: string): Promise<boolean>
  /** Makes the next run of a periodic job due now, in any process. */
  hasten(name: string): Promise<void>
}

/** A queue or a periodic job, as its domain declares it; composition hands it to `Jobs`. */
export interface JobDeclaration {
  readonly name: string
  readonly options: QueueOptions
  /** Milliseconds between the runs of a periodic job; null for a queue. */
  readonly every: number | null
  run(job: { readonly id: string; readonly data: object }, signal: AbortSignal): Promise<void>
}

/** Declares a queue. A run that throws has failed. Schedules of their own add the next attempt themselves. */
export function queue<T extends JsonObject>(name: string, options: QueueOptions, run: RunJob<T>): JobDeclaration {
  // Only enqueue writes jobs of a queue, and its callers know what the queue carries.
  return { name, options, every: null, run: (job, signal) => run({ id: job.id, data: job.data as T }, signal) }
}

/**
 * Declares what is run about every `ms` milliseconds, in one process at a time. A run that throws is seen at /jobs, and
 * the next comes anyway. `expiry` as for queues.
 */
export function periodic(
  name: string,
  ms: number,
  title: string,
  run: (signal: AbortSignal) => Promise<unknown>,
  options: Pick<QueueOptions, 'expiry'> = {}
): JobDeclaration {
  return {
    name,
    every: ms,
    options: { ...options, title, concurrency: 1 },
    run: async (_job, signal) => {
      await run(signal)
    }
  }
}
