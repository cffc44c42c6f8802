import { didYouMean, kindOf, nearest, quote } from '../config/diagnose.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Hooks, Plugin, Services } from './plugin.ts'
import { isObject } from '../../platform/system/json.ts'

/** Time limit of a `setup`: `boltgate check`, a start and a reload all wait for it. */
const SETUP_MS = 10_000

/** The type makes it cover every member of `Hooks`. */
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

export class SetUpTooLate extends Error {
  override name = 'SetUpTooLate'
}

/**
 * Awaits the hooks of a plugin's `setup`.
 * @throws SetUpTooLate when its promise does not settle in time
 * @throws TypeError when it gives no hooks
 */
export async function hooksOf(given: Hooks | Promise<Hooks>, clock: Clock): Promise<Hooks> {
  return requireHooks(given instanceof Promise ? await inTime(given, clock) : given)
}

/** @throws TypeError when `given` is not a `Hooks` object, with what would be */
export function requireHooks(given: unknown): Hooks {
  if (!isObject(given))
    throw new TypeError(
      `setup gives ${kindOf(given)}; allowed: an object with its hooks, such as { request(ctx) { … } }, or {} for none${given === undefined ? ' (is a return missing?)' : ''}`
    )
  for (const member of membersOf(given)) if (!Object.hasOwn(HOOKS, member)) throw unknownMember(member)
  for (const [name, wanted] of Object.entries(HOOKS)) {
    const hook = (given as Record<string, unknown>)[name]
    if (hook !== undefined && typeof hook !== wanted)
      throw new TypeError(`setup gives ${kindOf(hook)} as ${name}; allowed: ${KINDS[wanted]}`)
  }
  return given
}

/**
 * Without this check the first requests would fail.
 * @throws TypeError with the names of the available services
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
 * The members that must be hooks: all of an object's. A class may have other fields and methods, so its own count only
 * when it has no hook.
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
    `setup gives the unknown hook ${quote(name)}, which is never called; allowed: ${hooks.join(', ')}${didYouMean(nearest(name, hooks))}`
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
  // A clock's timers do not keep the process alive, and it would exit here silently.
  const held = setInterval(() => {}, SETUP_MS)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    timer.cancel()
    clearInterval(held)
  }
}

/** Closes hooks that arrive after the time limit. Never rejects: the set-up has already failed. */
async function giveBack(promise: Promise<Hooks>): Promise<void> {
  try {
    await requireHooks(await promise).close?.()
  } catch {
    // The set-up has already failed.
  }
}
