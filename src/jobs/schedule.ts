import type { Clock } from '../system/clock.ts'
import type { Jobs } from './jobs.ts'

/** Work that is done again and again, in one process at a time of all that share the database. */
export interface PeriodicJob {
  readonly name: string
  /** Milliseconds between the end of a run and the next; at most a few seconds more. */
  readonly every: number
  /** For people, at /jobs. */
  readonly title: string
  /** Rejects when it failed: that is seen at /jobs, and the next run comes all the same. */
  run (signal: AbortSignal): Promise<unknown>
}

/** What the domains do periodically. Each decides by the injected Clock what is due; the queue only says when to look. */
export interface ScheduleParts {
  readonly clock: Clock
  readonly payments: {
    /** Writes down which payments have expired, so that their merchants are told (decisions 40 and 157). */
    recordExpiries (): Promise<unknown>
    /** Deletes holds of order ids whose create is dead (decision 45). */
    purgeReservations (): Promise<unknown>
  }
  readonly challenges: {
    /** Deletes what nobody can use any more (decision 173). */
    purge (): Promise<unknown>
    /** Spends the leases of gateways that died, where they are final (decision 183). */
    spendLapsed (): Promise<unknown>
  }
  readonly refunds: {
    /** Looks up refunds that are pending or processing. */
    followUp (now: number): Promise<unknown>
  }
  readonly sandbox: {
    /** Deletes old invoices of the sandbox. */
    purge (): Promise<unknown>
  } | null
}

const SECOND = 1_000
const HOUR = 3_600_000

/**
 * Every periodic job but those that a domain declares with its own queue (the purge of webhook deliveries). A dead
 * process's lease lapses by itself, in the statement of whoever asks for it next; the job only lists those that then count as spent. Expiries of
 * payments are written by each gateway soon after they are due, by the injected Clock; the job does so again where that
 * failed, and shows when it cannot.
 */
export function schedule ({ clock, payments, challenges, refunds, sandbox }: ScheduleParts): PeriodicJob[] {
  return [
    { name: 'payments-expiry', every: 60 * SECOND, title: 'Writes down payments that have expired', run: () => payments.recordExpiries() },
    { name: 'refunds-follow-up', every: 30 * SECOND, title: 'Looks up refunds that are under way', run: () => refunds.followUp(clock.now()) },
    { name: 'payments-purge', every: HOUR, title: 'Gives back order ids of payments that were never made', run: () => payments.purgeReservations() },
    { name: 'leases-ambiguous', every: 60 * SECOND, title: 'Lists payments whose gateway died while their request was under way', run: () => challenges.spendLapsed() },
    { name: 'challenges-purge', every: HOUR, title: 'Deletes challenges that nobody can use any more', run: () => challenges.purge() },
    ...sandbox === null ? [] : [{ name: 'sandbox-purge', every: HOUR, title: 'Deletes old invoices of the sandbox', run: () => sandbox.purge() }]
  ]
}

/** Declares them; before the queue starts. */
export function declareSchedule (jobs: Pick<Jobs, 'every'>, list: readonly PeriodicJob[]): void {
  for (const { name, every, title, run } of list) {
    jobs.every(name, every, title, async signal => { await run(signal) })
  }
}
