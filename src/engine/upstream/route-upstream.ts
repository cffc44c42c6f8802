import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Context, UpstreamTarget } from '../message/context.ts'
import { endOfPrefix } from '../message/path.ts'
import type { UrlUpstreamConfig } from '../sections/upstream.ts'
import type { UpstreamBreakers } from './breakers.ts'
import type { UpstreamTls } from './connector.ts'
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
}

/** An operator's upstream of one configuration generation, as its first address; `release` gives it back. */
export interface RouteUpstream extends UpstreamEntry {
  /** Null for a single address. */
  readonly balancer: Balancer | null
  release(): void
}

/** Chooses among the addresses of one upstream. */
export class Balancer {
  readonly #entries: readonly UpstreamEntry[]
  readonly #leastRequests: boolean
  readonly #breakers: UpstreamBreakers
  #next = 0

  constructor(entries: readonly UpstreamEntry[], { balance }: UrlUpstreamConfig, breakers: UpstreamBreakers) {
    this.#entries = entries
    this.#leastRequests = balance !== 'round-robin'
    this.#breakers = breakers
  }

  /** An address that was not tried; where all are away, the one with the shortest pause. Ties go in turn. */
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
  readonly #balancer: Balancer
  readonly #breakers: UpstreamBreakers
  readonly #ctx: Context
  readonly #tried = new Set<UpstreamEntry>()

  constructor(route: RouteUpstream, balancer: Balancer, breakers: UpstreamBreakers, ctx: Context) {
    this.#balancer = balancer
    this.#breakers = breakers
    this.#ctx = ctx
    this.entry = balancer.choose(ctx, this.#tried) ?? route
  }

  /** Moves on to another address; false where none is left. */
  next(): boolean {
    this.#tried.add(this.entry)
    const other = this.#balancer.choose(this.#ctx, this.#tried)
    if (other === null || this.#breakers.wait(this.#ctx, other.target) > 0) return false
    this.entry = other
    return true
  }
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
