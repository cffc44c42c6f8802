import fastJson from 'fast-json-stringify'
import type { TSchema } from 'typebox'
import { inReadersLanguage } from '../formats/language.ts'
import type { Context, Principal } from '../message/context.ts'
import { FORBIDDEN } from '../operations/error-kinds.ts'
import { GatewayError, LongError, methodNotAllowed, notFound, ValidationError } from '../operations/errors.ts'
import { requireJson } from '../message/unpaid-body.ts'
import {
  responseOf,
  type OperationResponse,
  type AnyOperation,
  type Result,
  isRoleEnough,
  isTest,
  neededRole,
  RoleRequired
} from '../operations/operation.ts'
import { isStreamBody, type Reply } from '../message/reply.ts'
import { Router } from './router.ts'
import { idsOf, isAudited, shownOf, type Trail } from '../operations/trail.ts'
import { bodyReader, paramsFit, queryReader } from '../operations/validation.ts'

type Write = (body: unknown) => Reply['body']

interface Mounted {
  readonly operation: AnyOperation
  /** Answers people. */
  readonly isPage: boolean
  readonly bodyLimit: number
  readonly fits: ((params: Readonly<Record<string, string>>) => boolean) | null
  readonly readQuery: ((query: string) => unknown) | null
  readonly readBody: ((bytes: Uint8Array) => unknown) | null
  readonly write: ReadonlyMap<number, { readonly mediaType: string; readonly write: Write }>
}

class Resource {
  readonly operations = new Map<string, Mounted>()

  allowed(): string[] {
    const methods = [...this.operations.keys()]
    if (methods.includes('GET')) methods.push('HEAD')
    return [...methods, 'OPTIONS'].sort()
  }
}

function operationOf(resource: Resource, method: string): Mounted {
  const mounted = resource.operations.get(method === 'HEAD' ? 'GET' : method)
  if (mounted === undefined) throw methodNotAllowed(method, resource.allowed())
  return mounted
}

/** Every path is mounted under this one method: a tree for each of 34 methods took half of the start-up time. */
const PATHS_ALONE = 'GET'

const NO_MEMBERS = Object.freeze({})

/** Default body limit of an operation in bytes (decision 172). */
const BODY_LIMIT = 1_048_576
/** Default body limit of public operations in bytes. */
const PUBLIC_BODY_LIMIT = 65_536

/** A chain or a route may only lower this limit. */
export function bodyLimitOf({ bodyLimit, access }: AnyOperation): number {
  return bodyLimit ?? (access === 'public' || access === 'credential' ? PUBLIC_BODY_LIMIT : BODY_LIMIT)
}

function ready(body: unknown): Reply['body'] {
  return body instanceof Uint8Array || isStreamBody(body) ? body : String(body)
}

/** Compiles on first use: all readers and writers take 250 ms, and many are never used. */
function atFirstUse<A, B>(make: () => (given: A) => B): (given: A) => B {
  let made: ((given: A) => B) | null = null
  return given => (made ??= make())(given)
}

/** JSON.stringify handles `JSON.rawJSON` decimals under an open schema. */
function writerOf(response: OperationResponse): { readonly mediaType: string; readonly write: Write } {
  if (response.schema === undefined)
    return { mediaType: response.mediaType ?? 'text/plain; charset=utf-8', write: ready }
  // fast-json-stringify takes plain JSON Schema: a typebox schema without its symbols.
  return {
    mediaType: response.mediaType ?? 'application/json; charset=utf-8',
    write: atFirstUse(() => fastJson(JSON.parse(JSON.stringify(response.schema)) as TSchema))
  }
}

/**
 * Operations behind one name, mounted by `upstream: { internal: name }`. Answers 404 and 405, validates input, and
 * serializes output by schema, so that undeclared members never leave.
 */
export class InternalUpstream {
  readonly operations: readonly AnyOperation[]
  readonly #router = new Router<Resource>()
  readonly #trail: Trail | null

  /** `trail` records changes. Throws when two operations share an id, or a method and a path. */
  constructor(operations: readonly AnyOperation[], trail: Trail | null = null) {
    this.operations = operations
    this.#trail = trail
    const resources = new Map<string, Resource>()
    const ids = new Set<string>()
    for (const operation of operations) {
      if (ids.has(operation.id)) throw new TypeError(`operation ${operation.id} is declared twice`)
      ids.add(operation.id)
      const shape = operation.path.replaceAll(/:[A-Za-z]+/g, ':')
      let resource = resources.get(shape)
      if (resource === undefined) {
        resources.set(shape, (resource = new Resource()))
        this.#router.add({ host: null, methods: [PATHS_ALONE], path: operation.path }, resource)
      }
      if (resource.operations.has(operation.method))
        throw new TypeError(`two operations answer ${operation.method} ${operation.path}`)
      resource.operations.set(operation.method, mount(operation))
    }
  }

  /**
   * Throws the 404 or 405 that `handle` would throw, without side effects; a plain OPTIONS is answered on every path.
   */
  requireServed(ctx: Context): void {
    const found = this.#router.find('', PATHS_ALONE, ctx.path)
    if (found === null) throw notFound()
    if (ctx.method !== 'OPTIONS') operationOf(found.value, ctx.method)
  }

  handle(ctx: Context): Reply | Promise<Reply> {
    const found = this.#router.find('', PATHS_ALONE, ctx.path)
    if (found === null) throw notFound()
    const resource = found.value
    if (ctx.method === 'OPTIONS') return { status: 204, headers: ['Allow', resource.allowed().join(', ')], body: null }
    const mounted = operationOf(resource, ctx.method)
    requireCaller(ctx, mounted.operation)
    if (ctx.body.limit > mounted.bodyLimit) ctx.body.limit = mounted.bodyLimit
    if (mounted.operation.access === 'public') ctx.body.isAnonymous = true
    if (mounted.fits !== null && !mounted.fits(found.params)) throw notFound()
    const query = mounted.readQuery === null ? NO_MEMBERS : read(mounted, mounted.readQuery, ctx.query)
    if (mounted.readBody !== null) return this.#withBody(ctx, mounted, found.params, query)
    return this.#call(ctx, mounted, found.params, query, undefined)
  }

