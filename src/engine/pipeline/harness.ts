import type { TSchema } from 'typebox'
import { formatProblem } from '../config/diagnose.ts'
import { readConfig } from '../config/read.ts'
import type { WhenConfig } from '../sections/when.ts'
import { Chain } from './chain.ts'
import { Context, type Principal, type Slot, NO_ROUTE, type RouteInfo } from '../message/context.ts'
import { conditional, conditionOf } from './entry.ts'
import { Exchange } from './exchange.ts'
import type { Responder, Hooks, Plugin, Scope, HookResult, UpstreamRequest, Services } from './plugin.ts'
import { HeaderList } from '../message/headers.ts'
import type { HeadSource, Outcome } from '../message/reply.ts'
import { announcedMethod } from '../message/caller.ts'
import { requireHooks } from './set-up.ts'
import { fakeBody, FakeWire } from './harness-wire.ts'

/** A plugin in the chain under test; `config` as in the file (`'1MiB'`, `'30s'`). */
export interface HarnessEntry {
  readonly plugin: AnyPlugin
  readonly config?: unknown
  readonly when?: WhenConfig
}

export type AnyPlugin = Omit<Plugin, 'setup' | 'uses'> & {
  readonly uses?: readonly (keyof Services)[]
  setup(config: never, scope: never): Hooks | Promise<Hooks>
}

/** The end of the chain when no plugin under test is terminal: a fake upstream, or a handler. */
export type HarnessAnswer =
  | {
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>> | readonly string[]
      readonly body?: string | Uint8Array | ReadonlyArray<string | Uint8Array>
      /** Reads the request's body to its end first, like a real upstream. */
      readonly readsBody?: boolean
    }
  | ((ctx: Context, responder: Responder) => HookResult)

export interface HarnessOptions {
  /** Only those that the plugins use; a missing one fails the set-up. */
  readonly services?: Partial<Services>
  readonly route?: Partial<RouteInfo>
  readonly mode?: 'development' | 'production'
  readonly answer?: HarnessAnswer
}

/** Defaults are those of a plain GET from 203.0.113.1. */
export interface HarnessRequest {
  readonly method?: string
  readonly target?: string
  /** An object, or a flat list for repeated names. */
  readonly headers?: Readonly<Record<string, string>> | readonly string[]
  /** Pieces are sent without a known length, like `chunked`. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | null
  readonly chunked?: boolean
  readonly host?: string
  readonly peerAddress?: string
  readonly clientAddress?: string
  readonly secure?: boolean
  readonly correlationId?: string
  readonly principal?: Principal
  /** Sets facts that earlier plugins of a full chain would provide. */
  readonly prepare?: (ctx: Context) => void
}

export interface HarnessResult {
  readonly ctx: Context
  /** 0 when no head was written. */
  readonly status: number
  readonly headers: HeaderList
  readonly body: Buffer
  readonly text: string
  json(): unknown
  readonly source: HeadSource
  readonly outcome: Outcome
  /** The request to the fake upstream after the `upstream` hooks; null when it got none. */
  readonly upstream: UpstreamRequest | null
  /** Errors that the engine would log. */
  readonly faults: readonly Error[]
  readonly destroyed: boolean
}

export interface HarnessExchange {
  readonly ctx: Context
  readonly result: Promise<HarnessResult>
  /** Body bytes received by the client so far. */
  readonly received: () => number
  leave(): void
}

export interface Harness {
  run(request?: HarnessRequest): Promise<HarnessResult>
  /** Starts a request, for tests in which the client leaves or two run concurrently. */
  begin(request?: HarnessRequest): HarnessExchange
  close(): Promise<void>
}

/**
 * Runs requests through a chain of plugins in the real engine, without a server. Settings are read like those of the
 * file.
 * @throws TypeError for invalid settings
 */
export async function harness(
  plugins: AnyPlugin | ReadonlyArray<AnyPlugin | HarnessEntry>,
  options: HarnessOptions = {}
): Promise<Harness> {
  // Array.isArray does not narrow a read-only array.
  const entries = (Array.isArray(plugins) ? plugins : [plugins]) as ReadonlyArray<AnyPlugin | HarnessEntry>
  const route: RouteInfo = { ...NO_ROUTE, name: 'test', own: false, ...options.route }
  let slots = 0
  const slot = <T>(name: string): Slot<T> => ({ index: slots++, name })
  const hooks: Hooks[] = []
  let terminal = false
  for (const item of entries) {
    const entry = 'plugin' in item ? item : { plugin: item }
    terminal = entry.plugin.terminal === true
    const created = await setUp(entry, route, options, slot)
    const condition = conditionOf(entry.when)
    hooks.push(
      condition === null ? created : conditional(created, condition, slot<boolean>(`${entry.plugin.name} taken`))
    )
  }
  const records: Records = { sent: new WeakMap(), ended: new WeakMap() }
  if (!terminal) hooks.push({ handle: (ctx, responder) => answer(options.answer ?? {}, ctx, responder, records) })
  // `done` runs upwards: the first plugin's runs last.
  const probe: Hooks = {
    done(ctx, outcome) {
      records.ended.set(ctx, outcome)
    }
  }
  const chain = new Chain([probe, ...hooks], slots)
  const begin = (request: HarnessRequest = {}): HarnessExchange => run(chain, route, options, request, records)
  return { begin, run: request => begin(request).result, close: () => chain.close() }
}

