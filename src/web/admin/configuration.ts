import type { ConfigurationChange, KnownPlugins } from '../../engine/config/effective.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'

/** What became of a file that was saved. `at` in milliseconds since the epoch. */
export interface ReloadNote {
  readonly at: number
  readonly changes: readonly ConfigurationChange[]
  /** Why it is not used; null where it is. */
  readonly problem: string | null
}

/** The configuration of one process. */
export interface RunningConfiguration {
  readonly config: GatewayConfig
  /** As it was at the start, for what a reload does not change. */
  readonly started: GatewayConfig
  readonly plugins: KnownPlugins
  readonly reload: ReloadNote | null
}
