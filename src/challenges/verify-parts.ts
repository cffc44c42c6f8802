import type { TokenKeyRing } from '../lightning/root-key.ts'
import type { Clock } from '../system/clock.ts'
import type { Claims } from './claims.ts'
import type { ChallengeCounters } from './counters.ts'
import type { Revocations } from './revocations.ts'
import type { ChallengeSettings } from './settings.ts'

/** What verifying is done with. `keys` and `settings` are asked each time, since a reload changes them. */
export interface VerifyParts {
  readonly claims: Claims
  readonly revocations: Revocations
  readonly clock: Clock
  readonly counters: ChallengeCounters
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}
