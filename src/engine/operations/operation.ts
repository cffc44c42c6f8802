import type { Static, TSchema } from 'typebox'
import type { PresetName } from '../config/presets.ts'
import type { Context } from '../message/context.ts'
import type { Reply } from '../message/reply.ts'
import { type GatewayError, type ValidationError, LongError } from './errors.ts'
import type { CallPrice, PriceConfig } from '../checks/price.ts'
import type { MeterConfig, SessionsConfig } from '../checks/meter.ts'
import { defineError } from '../../platform/system/errors.ts'

/** Who may call an operation. The chain enforces it; OpenAPI and the authorization tests read it. */
export type Access = 'public' | 'merchant' | 'admin' | 'credential'

export interface OperationMount {
  /** Parts of the API that serve it; several share one route. */
  readonly use: PresetName | readonly PresetName[]
  /** Name of a chain that establishes the operation's `access`, or the gateway does not start. */
  readonly chain: string
  /**
   * Route that also receives everything else below it, in any method: these addresses are secrets, which the catch-all
   * chain would log.
   */
  readonly below?: `/${string}/*`
  /** Satoshis per request. */
  readonly price?: number
}

/**
 * The schema of the status serializes the body, unless it is ready (`OperationResponse.mediaType`); null writes none.
 */
export interface Result {
  readonly status: number
  readonly body: unknown
  readonly headers?: readonly string[]
  readonly mediaType?: string
  /** Sent as it is instead, such as a 402 with its challenge lines. */
  readonly reply?: Reply
}

export interface Input<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly ctx: Context
}

export interface OperationResponse {
  readonly description: string
  /** JSON body; omitted for none, or for ready bytes. */
  readonly schema?: TSchema
  /** Other than application/json; the handler then returns a string, bytes, or a `StreamBody` (text/event-stream). */
  readonly mediaType?: string
  /** Media type of another, ready form, for clients that request it in Accept. */
  readonly also?: string
  /** A bare array with pages: X-Total-Count has the total, and Link the next page. */
  readonly isPaged?: true
}

export interface HeaderFacts {
  readonly description: string
  readonly required?: boolean
  readonly pattern?: string
  readonly example?: string
}

/**
 * One HTTP operation of an internal upstream. The engine validates path parameters, query and body, calls the handler,
 * and serializes the result by the schema of its status, the allowlist of members.
 */
export interface Operation<P extends TSchema = TSchema, Q extends TSchema = TSchema, B extends TSchema = TSchema> {
  readonly id: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  /** `:name` parameters match one segment; a trailing `*` matches the rest. */
  readonly path: string
  readonly summary: string
  /** For OpenAPI: effects that a caller cannot see in the schemas. */
  readonly description?: string
  readonly tag: string
  readonly access: Access
  /**
   * Required role where `access` is merchant; default viewer for GET and editor otherwise (`roles.ts`). Keys, members
   * and billing require owner.
   */
  readonly role?: Role
  /** Refused to test accounts: what costs money, or is the account's own. */
  readonly liveOnly?: true
  /** Changes no account, like a sale: excluded from the audit log (`trail.ts`). */
  readonly unaudited?: true
  /** Omitted: only routes of the file lead to it. */
  readonly mount?: OperationMount
  /** Its response describes the payment, so it cannot be served for free. */
  readonly needsPayment?: true
  /** Strings; a mismatch gives 404 (decision 10). */
  readonly params?: P
  /** Integers are parsed from decimal text. A mismatch gives a validation problem. */
  readonly query?: Q
  /**
   * JSON body; without it any body is ignored (decision 5). Null members are absent, unless their schema takes null.
   */
  readonly body?: B
  /** No body, or `null`, reads as an empty object, which the schema must accept. */
  readonly bodyOptional?: true
  /** The price of its own 402, where it sells something independently of the route. */
  readonly sells?: DocumentedPrice
  /** For OpenAPI: a body that the operation parses itself, a form or signed bytes. */
  readonly form?: { readonly mediaType: string; readonly schema: TSchema }
  /** For OpenAPI: a description, or more. */
  readonly headers?: Readonly<Record<string, string | HeaderFacts>>
  /** Most bytes of a body; default 64 KiB for public operations and 1 MiB for others. */
  readonly bodyLimit?: number
  /** By status; a text describes a thrown error, whose forms follow from its status. */
  readonly responses: Readonly<Record<number, OperationResponse | string>>
  /** Maps a schema violation to the operation's own error shape; default the validation problem. */
  readonly refuse?: (error: ValidationError) => GatewayError
  handle(input: Input<Static<P>, Static<Q>, Static<B>>): Result | Promise<Result>
}

/** The handler's types were checked at its definition. */
export type AnyOperation = Omit<Operation, 'handle'> & {
  handle(input: Input<never, never, never>): Result | Promise<Result>
}

export function defineOperation<const P extends TSchema, const Q extends TSchema, const B extends TSchema>(
  operation: Operation<P, Q, B>
): AnyOperation {
  return operation
}

/** The declared response of a status; undefined when undeclared or thrown. */
export function responseOf(operation: Pick<AnyOperation, 'responses'>, status: number): OperationResponse | undefined {
  const response = operation.responses[status]
  return typeof response === 'string' ? undefined : response
}

export interface DocumentedPrice {
  /** Null where merchants set it. */
  readonly price: PriceConfig | null
  readonly description: string
  /** Prices of calls to a JSON-RPC server; omitted where whole requests are sold. */
  readonly calls?: readonly CallPrice[]
  /** How requests draw from a purchased balance; omitted for single requests. */
  readonly meter?: MeterConfig
  readonly sessions?: SessionsConfig
}

export const ROLE_REQUIRED = defineError('BG_ROLE_REQUIRED', {
  status: 403,
  title: 'Role required',
  cause: 'The role of the signed-in person, or a read-only key, does not allow this.',
  fix: 'An owner of the account changes the role; `required_role` is the one needed.'
})

/** Each role includes the permissions of those before it. */
export const ROLES = Object.freeze(['viewer', 'editor', 'owner'] as const)
export type Role = (typeof ROLES)[number]

export function isRoleEnough(has: Role, needed: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needed)
}

/** Default: viewer to read and editor to change. */
export function neededRole({ role, method }: Pick<AnyOperation, 'role' | 'method'>): Role {
  return role ?? (method === 'GET' ? 'viewer' : 'editor')
}

/**
 * Whether an id is of a test account, which has the negated id of its account. Its keys are sealed for that id, so only
 * the sandbox takes them.
 */
export function isTest(merchantId: number | string | null): boolean {
  return Number(merchantId) < 0
}

export class RoleRequired extends LongError {
  constructor(has: Role, needed: Role) {
    super(
      ROLE_REQUIRED,
      'Role required',
      `This needs the role ${needed} in the account; you are ${has}. Its owner can change that.`,
      { role: has, required_role: needed }
    )
  }
}
