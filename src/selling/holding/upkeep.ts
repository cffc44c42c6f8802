import { everyBatch, periodic, type JobDeclaration } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ChallengeCounters } from './counters.ts'
import type { ChallengeStore } from './store.ts'

const PURGE_UNPAID = 86_400_000
const PURGE_PAID = 30 * 86_400_000
const BATCH = 1_000
/** Milliseconds after expiry in which lapsed leases are searched; the first run has no limit. */
const LAPSED_WITHIN = 3_600_000

interface ChallengeUpkeepOptions {
  readonly store: Pick<ChallengeStore, 'spendLapsed' | 'purge'>
  readonly counters: Pick<ChallengeCounters, 'ambiguous'>
  readonly clock: Clock
  readonly log: Log
}

export class ChallengeUpkeep {
  readonly #options: ChallengeUpkeepOptions
  /** Lapsed leases of all times have been searched. */
  #lapsedLooked = false

  constructor(options: ChallengeUpkeepOptions) {
    this.#options = options
  }

  /** The next claimant's statement handles a dead process's lease; this job only lists those that count as spent. */
  get jobs(): readonly JobDeclaration[] {
    return [
      periodic('leases-ambiguous', 60_000, 'Lists payments whose gateway died with their request in flight', () =>
        this.spendLapsed()
      ),
      // Often, to keep runs short: a purge saturates the disk.
      periodic('challenges-purge', 60_000, 'Deletes challenges that can no longer be used', () => this.purge())
    ]
  }

  /** Spends final leases of dead gateways (decision 183). */
  async spendLapsed(): Promise<void> {
    const { store, counters, clock, log } = this.#options
    const now = clock.now()
    let spent = 0
    await everyBatch(BATCH, async size => {
      const some = await store.spendLapsed(now, this.#lapsedLooked ? now - LAPSED_WITHIN : 0, size)
      spent += some
      return some
    })
    this.#lapsedLooked = true
    if (spent > 0) {
      counters.ambiguous(spent)
      log.warn(
        { leases: spent },
        'Gateways died with non-repeatable requests in flight; their payments count as spent and are listed at /api/admin/leases/ambiguous'
      )
    }
  }

  /** Deletes rows that no credential can use (decision 173). */
  async purge(): Promise<void> {
    const { store, clock } = this.#options
    const now = clock.now()
    await everyBatch(BATCH, size => store.purge(now - PURGE_UNPAID, now - PURGE_PAID, size))
  }
}
