import type { Clock } from '../system/clock.ts'
import type { Log } from '../telemetry/log.ts'
import { MemoryState } from './memory.ts'
import { openRedisState } from './redis.ts'
import type { State } from './state.ts'

export type { State } from './state.ts'

interface StateOptions {
  clock: Clock
  log: Log
  prefix?: string
}

/**
 * `memory:`, or `redis://…` (`rediss://` with TLS), comma-separated for a cluster. An unavailable Redis is logged and
 * retried; until then operations reject with StateUnavailable.
 * @throws RangeError for another scheme.
 */
export async function openState(url: string, options: StateOptions): Promise<State> {
  if (url === 'memory:') return new MemoryState(options.clock)
  if (/^rediss?:\/\//.test(url)) return openRedisState(url, options)
  throw new RangeError(
    `state.url must be memory: or begin with redis:// or rediss://, not ${/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? 'no scheme at all'}`
  )
}
