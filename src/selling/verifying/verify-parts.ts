import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Claims } from '../holding/claims.ts'
import type { ChallengeCounters } from '../challenges/counters.ts'
import type { Revocations } from './revocations.ts'
import type { ChallengeSettings } from '../challenges/settings.ts'

/** What verifying is done with. `keys` and `settings` are asked each time, since a reload changes them. */
export interface VerifyParts {
  readonly claims: Claims
  readonly revocations: Revocations
  readonly clock: Clock
  readonly counters: ChallengeCounters
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}
