import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { JsonError } from '../formats/json-scan.ts'
import { MAX_MEMBERS, readJson, type Outline } from '../formats/json-reader.ts'
import type { Context, UpstreamTarget } from '../message/context.ts'
import { endOfPrefix } from '../message/path.ts'
import type { Responder } from '../pipeline/plugin.ts'
import type { UrlUpstreamConfig } from '../sections/upstream.ts'
import type { UpstreamBreakers } from './breakers.ts'
import type { UpstreamTls } from './connector.ts'
import { faultCode, isUnreachable } from './failure.ts'
import type { Upstream } from './pool.ts'

/** One address of an operator's upstream. */
export interface UpstreamEntry {
  readonly target: UpstreamTarget
  readonly upstream: Upstream
  readonly preserveHost: boolean
  /** Path of the configured address, without a trailing slash. */
  readonly basePath: string
  /** Prefix removed from the request's path; empty for none. */
  readonly stripPrefix: string
  /** Replaces the `model` of a JSON body; null for the request's own. */
  readonly model: string | null
}

/** An operator's upstream of one configuration generation, as its first address; `release` gives it back. */
export interface RouteUpstream extends UpstreamEntry {
  /** Null for a single address without fallbacks. */
  readonly balancer: Balancer | null
  release(): void
}

/** What a request met at one address. `unanswered`: it was sent, and no response came. */
export type Trouble = 'connect' | 'unanswered' | '429' | '5xx' | 'idle'

/** Retryable requests (RFC 9110 9.2.2). */
export const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
export const CLOSED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UPSTREAM_CLOSED'])
/** Methods that change nothing (RFC 9110 9.2.1). Others fall back only where the upstream did nothing. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Chooses among the addresses of one upstream, and its fallbacks in their order. */
export class Balancer {
  readonly fallbacks: readonly UpstreamEntry[]
  readonly on: ReadonlySet<string>
  readonly #entries: readonly UpstreamEntry[]
  readonly #leastRequests: boolean
  readonly #breakers: UpstreamBreakers
  #next = 0

  constructor(
    entries: readonly UpstreamEntry[],
    fallbacks: readonly UpstreamEntry[],
    { balance, on }: UrlUpstreamConfig,
    breakers: UpstreamBreakers
  ) {
    this.fallbacks = fallbacks
    this.on = new Set((on ?? ['connect', 429, '5xx', 'idle']).map(String))
    this.#entries = entries
    this.#leastRequests = balance !== 'round-robin'
    this.#breakers = breakers
  }

  /** Returns an untried address; if all are ejected, the one that is retried first. Breaks ties round-robin. */
  choose(ctx: Context, tried: ReadonlySet<UpstreamEntry>): UpstreamEntry | null {
    const all = this.#entries
    let best: UpstreamEntry | null = null
    let [leastWait, leastBusy, chosen] = [Infinity, Infinity, 0]
    for (let step = 0; step < all.length; step++) {
      const at = (this.#next + step) % all.length
      const entry = all[at]
      if (entry === undefined || tried.has(entry)) continue
      const wait = this.#breakers.wait(ctx, entry.target)
      const busy = this.#leastRequests ? entry.upstream.pool.busy : 0
      if (wait > leastWait || (wait === leastWait && busy >= leastBusy)) continue
      ;[best, leastWait, leastBusy, chosen] = [entry, wait, busy, at]
    }
    if (best !== null) this.#next = chosen + 1
    return best
  }
}

/** The addresses to which one request was sent. */
export class Attempts {
  entry: UpstreamEntry
  /** The request's body, which is read once; undefined before. */
  body: Uint8Array | Readable | null | undefined = undefined
  /** Sends the request to `entry`. */
  readonly send: () => void | Promise<void>
  readonly #given: Uint8Array | null
  readonly #balancer: Balancer
  readonly #breakers: UpstreamBreakers
  readonly #ctx: Context
  readonly #tried = new Set<UpstreamEntry>()

