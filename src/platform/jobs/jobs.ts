import type { Sql, TransactionSql } from '../database/database.ts'
import type { JobPage, JobQuery, QueueCounts } from './table.ts'

export type { JobPage, JobQuery, JobState, JobView } from './table.ts'

/** What JSON can hold. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

/** What a job carries: small, without secrets, since operators see it at /jobs. Ids rather than what they stand for. */
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
  /**
   * How often a run that threw is tried again by itself, with growing pauses from 5 s on; 0 unless said. One that was
   * lost with its process counts too.
   */
  readonly retries?: number
  /**
   * Milliseconds that one run may take; 60,000 unless said, at least 1,000. Then its signal is aborted and it has
   * failed. Jobs of a killed process are run again by another within 25 s, which does not count as a failure.
   */
  readonly expiry?: number
  /**
   * Milliseconds, 2,000 unless said, within which jobs whose time has come are found. Those due at once are told at
   * once.
   */
  readonly poll?: number
}

/** How long the latest jobs of a group took; nothing is known of an unproven group. */
export type Pace = 'quick' | 'unproven' | 'slow'

/** How one job is added. */
export interface EnqueueOptions {
  /** Milliseconds since the epoch of the Clock; at once unless said. */
  readonly startAfter?: number
  /** Whose it is, for `perGroup`. */
  readonly group?: string
  /** Pace of the group, in a `paced` queue; `unproven` by default. */
  readonly pace?: Pace
  /** While a job with this key waits in the queue, another is not added: the one that waits stays as it is. */
  readonly key?: string
}

/**
 * What runs a job. `signal` is aborted when its time is over or the gateway stops. It may run twice: a killed process
 * cannot say how far it came.
 */
export type RunJob<T extends JsonObject> = (
  job: { readonly id: string; readonly data: T },
  signal: AbortSignal
) => Promise<void>

/** A queue for the dashboard. */
export interface QueueView extends QueueCounts {
  readonly title: string
  /** Milliseconds between the runs of a periodic job; null for queues. */
  readonly every: number | null
}

/**
 * Work that is done behind the requests, kept in the database: it survives the process, and is done by whichever
 * process of those that share the database has a place for it. When a job is due is decided by the database's own
 * clock; whatever decides about money asks the injected Clock again in the handler. A job is run at least once, so
 * handlers must bear repetition.
 */
export interface Jobs {
  /**
   * Takes what the domains declare; before `start`. @throws TypeError for a name that is declared twice, or too late
   */
  declare(jobs: readonly JobDeclaration[]): void
  /**
   * Adds a job: it stands or falls with the transaction of `sql`, or is there at once with `database.sql`.
   * Before `start` has succeeded, waits up to 5 s for it; not in a transaction, whose connection `start` may need.
   * @throws JobsNotStarted when it has not; isConnectionFault knows it
   */
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
  /**
   * Makes the tables that are missing and begins to run jobs. Rejects when the database is away, and may be called
   * again.
   */
  start(): Promise<void>
  /** Claims nothing more, waits a while for what runs, and gives back what did not end. */
  close(): Promise<void>
  /** Every queue of this process or the database. */
  queues(): Promise<readonly QueueView[]>
  list(query: JobQuery): Promise<JobPage>
  /** Has a failed job run again. False when there is none. */
  retry(queue: string, id: string): Promise<boolean>
  /** Has a periodic job run at once, in any process, and not only when its time has come. Nothing before `start`. */
  hasten(name: string): Promise<void>
}

/**
 * A queue or a periodic job, as its domain declares it: a domain gives a list of these, and composition hands it to
 * `Jobs`.
 */
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
 * the next comes all the same. `expiry` as for queues.
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
