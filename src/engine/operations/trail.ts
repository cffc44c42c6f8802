import type { TSchema } from 'typebox'
import type { Principal } from '../message/context.ts'
import type { AnyOperation } from './operation.ts'

/** A change that is about to be made by an operation. */
export interface Change {
  /** Null for a failed sign-in, whose actor is unknown. */
  readonly principal: Principal | null
  /** The operation's id. */
  readonly operation: string
  /** Path parameters; for sign-ins the client's network, as `address`. */
  readonly target: Readonly<Record<string, string>>
  /** What was asked for, without texts that may be secret: see `shownOf`. */
  readonly asked: unknown
}

/** Where changes are written down. */
export interface Trail {
  /**
   * Writes that a change is about to be made; what it throws keeps the change from being made.
   * @returns what writes how it ended, with the ids of what was made; it does not reject
   */
  begin(change: Change): Promise<(status: number, made: Readonly<Record<string, string | number>>) => Promise<void>>
}

/** Whether what an operation does is written down: what changes an account or the gateway, and is no sale. */
export function isAudited({ access, method, unaudited }: AnyOperation): boolean {
  return (access === 'merchant' || access === 'admin') && method !== 'GET' && unaudited !== true
}

/** What stands in the place of a text that may be a secret. */
const HIDDEN = '…'
/** Deepest object that is looked into, and most members that are named of one. */
const DEEPEST = 4
const MOST_MEMBERS = 40

/**
 * What of a body may be written down: names of members, numbers and truth values; texts only where their schema says
 * which there may be, or that they are no secret (`x-audit`). Lists by their length.
 */
export function shownOf(value: unknown, schema: TSchema | undefined, depth = 0): unknown {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return value
  if (typeof value === 'string') return isShown(value, schema) ? value : HIDDEN
  if (Array.isArray(value)) return `${value.length} entries`
  if (typeof value !== 'object' || depth >= DEEPEST) return HIDDEN
  // Schemas are plain JSON Schema; only objects have properties.
  const properties = (schema as { properties?: Readonly<Record<string, TSchema>> } | undefined)?.properties ?? {}
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => Object.hasOwn(properties, name))
      .slice(0, MOST_MEMBERS)
      .map(([name, member]) => [name, shownOf(member, properties[name], depth + 1)])
  )
}

function isShown(value: string, schema: TSchema | undefined): boolean {
  const { enum: allowed, 'x-audit': shown } = (schema ?? {}) as { enum?: readonly unknown[]; 'x-audit'?: boolean }
  return shown === true || allowed?.includes(value) === true
}

/** The ids in a response: its members that are called `id` or end in `Id`. */
export function idsOf(body: unknown): Readonly<Record<string, string | number>> {
  if (typeof body !== 'object' || body === null) return {}
  return Object.fromEntries(
    Object.entries(body).filter(
      (entry): entry is [string, string | number] =>
        /^id$|Id$/.test(entry[0]) && ['string', 'number'].includes(typeof entry[1])
    )
  )
}
