import { systemClock, type Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'

/** For what the gateway has closed and the system has yet to let go of. */
const GRACE_MS = 1_000
/** For what is closed after the last request: plugins, jobs under way and the database each have a limit within it. */
const CLOSING_MS = 20_000

/**
 * Ends the process with its exit code once its output is written. A plugin that has left a timer or a connection open
 * would hold a command that is done for as long as it likes.
 */
export async function endProcess(): Promise<never> {
  await Promise.all(
    [process.stdout, process.stderr].map(
      stream =>
        new Promise<void>(resolve => {
          // A reader that has gone counts as written to.
          stream.write('', () => {
            resolve()
          })
        })
    )
  )
  return process.exit()
}

/** Ends a gateway that is closed soon, unless nothing holds it and it ends by itself; the log says what held it. */
export function endSoon(log: Log): void {
  // The timers of a clock do not hold the process.
  systemClock.after(GRACE_MS, () => {
    log.warn({ held: held() }, 'the gateway is closed, and something still holds the process: it is ended')
    void endProcess()
  })
}

/**
 * Ends a gateway whose stop does not come to its end, with exit code 1: `drainTimeout` is in milliseconds. `clock` and
 * `end` are there for tests.
 */
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

/** What holds the process, in Node's own words, with how many there are of each: `{ Timeout: 2 }`. */
function held(): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}
