import { setImmediate, setTimeout } from 'node:timers/promises'

/** Milliseconds in which a condition of this process holds on the slowest machine. */
const LIMIT = 60_000
/** Milliseconds of looks in every turn of the event loop, before they become less frequent. */
const EAGER = 20

/**
 * Waits until `holds` returns something other than false, null and undefined, and returns it. Rejects after a minute
 * with the text of the condition: a test that times out says what it waited for.
 */
export async function until<R>(holds: () => R | Promise<R>): Promise<Exclude<R, false | null | undefined>> {
  const begin = performance.now()
  for (;;) {
    const found = await holds()
    if (found !== false && found !== null && found !== undefined)
      // TypeScript does not narrow a type parameter.
      return found as Exclude<R, false | null | undefined>
    const waited = performance.now() - begin
    if (waited > LIMIT) throw new Error(`not within ${LIMIT} ms: ${String(holds)}`)
    // As often at the end: conditions may move a clock by a step each.
    if (waited < EAGER) await setImmediate()
    else await setTimeout(2)
  }
}
