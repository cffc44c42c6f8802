import { kindOf } from '../config/diagnose.ts'
import type { Clock } from '../system/clock.ts'
import type { Hooks } from './plugin.ts'

/** How long a `setup` may take: `boltgate check`, a start and a reload all wait for it. */
const SETUP_MS = 10_000

/** A `setup` whose promise has not settled in time. */
export class SetUpTooLate extends Error {
  override name = 'SetUpTooLate'
}

/**
 * The hooks that a plugin's `setup` gives, once they are there.
 * @throws SetUpTooLate when its promise does not settle in time
 * @throws TypeError when it gives no hooks
 */
export async function hooksOf(given: Hooks | Promise<Hooks>, clock: Clock): Promise<Hooks> {
  return requireHooks(given instanceof Promise ? await inTime(given, clock) : given)
}

/**
 * What `setup` gave, as hooks.
 * @throws TypeError when it is nothing of the kind, and says what would be
 */
export function requireHooks(given: unknown): Hooks {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new TypeError(
      `setup gives ${kindOf(given)}; allowed: an object with its hooks, such as { request(ctx) { … } }, or {} for none${given === undefined ? ' (is a return missing?)' : ''}`
    )
  return given
}

async function inTime(promise: Promise<Hooks>, clock: Clock): Promise<Hooks> {
  const late = Promise.withResolvers<never>()
  const timer = clock.after(SETUP_MS, () => {
    void giveBack(promise)
    late.reject(
      new SetUpTooLate(
        `setup has not settled within ${SETUP_MS / 1000} s; allowed: a promise that settles by then (connections can be opened with the first request)`
      )
    )
  })
  // The timers of a clock do not keep a process alive, and it would end here without a word.
  const held = setInterval(() => {}, SETUP_MS)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    timer.cancel()
    clearInterval(held)
  }
}

/** Hooks that come after their time are not used, so what they hold is given back. Never rejects: it has been refused. */
async function giveBack(promise: Promise<Hooks>): Promise<void> {
  try {
    await requireHooks(await promise).close?.()
  } catch {
    // What goes wrong in it now is nobody's any more.
  }
}
