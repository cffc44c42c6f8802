import { didYouMean, kindOf, nearest, quote } from '../config/diagnose.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Hooks, Plugin } from './plugin.ts'
import type { Services } from './services.ts'

/** How long a `setup` may take: `boltgate check`, a start and a reload all wait for it. */
const SETUP_MS = 10_000

/** Every member of `Hooks`, and what it is: a new one cannot be left out. */
const HOOKS: Readonly<Record<keyof Hooks, 'function' | 'string' | 'boolean'>> = {
  request: 'function',
  observe: 'function',
  upstream: 'function',
  response: 'function',
  chunk: 'function',
  last: 'function',
  done: 'function',
  close: 'function',
  answersPreflights: 'boolean',
  establishes: 'string',
  handle: 'function'
}

const KINDS = { function: 'a function', string: 'a text', boolean: 'true or false' } as const

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
  for (const member of membersOf(given)) if (!Object.hasOwn(HOOKS, member)) throw unknownMember(member)
  for (const [name, wanted] of Object.entries(HOOKS)) {
    // Whatever it has is looked at.
    const hook = (given as Record<string, unknown>)[name]
    if (hook !== undefined && typeof hook !== wanted)
      throw new TypeError(`setup gives ${kindOf(hook)} as ${name}; allowed: ${KINDS[wanted]}`)
  }
  return given
}

/**
 * Services that a plugin's `uses` names must be there, or its requests would be the first to miss them.
 * @throws TypeError with the names that there are
 */
export function requireServices(uses: Plugin['uses'], services: Services): void {
  const names = Object.keys(services).sort()
  const unknown = uses?.find(name => !Object.hasOwn(services, name))
  if (unknown !== undefined)
    throw new TypeError(
      `uses names the unknown service ${quote(String(unknown))}; allowed: ${names.join(', ')}${didYouMean(nearest(String(unknown), names))}`
    )
}

/**
 * The members that must be hooks: all of an object's. A class may have fields and methods of its own beside them, such
 * as `requests` or `count`, so its own are told only where not one of them is a hook.
 */
function membersOf(given: object): string[] {
  const prototype: unknown = Object.getPrototypeOf(given)
  if (prototype === Object.prototype || prototype === null || prototype === undefined) return Object.keys(given)
  if (Object.keys(HOOKS).some(name => name in given)) return []
  return [...Object.getOwnPropertyNames(prototype).filter(name => name !== 'constructor'), ...Object.keys(given)]
}

function unknownMember(name: string): TypeError {
  const hooks = Object.keys(HOOKS)
  return new TypeError(
    `setup gives the unknown hook ${quote(name)}, which nobody would call; allowed: ${hooks.join(', ')}${didYouMean(nearest(name, hooks))}`
  )
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
