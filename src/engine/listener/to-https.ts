import { isLocalCaller } from '../message/caller.ts'
import type { Context } from '../message/context.ts'
import type { Wire } from '../message/wire.ts'
import { rawReply } from './connection.ts'

/** Redirects requests in the clear to HTTPS with their method (308). */
export class ToHttps {
  readonly #first: string
  readonly #origins: ReadonlyMap<string, string>

  /** The first of the origins is for hosts of none. */
  constructor(origins: readonly [string, ...string[]]) {
    this.#first = origins[0]
    this.#origins = new Map(origins.map(origin => [new URL(origin).hostname, origin]))
  }

  /** Serves this machine, and a proxy's own requests, such as health checks, which have no X-Forwarded-Proto. */
  takes(ctx: Context, isTrusted: boolean): boolean {
    return !isLocalCaller(ctx) && !(isTrusted && !ctx.headers.has('x-forwarded-proto'))
  }

  answer({ host, target, correlationId }: Context, wire: Wire): void {
    const origin = this.#origins.get(host.replace(/:\d*$/, '').toLowerCase()) ?? this.#first
    const { status, headers, body } = rawReply(308, `This address is served at ${origin}.`, correlationId)
    wire.listener = UNINTERESTED
    wire.head(status, ['Location', `${origin}${target}`, ...headers])
    wire.end(body, null)
  }
}

const nothing = (): void => undefined
const UNINTERESTED = Object.freeze({ drained: nothing, stopping: nothing, closed: nothing })