  async #withBody(
    ctx: Context,
    mounted: Mounted,
    params: Readonly<Record<string, string>>,
    query: unknown
  ): Promise<Reply> {
    // Only a chunked body can turn out to be empty; then that is the fault, not the missing type.
    const unsure = ctx.body.length === null && !ctx.headers.has('content-type')
    if (!unsure && ctx.body.length !== 0) requireJson(ctx.headers)
    const bytes = await ctx.body.bytes()
    if (unsure && bytes.byteLength > 0) requireJson(ctx.headers)
    const body = mounted.readBody === null ? undefined : read(mounted, mounted.readBody, bytes)
    return await this.#call(ctx, mounted, params, query, body)
  }

  #call(
    ctx: Context,
    mounted: Mounted,
    params: Readonly<Record<string, string>>,
    query: unknown,
    body: unknown
  ): Reply | Promise<Reply> {
    const { operation } = mounted
    const { principal } = ctx
    const given = input(ctx, params, query, body)
    if (this.#trail !== null && principal !== null && isAudited(operation))
      return onRecord(this.#trail, mounted, principal, runOf(mounted, ctx, given), params, body)
    return finish(mounted, mounted.isPage ? runOf(mounted, ctx, given)() : operation.handle(given))
  }
}

function runOf({ operation, isPage }: Mounted, ctx: Context, given: never): () => Result | Promise<Result> {
  const handle = () => operation.handle(given)
  return isPage ? () => inReadersLanguage(ctx, handle) : handle
}

async function onRecord(
  trail: Trail,
  mounted: Mounted,
  principal: Principal,
  run: () => Result | Promise<Result>,
  target: Readonly<Record<string, string>>,
  body: unknown
): Promise<Reply> {
  const { operation } = mounted
  const end = await trail.begin({
    principal,
    operation: operation.id,
    target,
    input: shownOf(body ?? {}, operation.body)
  })
  let result: Result
  try {
    result = await run()
  } catch (error) {
    await end(error instanceof GatewayError ? error.status : 500, {})
    throw error
  }
  await end(result.status, idsOf(result.body))
  return toReply(mounted, result)
}

function read<T>(mounted: Mounted, reader: (given: T) => unknown, given: T): unknown {
  try {
    return reader(given)
  } catch (error) {
    if (error instanceof ValidationError && mounted.operation.refuse !== undefined)
      throw mounted.operation.refuse(error)
    throw error
  }
}

function input(ctx: Context, params: unknown, query: unknown, body: unknown): never {
  // Each part was checked against the schema that the handler's types come from.
  return { ctx, params, query, body } as never
}

function finish(mounted: Mounted, result: Result | Promise<Result>): Reply | Promise<Reply> {
  return result instanceof Promise ? result.then(value => toReply(mounted, value)) : toReply(mounted, result)
}

function toReply(mounted: Mounted, result: Result): Reply {
  if (result.reply !== undefined) return result.reply
  const headers = result.headers ?? []
  if (result.body === null) return { status: result.status, headers, body: null }
  const { mediaType } = result
  if (mediaType !== undefined) {
    if (responseOf(mounted.operation, result.status)?.also !== mediaType)
      throw new TypeError(`operation ${mounted.operation.id} declares no ${mediaType}`)
    return { status: result.status, headers: ['Content-Type', mediaType, ...headers], body: ready(result.body) }
  }
  const writer = mounted.write.get(result.status)
  if (writer === undefined) throw new TypeError(`operation ${mounted.operation.id} declares no answer ${result.status}`)
  return {
    status: result.status,
    headers: ['Content-Type', writer.mediaType, ...headers],
    body: writer.write(result.body)
  }
}

/**
 * The chain authenticates. Behind a catch-all route without authentication the operation is 404, so that one mounted
 * later is never open. `check` warns of such a route.
 */
function requireCaller(ctx: Context, operation: AnyOperation): void {
  const { access } = operation
  const { principal } = ctx
  if ((access === 'merchant' || access === 'admin') && principal?.kind !== access) throw notFound()
  if (principal?.kind !== 'merchant') return
  if (operation.liveOnly === true && isTest(principal.id))
    throw new LongError(FORBIDDEN, 'Forbidden', 'A test account does not have this. Use the live account.')
  const needed = neededRole(operation)
  // A public operation requires a role only where it declares one.
  if (access !== 'merchant' && operation.role === undefined) return
  if (!isRoleEnough(principal.role, needed)) throw new RoleRequired(principal.role, needed)
}

function mount(operation: AnyOperation): Mounted {
  const write = new Map<number, { mediaType: string; write: Write }>()
  for (const [status, response] of Object.entries(operation.responses))
    if (typeof response !== 'string') write.set(Number(status), writerOf(response))
  const { params, query, body, bodyOptional } = operation
  return {
    operation,
    isPage: Object.values(operation.responses).some(
      response => typeof response !== 'string' && response.mediaType?.startsWith('text/html') === true
    ),
    bodyLimit: bodyLimitOf(operation),
    fits: params === undefined ? null : atFirstUse(() => paramsFit(params)),
    readQuery: query === undefined ? null : atFirstUse(() => queryReader(query)),
    readBody: body === undefined ? null : atFirstUse(() => bodyReader(body, { optional: bodyOptional === true })),
    write
  }
}
