import type { Clock } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import { MemoryState } from './memory.ts'
import { openRedisState } from './redis.ts'
import type { State } from './state.ts'

export type { State } from './state.ts'

/** How a state is opened. */
export interface StateOptions {
  clock: Clock
  log: Log
  /** Whether the addresses are those of nodes of a Redis Cluster. */
  cluster?: boolean
  /** In front of every Redis key; `bg:` unless said. */
  prefix?: string
}

/**
 * Opens the state: `memory:`, or `redis://…` (`rediss://` with TLS), several with commas between them for a cluster. Redis that is away is no error here: it is logged,
 * tried again, and until then operations reject with StateUnavailable.
 * @throws RangeError when the url has another scheme.
 */
export async function openState(url: string, options: StateOptions): Promise<State> {
  if (url === 'memory:') return new MemoryState(options.clock)
  if (/^rediss?:\/\//.test(url)) return openRedisState(url, options)
  throw new RangeError(
    `state.url must be memory: or begin with redis:// or rediss://, not ${/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? 'no scheme at all'}`
  )
}
