import { inspect } from 'node:util'
import { isConnectionFault } from '../database/errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { Counter } from '../telemetry/metrics.ts'
import type { JobDeclaration } from './jobs.ts'
import type { ClaimedJob, JobTable, RunOutcome, Want } from './table.ts'

interface WorkerOptions {
  readonly table: Pick<JobTable, 'claim' | 'renew' | 'settle'>
  readonly declared: ReadonlyMap<string, JobDeclaration>
  readonly log: Log
  readonly runs: Counter<'queue' | 'result'>
  /** Milliseconds within which it looks for due jobs, whatever it was notified of. */
  poll(): number
}

interface Running {
  readonly job: ClaimedJob
  readonly controller: AbortController
  readonly done: Promise<void>
}

/** A job that was lost with its process so often fails, for perhaps it kills them; retried by hand, it has as many more. */
const LOSSES = 50
/** First pause before a retry, which doubles each time. */
const RETRY_DELAY = 5_000
const RENEW_EVERY = 3_000
/** Retries of an outcome that could not be written, and milliseconds between them. */
const SETTLE_TRIES = 5
const SETTLE_REST = 1_000
/** Milliseconds between claims while the database is unavailable. */
const AWAY_REST = 2_000
/** Timers fire a little early, and a claim that comes too soon costs another. */
const LEAST = 5
/** Milliseconds for aborted runs to end. */
const ABORT_REST = 500

/**
 * Runs the jobs of all queues in this process. One statement claims the due jobs of every queue that may have some:
 * after a notification, when a place becomes free, and when the next job is due. Uses machine timers, because the
 * database's clock decides what is due.
 */
export class JobWorker {
  readonly #options: WorkerOptions
  readonly #running = new Map<string, Running>()
  readonly #woken = new Set<string>()
  readonly #behind = new Set<string>()
  #claiming: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #timerAt = Infinity
  readonly #renewal: NodeJS.Timeout
  #renewing: Promise<void> | null = null
  #isAway = false
  #isStopped = false

