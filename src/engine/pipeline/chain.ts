import type { Context } from '../message/context.ts'
import type { Hooks, HookResult, UpstreamRequest, Responder } from './plugin.ts'
import { RouteQueue } from './load.ts'
import type { Head, Outcome, Reply } from '../message/reply.ts'

type RequestHook = (ctx: Context) => HookResult
type ResponseHook = (ctx: Context, head: Head) => void | Promise<void>
type UpstreamHook = (ctx: Context, out: UpstreamRequest) => void
type ChunkHook = (ctx: Context, bytes: Uint8Array) => void
type LastHook = (ctx: Context) => Uint8Array | null
type DoneHook = (ctx: Context, outcome: Outcome) => void
type Handle = (ctx: Context, responder: Responder) => HookResult

export interface ChainProgress {
  next: number
  /** The client is gone: no further plugin is entered. */
  stopped: boolean
}

function thenable(step: Reply | Promise<void | Reply>): step is Promise<void | Reply> {
  return typeof (step as { then?: unknown }).then === 'function'
}

/**
 * The plugins of one route, one array per phase, so that a request tests no plugin for its hooks. Walks are synchronous
 * until a plugin returns a promise.
 */
export class Chain {
  readonly slotCount: number
  readonly queue = new RouteQueue()
  /** Copying this array costs a quarter of filling one per request. */
  readonly emptySlots: readonly unknown[]
  readonly hasLast: boolean
  readonly watchesChunks: boolean
  readonly answersPreflights: boolean
  readonly #request: ReadonlyArray<RequestHook | null>
  readonly #response: ReadonlyArray<ResponseHook | null>
  readonly #upstream: readonly UpstreamHook[]
  readonly #chunk: ReadonlyArray<ChunkHook | null>
  readonly #last: ReadonlyArray<LastHook | null>
  readonly #done: ReadonlyArray<DoneHook | null>
  readonly #handle: Handle
  readonly #close: ReadonlyArray<() => void | Promise<void>>
  readonly #cors: readonly ResponseHook[]

  /** The last of `hooks` is the terminal plugin. Throws when it has no `handle`. */
  constructor(hooks: readonly Hooks[], slotCount: number) {
    const terminal = hooks.at(-1)
    if (terminal?.handle === undefined) throw new TypeError('a chain ends with a terminal plugin')
    this.slotCount = slotCount
    this.emptySlots = Array.from({ length: slotCount })
    this.#request = hooks.map(h => h.request?.bind(h) ?? null)
    this.#response = hooks.map(h => h.response?.bind(h) ?? null)
    this.#upstream = hooks.flatMap(h => (h.upstream === undefined ? [] : [h.upstream.bind(h)]))
    this.#chunk = hooks.map(h => h.chunk?.bind(h) ?? null)
    this.#last = hooks.map(h => h.last?.bind(h) ?? null)
    this.#done = hooks.map(h => h.done?.bind(h) ?? null)
    this.#handle = terminal.handle.bind(terminal)
    this.#close = hooks.flatMap(h => (h.close === undefined ? [] : [h.close.bind(h)]))
    this.hasLast = this.#last.some(hook => hook !== null)
    this.answersPreflights = hooks.some(h => h.answersPreflights === true)
    this.#cors = hooks.flatMap(h => (h.answersPreflights === true && h.response ? [h.response.bind(h)] : []))
    this.watchesChunks = this.#chunk.some(hook => hook !== null)
  }

  enter(ctx: Context, progress: ChainProgress): HookResult {
    const hooks = this.#request
    while (progress.next < hooks.length) {
      const hook = hooks[progress.next++]
      if (hook === null || hook === undefined) continue
      const step = hook(ctx)
      if (step === undefined) continue
      return thenable(step) ? this.#resume(ctx, progress, step) : step
    }
  }

  async #resume(ctx: Context, progress: ChainProgress, pending: Promise<void | Reply>): Promise<void | Reply> {
    const reply = await pending
    if (reply !== undefined || progress.stopped) return reply
    return await this.enter(ctx, progress)
  }

  handle(ctx: Context, responder: Responder): HookResult {
    return this.#handle(ctx, responder)
  }

  forwarding(ctx: Context, out: UpstreamRequest): void {
    for (const hook of this.#upstream) hook(ctx, out)
  }

  leave(ctx: Context, head: Head, progress: ChainProgress): void | Promise<void> {
    return this.#leaveFrom(ctx, head, progress.next - 1)
  }

  #leaveFrom(ctx: Context, head: Head, from: number): void | Promise<void> {
    for (let at = from; at >= 0; at--) {
      const pending = this.#response[at]?.(ctx, head)
      if (pending !== undefined) {
        const rest = at - 1
        return pending.then(() => this.#leaveFrom(ctx, head, rest))
      }
    }
  }

  /**
   * Adds the CORS headers to the response of a request that never enters the chain. Does not wait for promises.
   * `failed` gets a plugin's error.
   */
  permitPages(ctx: Context, head: Head, failed: (error: unknown) => void): void {
    for (const hook of this.#cors) {
      try {
        const pending = hook(ctx, head)
        if (pending !== undefined) pending.catch(failed)
      } catch (error) {
        failed(error)
      }
    }
  }

  /** Shows a piece of the response to the watchers; a promise while one of them back-pressures the upstream. */
  chunk(ctx: Context, bytes: Uint8Array, progress: ChainProgress): void | Promise<void> {
    let all: Array<Promise<void>> | null = null
    for (let at = progress.next - 1; at >= 0; at--) {
      const pending = this.#chunk[at]?.(ctx, bytes)
      if (pending !== undefined) (all ??= []).push(pending)
    }
    if (all !== null) return Promise.all(all).then(() => undefined)
  }

  last(ctx: Context, progress: ChainProgress): Uint8Array | null {
    const all: Uint8Array[] = []
    for (let at = progress.next - 1; at >= 0; at--) {
      const bytes = this.#last[at]?.(ctx) ?? null
      if (bytes !== null) all.push(bytes)
    }
    return all.length === 0 ? null : Buffer.concat(all)
  }

  /** Runs `done` of every entered plugin. One that throws does not stop the others; `failed` gets its error. */
  settle(ctx: Context, outcome: Outcome, progress: ChainProgress, failed: (error: unknown) => void): void {
    for (let at = progress.next - 1; at >= 0; at--) {
      try {
        this.#done[at]?.(ctx, outcome)
      } catch (error) {
        failed(error)
      }
    }
  }

  /** Closes every plugin, even if one throws, then rethrows the first error. */
  async close(): Promise<void> {
    const results = await Promise.allSettled(
      this.#close.map(async close => {
        await close()
      })
    )
    const failed = results.find(result => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }
}