  /** `given`: goes instead of the request's own body. */
  constructor(
    route: RouteUpstream,
    balancer: Balancer,
    breakers: UpstreamBreakers,
    ctx: Context,
    given: Uint8Array | null,
    send: () => void | Promise<void>
  ) {
    this.send = send
    this.#balancer = balancer
    this.#breakers = breakers
    this.#ctx = ctx
    this.#given = given
    const entry = balancer.choose(ctx, this.#tried) ?? route
    this.entry = entry
    if (this.#isAway(entry)) this.entry = this.#fallback('connect') ?? entry
  }

  get hasFallbacks(): boolean {
    return this.#balancer.fallbacks.length > 0
  }

  /** The head waits for the first byte after it, without which another address gets the request. */
  get holdsHead(): boolean {
    return this.#fallback('idle') !== null
  }

  /** Moves on to another address; false where the request may go to none. `error`: null for a response. */
  next(trouble: Trouble, error: Error | null): boolean {
    // Without a connection, nothing of the request was sent.
    if (trouble === 'connect' && (error === null || !isUnreachable(error))) return false
    if (trouble === 'unanswered' && (error === null || !this.#isRepeatable(error))) return false
    this.#tried.add(this.entry)
    const isOfConnection = trouble === 'connect' || trouble === 'unanswered'
    const same = isOfConnection ? this.#balancer.choose(this.#ctx, this.#tried) : null
    const other = same === null || this.#isAway(same) ? this.#fallback(trouble) : same
    if (other !== null) this.entry = other
    return other !== null
  }

  sendAgain(responder: Pick<Responder, 'fail'>): void {
    const fail = (fault: unknown): void => {
      responder.fail(fault instanceof Error ? fault : new Error(String(fault)))
    }
    try {
      this.send()?.catch(fail)
    } catch (fault) {
      fail(fault)
    }
  }

  #isRepeatable(error: Error): boolean {
    return IDEMPOTENT.has(this.#ctx.method) && CLOSED.has(faultCode(error))
  }

  #fallback(trouble: Trouble): UpstreamEntry | null {
    const { fallbacks, on } = this.#balancer
    if (fallbacks.length === 0 || !on.has(trouble === 'unanswered' ? 'connect' : trouble)) return null
    if (trouble !== 'connect' && trouble !== '429' && !SAFE.has(this.#ctx.method)) return null
    const other = fallbacks.find(
      entry => entry !== this.entry && !this.#tried.has(entry) && !this.#isAway(entry) && this.#takes(entry)
    )
    return other ?? null
  }

  #isAway({ target }: UpstreamEntry): boolean {
    return this.#breakers.wait(this.#ctx, target) > 0
  }

  /** Another model can be asked for, and a narrowed key allows it. */
  #takes({ model }: UpstreamEntry): boolean {
    const { collected, length } = this.#ctx.body
    const models = this.#ctx.payment?.limits?.models ?? null
    if (model !== null && models !== null && !models.includes(model)) return false
    const body = this.#given ?? collected
    if (model === null || (length === 0 && body === null)) return true
    return body !== null && (body.byteLength === 0 || withModel(body, model) !== null)
  }
}

const LIMITS = { depth: 512, members: MAX_MEMBERS, names: MAX_MEMBERS }

export function withModel(body: Uint8Array, model: string): Buffer | null {
  let outline: Outline
  try {
    outline = readJson(body, LIMITS)
  } catch (error) {
    if (error instanceof JsonError) return null
    throw error
  }
  // Some servers read names in any case.
  if (!outline.isObject || outline.indexesOf('model', true).some(at => outline.nameOf(at) !== 'model')) return null
  const { text, start } = outline
  const own = outline.member('model')
  const value = JSON.stringify(model)
  if (own !== null) return Buffer.from(text.slice(0, own.start) + value + text.slice(own.end))
  const rest = text.slice(start + 1)
  return Buffer.from(`${text.slice(0, start)}{"model":${value}${outline.size === 0 ? '' : ','}${rest}`)
}

export function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

export function routePath(ctx: Context, entry: UpstreamEntry): string {
  const prefix = entry.stripPrefix
  const target = ctx.target
  const end = prefix === '' ? -1 : endOfPrefix(ctx.path, prefix)
  if (end < 0) return entry.basePath === '' ? target : entry.basePath + target
  const rest = target.slice(end)
  return rest.startsWith('/') ? entry.basePath + rest : `${entry.basePath}/${rest}`
}

export async function readTls(tls: NonNullable<UrlUpstreamConfig['tls']>): Promise<UpstreamTls> {
  const [ca, cert, key] = await Promise.all(
    [tls.ca, tls.cert, tls.key].map(async file => (file === undefined ? undefined : await readFile(file, 'utf8')))
  )
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.servername === undefined ? {} : { servername: tls.servername })
  }
}
