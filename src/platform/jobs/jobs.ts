import type { DatabaseJobs } from './queue.ts'

export type Jobs = Pick<DatabaseJobs, keyof DatabaseJobs>

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

/** A job's data: small, ids instead of content, and no secrets, since operators see it at /jobs. */
export interface JsonObject {
  readonly [name: string]: JsonValue
}

export interface QueueOptions {
  readonly title: string
  readonly concurrency: number
  /** Concurrent jobs of one group over all processes, so that one group cannot take all places; default unlimited. */
  readonly perGroup?: number
  /**
   * Reserves places for quick groups. Each process runs at most `slow` jobs of slow groups, and at most `unproven` of
   * slow and unproven groups together, one job per such group. Needs `perGroup`.
   */
  readonly paced?: { readonly slow: number; readonly unproven: number }
  /** Retries of a failed run, with growing pauses from 5 s; default 0. A run lost with its process counts. */
  readonly retries?: number
  /**
   * Timeout of a run; default 60,000, at least 1,000. Aborts its signal and fails the run. A killed
   * process's jobs rerun elsewhere within 25 s, without counting as failures.
   */
  readonly expiry?: number
  /** Milliseconds within which due jobs with a lost notification are found; default 2,000. */
  readonly poll?: number
}

export type Pace = 'quick' | 'unproven' | 'slow'

export interface EnqueueOptions {
  /** Milliseconds since the epoch of the Clock; default now. */
  readonly startAfter?: number
  readonly group?: string
  readonly pace?: Pace
  /** Not empty. Deduplicates jobs that wait for their first run. */
  readonly key?: string
}

/** May run more than once. `signal` aborts on timeout or shutdown. */
export type RunJob<T extends JsonObject> = (
  job: { readonly id: string; readonly data: T },
  signal: AbortSignal
) => Promise<void>

/** `waiting` for its time or a place, `running`, `done`, or `failed` until retried by hand. */
export type JobState = 'waiting' | 'running' | 'done' | 'failed'

export interface QueueView extends Readonly<Record<JobState, number>> {
  readonly name: string
  readonly title: string
  /** Milliseconds between the runs of a periodic job; null for queues. */
  readonly every: number | null
  readonly later: number
  /** The last success in milliseconds since the epoch, by the database's clock; null without one. */
  readonly lastDone: number | null
  /** Seconds since the oldest waiting job was due; 0 without one. */
  readonly overdue: number
  /** The last failure that is not retried, by the same clock. */
  readonly lastFailed: number | null
}

/** A job for operators. Times are milliseconds since the epoch by the database's clock. */
export interface JobView {
  readonly id: string
  readonly queue: string
  readonly state: JobState
  readonly data: unknown
  readonly group: string | null
  readonly reason: string | null
  readonly runs: number
  readonly createdAt: number
  readonly dueAt: number
  readonly startedAt: number | null
  readonly endedAt: number | null
}

export interface JobQuery {
  readonly queue?: string | undefined
  readonly state?: JobState | undefined
  /** From 1. */
  readonly page: number
  readonly size: number
}

export interface JobPage {
  readonly jobs: readonly JobView[]
  readonly more: boolean
}

export interface JobDeclaration {
  readonly name: string
  readonly options: QueueOptions
  readonly every: number | null
  run(job: { readonly id: string; readonly data: object }, signal: AbortSignal): Promise<void>
}

/** A run that throws has failed. Jobs with their own schedule add the next attempt themselves. */
export function queue<T extends JsonObject>(name: string, options: QueueOptions, run: RunJob<T>): JobDeclaration {
  // Only enqueue writes jobs of a queue, and its callers know what the queue carries.
  return { name, options, every: null, run: (job, signal) => run({ id: job.id, data: job.data as T }, signal) }
}

/**
 * Runs about every `ms` milliseconds, in one process at a time. A failure appears at /jobs, and the next run follows
 * anyway. `expiry` as for queues.
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

/** Repeats `run` until a batch of `size` was not full. */
export async function everyBatch(size: number, run: (size: number) => Promise<number>): Promise<void> {
  while ((await run(size)) === size);
}
