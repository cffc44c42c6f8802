import type { Database, Sql, TransactionSql } from '../../../src/platform/database/database.ts'
import type {
  EnqueueOptions,
  JobDeclaration,
  JobPage,
  Jobs,
  JsonObject,
  QueueView
} from '../../../src/platform/jobs/jobs.ts'
import type { JobsOptions } from '../../../src/platform/jobs/queue.ts'

/** A job that waits. Times in milliseconds since the epoch. */
export interface Waiting {
  readonly id: string
  readonly queue: string
  readonly data: JsonObject
  readonly startAfter: number | null
  readonly group: string | null
}

/** Jobs that commit or roll back with the caller's transaction, and that run when a test says so, by its own clock. */
export class FakeJobs implements Jobs {
  readonly #runs = new Map<string, JobDeclaration['run']>()
  readonly #database: Database
  readonly #clock: JobsOptions['clock']

  constructor(database: Database, clock: JobsOptions['clock']) {
    this.#database = database
    this.#clock = clock
  }

  /** What is declared again takes the place of what it was. */
  declare(jobs: readonly JobDeclaration[]): void {
    for (const { name, run } of jobs) this.#runs.set(name, run)
  }

  async enqueue(
    sql: TransactionSql | Sql,
    name: string,
    data: JsonObject,
    { startAfter, group, key }: EnqueueOptions = {}
  ): Promise<void> {
    await sql`
      insert into fake_jobs (queue, data, start_after, job_group, key)
      select ${name}::text, ${sql.json(data)}::json, ${startAfter ?? null}::float8, ${group ?? null}::text, ${key ?? null}::text
      where not exists (select 1 from fake_jobs where queue = ${name} and key = ${key ?? null})`
  }

  async hasten(): Promise<void> {}
  async setPace(): Promise<void> {}

  async enqueueAll(sql: TransactionSql | Sql, name: string, jobs: Parameters<Jobs['enqueueAll']>[2]): Promise<void> {
    for (const { data, ...options } of jobs) await this.enqueue(sql, name, data, options)
  }

  async start(): Promise<void> {
    await this.#database
      .sql`create table if not exists fake_jobs (id serial primary key, queue text, data json, start_after float8, job_group text, key text)`
  }

  async waiting(): Promise<Waiting[]> {
    return await this.#database.sql<Waiting[]>`
      select 'job-' || id as id, queue, data, start_after as "startAfter", job_group as group from fake_jobs order by fake_jobs.id`
  }

  /** Runs what is due, one after the other, and what that makes due; answers what each threw, or null. */
  async run(): Promise<Array<Error | null>> {
    const results: Array<Error | null> = []
    for (;;) {
      const due = (await this.waiting()).find(job => job.startAfter === null || job.startAfter <= this.#clock.now())
      if (due === undefined) return results
      await this.#database.sql`delete from fake_jobs where id = ${Number(due.id.slice(4))}`
      results.push(await this.runOne(due))
    }
  }

  /** Runs one job as it is, whether or not it waits: again, for what was lost with its process. */
  async runOne(
    job: Pick<Waiting, 'id' | 'queue' | 'data'>,
    signal = new AbortController().signal
  ): Promise<Error | null> {
    const run = this.#runs.get(job.queue)
    if (run === undefined) throw new Error(`no queue ${job.queue}`)
    try {
      await run({ id: job.id, data: job.data }, signal)
      return null
    } catch (error) {
      if (error instanceof Error) return error
      throw error
    }
  }

  async close(): Promise<void> {}
  async queues(): Promise<readonly QueueView[]> {
    return []
  }
  async list(): Promise<JobPage> {
    return { jobs: [], more: false }
  }
  async retry(): Promise<boolean> {
    return false
  }
}
