import type { Principal, Services } from '../../src/index.ts'
import { builtInPolicies } from '../../src/engine/sections/policy.ts'
import { Metrics } from '../../src/platform/telemetry/metrics.ts'
import { MemoryState } from '../../src/platform/state/memory.ts'
import { ManualClock } from './manual-clock.ts'

/** One line that a plugin logged. */
export interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** Services over memory for plugin tests, with what was logged and a clock to move. */
export interface TestServices extends Pick<Services, 'log' | 'metrics' | 'policies' | 'state'> {
  readonly clock: ManualClock
  readonly lines: LoggedLine[]
}

export function testServices(): TestServices {
  const clock = new ManualClock()
  const lines: LoggedLine[] = []
  const write =
    (level: LoggedLine['level']) =>
    (first: object | string, message?: string): void => {
      lines.push(
        typeof first === 'string'
          ? { level, message: first, fields: {} }
          : { level, message: message ?? '', fields: { ...first } }
      )
    }
  return {
    clock,
    lines,
    log: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
    state: new MemoryState(clock),
    policies: builtInPolicies,
    metrics: new Metrics()
  }
}

/** A caller as `auth` would set it; only its kind and id count for the plugins under test. */
export function merchant(id: string): Principal {
  // A whole merchant row would say nothing here.
  return { kind: 'merchant', id } as Principal
}
