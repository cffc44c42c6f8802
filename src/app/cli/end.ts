import { systemClock, type Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'

/** Time for the system to release closed handles. */
const GRACE_MS = 1_000
/** Time after the last request for plugins, jobs and the database, which have shorter limits. */
const CLOSING_MS = 20_000

/**
 * Exits with the exit code after flushing the output. A plugin's open timer or connection would otherwise keep the
 * process alive.
 */
export async function endProcess(): Promise<never> {
  await Promise.all(
    [process.stdout, process.stderr].map(
      stream =>
        new Promise<void>(resolve => {
          // A closed pipe counts as flushed.
          stream.write('', () => {
            resolve()
          })
        })
    )
  )
  return process.exit()
}

/** Exits soon after a close, unless the process ends first; logs what held it. */
export function endSoon(log: Log): void {
  // Timers of a clock do not keep the process alive.
  systemClock.after(GRACE_MS, () => {
    log.warn({ held: held() }, 'the gateway is closed, and something still holds the process: it is ended')
    void endProcess()
  })
}

/** Exits with code 1 when a stop hangs: `drainTimeout` is in milliseconds. `clock` and `end` are for tests. */
export function endAtLatest(
  drainTimeout: number,
  log: Log,
  clock: Clock = systemClock,
  end: () => Promise<never> = endProcess
): void {
  clock.after(drainTimeout + CLOSING_MS, () => {
    log.error({ held: held() }, 'the gateway could not be closed in time: it is ended')
    process.exitCode = 1
    void end()
  })
}

/** Active resources by Node's names: `{ Timeout: 2 }`. */
function held(): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}