interface Records {
  readonly sent: WeakMap<Context, UpstreamRequest>
  readonly ended: WeakMap<Context, Outcome>
}

async function setUp(
  entry: HarnessEntry,
  route: RouteInfo,
  options: HarnessOptions,
  slot: Scope['slot']
): Promise<Hooks> {
  const { plugin } = entry
  const read = readConfig(plugin.config as TSchema, entry.config ?? {})
  const problem = read.problems[0]
  if (problem !== undefined) throw new TypeError(`settings of ${plugin.name}: ${formatProblem(problem)}`)
  const services: Partial<Record<keyof Services, unknown>> = {}
  for (const name of plugin.uses ?? []) {
    services[name] = options.services?.[name]
    if (services[name] === undefined)
      throw new TypeError(`${plugin.name} uses the service "${name}"; give one in options.services`)
  }
  // The plugin's own schema has read the settings, and the services are those of its `uses`.
  return requireHooks(
    await plugin.setup(read.value as never, { services, route, mode: options.mode ?? 'development', slot } as never)
  )
}

function pairsOf(headers: Readonly<Record<string, string>> | readonly string[] | undefined): string[] {
  if (headers === undefined) return []
  return isFlat(headers) ? [...headers] : Object.entries(headers).flat()
}

function isFlat(headers: Readonly<Record<string, string>> | readonly string[]): headers is readonly string[] {
  return Array.isArray(headers)
}

function answer(given: HarnessAnswer, ctx: Context, responder: Responder, records: Records): HookResult {
  ctx.isSent = true
  const out: UpstreamRequest = { method: ctx.method, path: ctx.target, headers: new HeaderList([...ctx.headers.pairs]) }
  records.sent.set(ctx, out)
  if (typeof given === 'function') return given(ctx, responder)
  responder.forwarding(out)
  const stream = async (): Promise<void> => {
    if (given.readsBody === true) for await (const piece of ctx.body.stream()) void piece
    const pieces = Array.isArray(given.body) ? given.body : [given.body ?? '']
    await responder.head(given.status ?? 200, new HeaderList(pairsOf(given.headers)))
    for (const piece of pieces as ReadonlyArray<string | Uint8Array>) {
      if (piece.length > 0) responder.write(typeof piece === 'string' ? Buffer.from(piece) : piece)
    }
    responder.end(null)
  }
  return stream()
}

function run(
  chain: Chain,
  route: RouteInfo,
  options: HarnessOptions,
  request: HarnessRequest,
  records: Records
): HarnessExchange {
  const clock = options.services?.clock
  const peer = request.peerAddress ?? '203.0.113.1'
  const body = fakeBody(request.body ?? null, request.chunked === true)
  const ctx = new Context(
    {
      method: request.method ?? 'GET',
      target: request.target ?? '/',
      headers: new HeaderList(pairsOf(request.headers)),
      host: request.host ?? 'gateway.test',
      body,
      peerAddress: peer,
      clientAddress: request.clientAddress ?? peer,
      secure: request.secure ?? false,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: request.correlationId ?? 'test-correlation',
      now: clock?.now() ?? 0,
      startedAt: clock?.monotonic() ?? 0
    },
    route
  )
  ctx.slots = Array.from({ length: chain.slotCount })
  ctx.preflight = announcedMethod(ctx) === null ? null : 'own'
  if (request.principal !== undefined) ctx.principal = request.principal
  request.prepare?.(ctx)
  const wire = new FakeWire()
  const faults: Error[] = []
  const over = Promise.withResolvers<HarnessResult>()
  const finished = (): void => {
    const outcome = records.ended.get(ctx)
    if (outcome === undefined) over.reject(new Error('the engine finished a request without telling how it ended'))
    else over.resolve(resultOf(ctx, wire, outcome, records.sent.get(ctx) ?? null, faults))
  }
  new Exchange(ctx, wire, chain, {
    mode: options.mode ?? 'development',
    now: () => clock?.now() ?? 0,
    monotonic: () => clock?.monotonic() ?? 0,
    fault: (_ctx, error) => {
      faults.push(error)
    },
    finished
  }).start()
  return {
    ctx,
    result: over.promise,
    received: () => wire.bytesOut,
    leave: () => {
      wire.leave()
    }
  }
}

function resultOf(
  ctx: Context,
  wire: FakeWire,
  outcome: Outcome,
  upstream: UpstreamRequest | null,
  faults: readonly Error[]
): HarnessResult {
  const body = Buffer.concat(wire.pieces)
  const text = body.toString()
  return {
    ctx,
    status: wire.status,
    headers: new HeaderList(wire.headers),
    body,
    text,
    source: outcome.source,
    outcome,
    upstream,
    faults,
    destroyed: wire.destroyed,
    json: (): unknown => JSON.parse(text)
  }
}