  constructor(options: WorkerOptions) {
    this.#options = options
    this.#renewal = setInterval(() => {
      this.#renewing ??= this.#renew().finally(() => {
        this.#renewing = null
      })
    }, RENEW_EVERY)
    this.#renewal.unref()
    this.wake()
  }

  wake(queue?: string): void {
    for (const name of queue === undefined ? this.#options.declared.keys() : [queue]) this.#woken.add(name)
    this.#next()
  }

  soon(ms: number): void {
    const wait = Math.max(Math.min(ms, this.#options.poll()), LEAST)
    const at = performance.now() + wait
    if (this.#isStopped || at >= this.#timerAt) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity
      this.wake()
    }, wait)
    this.#timer.unref()
  }

  async close(ms: number): Promise<void> {
    this.#isStopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#claiming
    await this.#ended(ms)
    const left = [...this.#running.values()]
    for (const { controller } of left) controller.abort(new Error('the gateway stops'))
    await this.#ended(ABORT_REST)
    for (const { job } of this.#running.values()) {
      this.#options.log.warn({ queue: job.queue, job: job.id }, 'a job did not end in time; it is run again')
      await this.#giveBack(job)
    }
    this.#running.clear()
    clearInterval(this.#renewal)
    await this.#renewing
  }

  #next(): void {
    if (this.#isStopped || this.#woken.size === 0) return
    this.#claiming ??= this.#claim().finally(() => {
      this.#claiming = null
      this.#next()
    })
  }

  async #ended(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, ms)
    await Promise.race([Promise.all([...this.#running.values()].map(({ done }) => done)), late.promise])
    clearTimeout(timer)
  }

  async #claim(): Promise<void> {
    const { log, table } = this.#options
    const poll = this.#options.poll()
    let next = poll
    try {
      while (!this.#isStopped) {
        const wants = [...this.#woken].flatMap(name => this.#want(name))
        this.#woken.clear()
        if (wants.length === 0) break
        const { jobs, inMs } = await table.claim(wants)
        this.#isAway = false
        next = Math.min(next, inMs ?? poll)
        for (const job of jobs) {
          const declared = this.#options.declared.get(job.queue)
          if (declared !== undefined) this.#begin(job, declared)
        }
        for (const { queue, most, perGroup } of wants) {
          const isFull = jobs.filter(job => job.queue === queue).length === most
          if (isFull) this.#woken.add(queue)
          else if (perGroup !== null) this.#behind.add(queue)
        }
      }
    } catch (error) {
      if (!this.#isAway || !isConnectionFault(error))
        log.warn({ err: error }, 'no jobs could be claimed; it is tried again')
      this.#isAway = true
      next = Math.max(AWAY_REST, poll)
    }
    this.soon(next)
  }

  #want(queue: string): Want[] {
    const declared = this.#options.declared.get(queue)
    if (declared === undefined) return []
    const { concurrency, paced, perGroup } = declared.options
    const running = [...this.#running.values()].flatMap(({ job }) => (job.queue === queue ? [job] : []))
    const free = concurrency - running.length
    if (free === 0) {
      this.#behind.add(queue)
      return []
    }
    // One at a time where groups are limited: several claimed together might exceed one group's limit.
    if (perGroup === undefined) return [{ queue, most: free, slowest: 'slow', perGroup: null }]
    if (paced === undefined)
      return [{ queue, most: 1, slowest: 'slow', perGroup: { quick: perGroup, others: perGroup } }]
    const slow = running.filter(({ pace }) => pace === 'slow').length
    const unproven = running.filter(({ pace }) => pace !== 'quick').length
    const slowest = unproven >= paced.unproven ? 'quick' : slow >= paced.slow ? 'unproven' : 'slow'
    return [{ queue, most: 1, slowest, perGroup: { quick: perGroup, others: 1 } }]
  }

  #begin(job: ClaimedJob, declared: JobDeclaration): void {
    const controller = new AbortController()
    const done = this.#run(job, declared, controller).finally(() => {
      // Its lease may have lapsed, and this process may have claimed it again.
      if (this.#running.get(job.id)?.controller === controller) this.#running.delete(job.id)
      if (this.#behind.delete(job.queue)) this.wake(job.queue)
    })
    this.#running.set(job.id, { job, controller, done })
  }

  async #run(
    job: ClaimedJob,
    { every, options: { expiry = 60_000, retries = 0 }, run }: JobDeclaration,
    controller: AbortController
  ): Promise<void> {
    const { log, runs } = this.#options
    const { id, queue } = job
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => {
      const error = new Error(`it took longer than ${expiry / 1000} s`)
      controller.abort(error)
      late.reject(error)
    }, expiry)
    // A run that ignores its signal, and was released, does not keep the process alive.
    timer.unref()
    let outcome: RunOutcome = { state: 'done' }
    try {
      if (job.runs % (LOSSES + 1) === 0) throw new Error('the processes that ran it ended, or hung, too often')
      await Promise.race([run(job, controller.signal), late.promise])
    } catch (error) {
      if (this.#isStopped && controller.signal.aborted) return await this.#giveBack(job)
      const reason = reasonOf(error)
      const isRetried = every === null && job.runs <= retries
      outcome = isRetried
        ? { state: 'waiting', reason, delay: RETRY_DELAY * 2 ** (job.runs - 1) * (1 + Math.random()) }
        : { state: 'failed', reason }
      log.warn(
        { err: error, queue, job: id, run: job.runs },
        isRetried ? 'a job failed; it is tried again' : 'a job failed'
      )
    } finally {
      clearTimeout(timer)
    }
    if (!(await this.#settle(job, outcome, every))) return
    runs.inc({ queue, result: outcome.state === 'done' ? 'done' : 'failed' })
    if (outcome.state === 'waiting') this.soon(outcome.delay)
    else if (every !== null) this.soon(every)
  }

  async #settle(job: ClaimedJob, outcome: RunOutcome, every: number | null): Promise<boolean> {
    const { log, table } = this.#options
    for (let tries = 1; ; tries++) {
      try {
        await table.settle(job, outcome, every)
        return true
      } catch (error) {
        const isLast = tries === SETTLE_TRIES || !isConnectionFault(error)
        const text = `the outcome of a job could not be written; it is ${isLast ? 'run' : 'tried'} again`
        log.warn({ err: error, queue: job.queue, job: job.id }, text)
        if (isLast) return false
        await new Promise<void>(resolve => {
          setTimeout(resolve, SETTLE_REST)
        })
      }
    }
  }

  async #giveBack(job: ClaimedJob): Promise<void> {
    const { log, table } = this.#options
    const outcome = { state: 'waiting', reason: 'the gateway stopped before it was finished', delay: 0 } as const
    try {
      await table.settle(job, outcome, null)
    } catch (error) {
      const about = { err: error, queue: job.queue, job: job.id }
      log.warn(about, 'a job could not be given back; it is run again when its lease lapses')
    }
  }

  async #renew(): Promise<void> {
    const jobs = [...this.#running.values()].map(({ job }) => job)
    if (jobs.length === 0) return
    try {
      await this.#options.table.renew(jobs)
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the leases of running jobs could not be renewed; it is tried again')
    }
  }
}

/** PostgreSQL keeps no NUL, which texts of third parties may hold, and anything may be thrown. */
function reasonOf(error: unknown): string {
  const text: unknown = error instanceof Error ? error.message || error.name : error
  return (typeof text === 'string' ? text : inspect(text)).replaceAll('\0', '\u{fffd}')
}
