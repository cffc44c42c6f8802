import { isConnectionFault } from '../database/errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { Pace } from './jobs.ts'

/** A job that this process has claimed: nobody else runs it until it is settled, or its time is over. */
export interface ClaimedJob {
  readonly id: string
  readonly data: object
  /** How often it was claimed before. With the id it names this claim: what a lost one would settle is left alone. */
  readonly retryCount: number
  readonly pace: Pace
}

/** What a queue's runner works with. Claiming and settling are statements of their own, outside any transaction. */
export interface RunnerParts {
  readonly name: string
  readonly log: Log
  /** Jobs at once in this process. */
  readonly concurrency: number
  /** Whether jobs of one group are limited, which the claim sees to. */
  readonly isGrouped: boolean
  /** As `QueueOptions.paced`; null where no places are reserved. */
  readonly paced: { readonly slow: number; readonly unproven: number } | null
  /** Milliseconds that one run may take. */
  readonly expiry: number
  /** Claims at most `most` jobs that are due, of groups of at least this pace. */
  claim(most: number, pace: Pace): Promise<readonly ClaimedJob[]>
  run(job: ClaimedJob, signal: AbortSignal): Promise<void>
  /** `error` is null when it went well. */
  settle(job: ClaimedJob, error: { readonly reason: unknown } | null): Promise<void>
  /** Gives back a job that was not finished, so that it is run again. */
  giveBack(job: ClaimedJob): Promise<void>
}

interface Running {
  readonly job: ClaimedJob
  readonly controller: AbortController
  readonly done: Promise<void>
}

/** How often, and after how many milliseconds each, an outcome that could not be written is tried again. */
const SETTLE_TRIES = 5
const SETTLE_REST = 1_000
/** Milliseconds until it tries again when the database was away. */
const AWAY_REST = 2_000
/** Milliseconds that runs get to end once they have been told to. */
const ABORT_REST = 500

/**
 * Runs the jobs of one queue in this process: woken when there may be some, one claim serves all free places. Its
 * timers are the machine's: what is due is decided by the database's clock.
 */
export class JobRunner {
  readonly #parts: RunnerParts
  readonly #running = new Map<string, Running>()
  #looking: Promise<void> | null = null
  #again = false
  /** Jobs may be due for which there was no place. */
  #more = false
  #away = false
  #timer: NodeJS.Timeout | null = null
  #stopped = true

  constructor(parts: RunnerParts) {
    this.#parts = parts
  }

  start(): void {
    this.#stopped = false
    this.wake()
  }

  /** The jobs that run. */
  get running(): readonly ClaimedJob[] {
    return [...this.#running.values()].map(({ job }) => job)
  }

  /** Looks for jobs now; while it is looking, once more afterwards. */
  wake(): void {
    if (this.#stopped) return
    if (this.#looking !== null) {
      this.#again = true
      return
    }
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#looking = this.#look().finally(() => {
      this.#looking = null
      this.#rest()
    })
  }

  /** Claims nothing more, waits at most `ms` for the runs under way, and gives back what did not end. */
  async close(ms: number): Promise<void> {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#looking
    await this.#ended(ms)
    const left = [...this.#running.values()]
    for (const { controller } of left) controller.abort(new Error('the gateway stops'))
    await this.#ended(ABORT_REST)
    for (const { job } of this.#running.values()) {
      this.#parts.log.warn({ queue: this.#parts.name, job: job.id }, 'a job did not end in time; it is run again')
      try {
        await this.#parts.giveBack(job)
      } catch (error) {
        this.#parts.log.warn(
          { err: error, queue: this.#parts.name, job: job.id },
          'a job could not be given back; it is run again when its time is over'
        )
      }
    }
    this.#running.clear()
  }

  async #ended(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, ms)
    await Promise.race([Promise.all([...this.#running.values()].map(({ done }) => done)), late.promise])
    clearTimeout(timer)
  }

  #rest(): void {
    if (this.#stopped) return
    if (this.#again) {
      this.#again = false
      this.wake()
      return
    }
    if (!this.#away) return
    this.#timer = setTimeout(() => {
      this.wake()
    }, AWAY_REST)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const { log, name, concurrency, isGrouped } = this.#parts
    try {
      for (;;) {
        const free = concurrency - this.#running.size
        if (free === 0) {
          this.#more = true
          return
        }
        // One at a time where groups are limited: of several claimed together too many might be of one.
        const most = isGrouped ? 1 : free
        const claimed = await this.#parts.claim(most, this.#slowest())
        this.#away = false
        for (const job of claimed) this.#begin(job)
        if (claimed.length < most) {
          this.#more = isGrouped && this.#running.size > 0
          return
        }
        if (this.#stopped) return
      }
    } catch (error) {
      if (!this.#away || !isConnectionFault(error))
        log.warn({ err: error, queue: name }, 'no jobs could be claimed; it is tried again')
      this.#away = true
    }
  }

  /** The slowest pace for which a place is free. */
  #slowest(): Pace {
    const { paced } = this.#parts
    if (paced === null) return 'slow'
    let [slow, unproven] = [0, 0]
    for (const { job } of this.#running.values()) {
      if (job.pace === 'slow') slow++
      if (job.pace !== 'quick') unproven++
    }
    return unproven >= paced.unproven ? 'quick' : slow >= paced.slow ? 'unproven' : 'slow'
  }

  #begin(job: ClaimedJob): void {
    const controller = new AbortController()
    const done = this.#run(job, controller).finally(() => {
      // After it was given back the same job may be here again, claimed anew.
      if (this.#running.get(job.id)?.controller === controller) this.#running.delete(job.id)
      if (this.#more) this.wake()
    })
    this.#running.set(job.id, { job, controller, done })
  }

  async #run(job: ClaimedJob, controller: AbortController): Promise<void> {
    const { expiry, log, name } = this.#parts
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => {
      const error = new Error(`it took longer than ${expiry / 1000} s`)
      controller.abort(error)
      late.reject(error)
    }, expiry)
    // One that ignores that it should end, and was given back, holds no process.
    timer.unref()
    let outcome: { readonly reason: unknown } | null = null
    try {
      await Promise.race([this.#parts.run(job, controller.signal), late.promise])
    } catch (error) {
      outcome = { reason: error }
    } finally {
      clearTimeout(timer)
    }
    // Stopping is nobody's failure: close gives it back.
    if (outcome !== null && this.#stopped && controller.signal.aborted)
      return await this.#parts.giveBack(job).catch((error: unknown) => {
        log.warn(
          { err: error, queue: name, job: job.id },
          'a job could not be given back; it is run again when its time is over'
        )
      })
    await this.#settle(job, outcome)
  }

  async #settle(job: ClaimedJob, outcome: { readonly reason: unknown } | null): Promise<void> {
    const { log, name } = this.#parts
    for (let tries = 1; ; tries++) {
      try {
        return await this.#parts.settle(job, outcome)
      } catch (error) {
        const last = tries === SETTLE_TRIES || !isConnectionFault(error)
        log.warn(
          { err: error, queue: name, job: job.id },
          last
            ? 'the outcome of a job could not be written; it is run again'
            : 'the outcome of a job could not be written; it is tried again'
        )
        if (last) return
        await new Promise<void>(resolve => {
          setTimeout(resolve, SETTLE_REST)
        })
      }
    }
  }
}
