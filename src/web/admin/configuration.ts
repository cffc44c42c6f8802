import type { ConfigurationChange, KnownPlugins } from '../../engine/config/effective.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'

/** Outcome of a reload. `at` in milliseconds since the epoch. */
export interface ReloadNote {
  readonly at: number
  readonly changes: readonly ConfigurationChange[]
  /** Why the file was rejected; null when it is in use. */
  readonly problem: string | null
}

export interface RunningConfiguration {
  readonly config: GatewayConfig
  /** Configuration at startup, for values that a reload does not change. */
  readonly started: GatewayConfig
  readonly plugins: KnownPlugins
  readonly reload: ReloadNote | null
}
