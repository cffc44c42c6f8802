import type { PolicyConfig } from '../sections/policy.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import type { State } from '../../platform/state/state.ts'

/**
 * Services for `uses`. Domains add theirs by declaration merging (`declare module '…/gateway/services.ts' { interface
 * Services { challenges: … } }`), so that the engine imports none.
 */
export interface Services {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Counters, replays and caches that workers share. */
  readonly state: State
  readonly policies: Readonly<Record<string, PolicyConfig>>
}
