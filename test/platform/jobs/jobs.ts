import type { Test as T } from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import {
  periodic,
  queue,
  type Jobs,
  type JsonObject,
  type QueueOptions,
  type RunJob
} from '../../../src/platform/jobs/jobs.ts'
import { DatabaseJobs, type JobsOptions } from '../../../src/platform/jobs/queue.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'

/** A gateway's jobs on a test's database, closed with the test. */
export function openJobs(t: T, database: Database, parts: Partial<JobsOptions> = {}): DatabaseJobs {
  const jobs = new DatabaseJobs({
    database,
    clock: systemClock,
    log: silentLog,
    metrics: new Metrics(),
    patience: 100,
    ...parts
  })
  t.teardown(() => jobs.close())
  return jobs
}

/** Declares a single queue. */
export function declareQueue<T extends JsonObject>(
  jobs: Pick<Jobs, 'declare'>,
  name: string,
  options: QueueOptions,
  run: RunJob<T>
): void {
  jobs.declare([queue(name, options, run)])
}

/** Declares a single periodic job, as `periodic` has it. */
export function declarePeriodic(jobs: Pick<Jobs, 'declare'>, ...job: Parameters<typeof periodic>): void {
  jobs.declare([periodic(...job)])
}

/** Notes what ran, and lets a test wait for it. */
export class Notes {
  readonly ran: string[] = []
  #told = Promise.withResolvers<void>()

  note(what: string): void {
    this.ran.push(what)
    this.#told.resolve()
    this.#told = Promise.withResolvers()
  }

  /** Resolves once there are so many. */
  async until(count: number): Promise<void> {
    while (this.ran.length < count) await this.#told.promise
  }
}

/** What most jobs of the tests carry. */
export interface Numbered {
  readonly [name: string]: number
  readonly n: number
}

/** A queue of the tests. */
export const plain = { title: 'Test', concurrency: 4 }
