import type { Clock } from '../system/clock.ts'
import { periodic, type JobDeclaration } from './jobs.ts'

/**
 * What the domains do periodically. Each decides by the injected Clock what is due; the queue only says when to look.
 */
export interface ScheduleParts {
  readonly clock: Clock
  readonly payments: {
    /** Writes down which payments have expired, so that their merchants are told (decisions 40 and 157). */
    recordExpiries(): Promise<unknown>
    /** Deletes holds of order ids whose create is dead (decision 45). */
    purgeReservations(): Promise<unknown>
  }
  readonly challenges: {
    /** Deletes what nobody can use any more (decision 173). */
    purge(): Promise<unknown>
    /** Spends the leases of gateways that died, where they are final (decision 183). */
    spendLapsed(): Promise<unknown>
  }
  readonly refunds: {
    /** Looks up refunds that are pending or processing. */
    followUp(now: number): Promise<unknown>
  }
  readonly sandbox: {
    /** Deletes old invoices of the sandbox. */
    purge(): Promise<unknown>
  } | null
}

const SECOND = 1_000
const HOUR = 3_600_000

/**
 * The periodic jobs of domains that declare none themselves. A dead process's lease lapses by itself, in the statement
 * of whoever asks for it next; the job only lists those that then count as spent. Expiries of payments are written by
 * each gateway soon after they are due, by the injected Clock; the job does so again where that failed, and shows when
 * it cannot.
 */
export function schedule({ clock, payments, challenges, refunds, sandbox }: ScheduleParts): JobDeclaration[] {
  return [
    periodic('payments-expiry', 60 * SECOND, 'Writes down payments that have expired', () => payments.recordExpiries()),
    periodic('refunds-follow-up', 30 * SECOND, 'Looks up refunds that are under way', () =>
      refunds.followUp(clock.now())
    ),
    periodic('payments-purge', HOUR, 'Gives back order ids of payments that were never made', () =>
      payments.purgeReservations()
    ),
    periodic(
      'leases-ambiguous',
      60 * SECOND,
      'Lists payments whose gateway died while their request was under way',
      () => challenges.spendLapsed()
    ),
    periodic('challenges-purge', HOUR, 'Deletes challenges that nobody can use any more', () => challenges.purge()),
    ...(sandbox === null
      ? []
      : [periodic('sandbox-purge', HOUR, 'Deletes old invoices of the sandbox', () => sandbox.purge())])
  ]
}
