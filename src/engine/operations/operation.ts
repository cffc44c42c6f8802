import type { Static, TSchema } from 'typebox'
import type { PresetName } from '../config/presets.ts'
import type { Context } from '../message/context.ts'
import type { DocumentedPrice } from '../openapi/paid.ts'
import type { GatewayError, ValidationError } from './errors.ts'
import type { Role } from './roles.ts'

/**
 * Who may call an operation; the chain that leads to it enforces it, OpenAPI and the authorisation tests read it here.
 */
export type Access = 'public' | 'merchant' | 'admin' | 'credential'

/** Where an operation is mounted without a route in the file, by `use`. */
export interface OperationMount {
  readonly use: PresetName
  /** Name of a chain; it must see to the operation's `access`, or the gateway does not start. */
  readonly chain: string
  /**
   * Route that takes the operation along with whatever else is asked there, in any method: below it addresses are
   * secrets, which the chain of everything else would log.
   */
  readonly below?: `/${string}/*`
  /** Satoshis that one request costs. */
  readonly price?: number
}

/**
 * What an operation answers. The body is written through the schema of its status, or is ready
 * (`OperationResponse.mediaType`); null writes none.
 */
export interface Result {
  readonly status: number
  readonly body: unknown
  /** Further headers, flat. */
  readonly headers?: readonly string[]
  /** The body is ready, in this other form of the response (`OperationResponse.also`). */
  readonly mediaType?: string
}

/** What a handler is given: everything checked against the operation's schemas. */
export interface Input<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly ctx: Context
}

/** One response of an operation, for output and for OpenAPI. */
export interface OperationResponse {
  readonly description: string
  /** JSON body; left out when there is none, or when the handler gives ready bytes. */
  readonly schema?: TSchema
  /**
   * Media type, when it is not application/json. The handler then gives a string, bytes, or a `StreamBody`
   * (text/event-stream).
   */
  readonly mediaType?: string
  /** Media type of another form, which the handler gives ready: to clients that ask for it in Accept. */
  readonly also?: string
  /**
   * A bare array that can be read page by page: X-Total-Count says how many there are, and Link where the next page is.
   */
  readonly isPaged?: true
}

/** A request header that an operation reads, for OpenAPI. */
export interface HeaderFacts {
  readonly description: string
  /** The operation refuses requests without it. */
  readonly required?: boolean
  /** JSON Schema's pattern of the value. */
  readonly pattern?: string
  readonly example?: string
}

/**
 * One HTTP operation of an internal upstream. The engine checks path parameters, query and body against the schemas,
 * calls the handler, and writes what it answers through the schema of that status, which is the whitelist of what may
 * leave.
 */
export interface Operation<P extends TSchema = TSchema, Q extends TSchema = TSchema, B extends TSchema = TSchema> {
  /** operationId in OpenAPI, unique. */
  readonly id: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  /** Path with `:name` parameters, each one segment; a last `*` takes the rest. */
  readonly path: string
  readonly summary: string
  /** What it does and what follows from it, for OpenAPI: what a caller cannot see from the schemas. */
  readonly description?: string
  readonly tag: string
  readonly access: Access
  /**
   * What its caller must be in the account, where `access` is merchant; left out, viewer to GET and editor for the rest
   * (`roles.ts`). Keys, members and billing say owner.
   */
  readonly role?: Role
  /** It changes no account, as a sale does: it stands in no audit trail (`trail.ts`). */
  readonly unaudited?: true
  /** Left out: only routes of the file lead to it. */
  readonly mount?: OperationMount
  /** Its response says what was paid, so it cannot be served for nothing. */
  readonly needsPayment?: true
  /** Path parameters as strings; those that do not fit give 404 (decision 10). */
  readonly params?: P
  /** Query parameters; integers are read from their decimal text. What does not fit gives a validation problem. */
  readonly query?: Q
  /**
   * JSON body. Left out: the operation ignores any body (decision 5). Null members are absent, save where their schema
   * takes null.
   */
  readonly body?: B
  /**
   * The body may be left out altogether, or be `null`; the handler then gets an empty object, which the schema must
   * take.
   */
  readonly bodyOptional?: true
  /** What its own 402 asks for, where it sells something by itself and not by the price of a route. */
  readonly sells?: DocumentedPrice
  /** A body that the operation reads by itself: a form, or the bytes of whoever signs them; for OpenAPI. */
  readonly form?: { readonly mediaType: string; readonly schema: TSchema }
  /** Request headers that the operation reads, for OpenAPI: a description, or more. */
  readonly headers?: Readonly<Record<string, string | HeaderFacts>>
  /** Most bytes of a body; left out, 64 KiB of what anybody may send and 1 MiB of what comes with a key. */
  readonly bodyLimit?: number
  /** By status; a text describes an error that is thrown, whose forms follow from its status. */
  readonly responses: Readonly<Record<number, OperationResponse | string>>
  /**
   * Says in the operation's own shape that query or body do not fit their schemas; left out, the validation problem
   * goes out.
   */
  readonly refuse?: (error: ValidationError) => GatewayError
  handle(input: Input<Static<P>, Static<Q>, Static<B>>): Result | Promise<Result>
}

/** An operation whose handler's types have been checked where it was defined. */
export type AnyOperation = Omit<Operation, 'handle'> & {
  handle(input: Input<never, never, never>): Result | Promise<Result>
}

/** Declares an operation; only there so that the handler's types follow from the schemas. */
export function defineOperation<const P extends TSchema, const Q extends TSchema, const B extends TSchema>(
  operation: Operation<P, Q, B>
): AnyOperation {
  return operation
}

/** What the handler of an operation answers with a status; undefined for one that it does not declare, or only throws. */
export function responseOf(operation: Pick<AnyOperation, 'responses'>, status: number): OperationResponse | undefined {
  const response = operation.responses[status]
  return typeof response === 'string' ? undefined : response
}
