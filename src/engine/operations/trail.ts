import type { TSchema } from 'typebox'
import type { Principal } from '../message/context.ts'
import type { AnyOperation } from './operation.ts'

export interface Change {
  /** Null for a failed sign-in, whose actor is unknown. */
  readonly principal: Principal | null
  readonly operation: string
  /** Path parameters; for sign-ins the client's network, as `address`. */
  readonly target: Readonly<Record<string, string>>
  /** The request without possibly secret texts: see `shownOf`. */
  readonly input: unknown
}

export interface Trail {
  /**
   * Records the change before it is made; an error prevents the change.
   * @returns a function that records the outcome with the ids created; it does not reject
   */
  begin(change: Change): Promise<(status: number, made: Readonly<Record<string, string | number>>) => Promise<void>>
}

/** Changes by a known caller, also where one is optional, such as buying a plan. */
export function isAudited({ access, method, unaudited }: AnyOperation): boolean {
  return access !== 'credential' && method !== 'GET' && unaudited !== true
}

const HIDDEN = '…'
/** Most levels of nesting, and most members named per object. */
const DEEPEST = 4
const MOST_MEMBERS = 40

/**
 * The loggable parts of a body: names of members, numbers and booleans; texts only where the schema enumerates them or
 * marks them as not secret (`x-audit`). Lists by their length.
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

export function idsOf(body: unknown): Readonly<Record<string, string | number>> {
  if (typeof body !== 'object' || body === null) return {}
  return Object.fromEntries(
    Object.entries(body).filter(
      (entry): entry is [string, string | number] =>
        /^id$|Id$/.test(entry[0]) && ['string', 'number'].includes(typeof entry[1])
    )
  )
}
