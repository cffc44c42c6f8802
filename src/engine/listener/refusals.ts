import { STATUS_CODES } from 'node:http'
import type { Context } from '../message/context.ts'
import { isLocalCaller } from '../message/caller.ts'
import type { Wire } from '../message/wire.ts'
import { API_VERSION } from '../operations/errors.ts'

export interface RefusalEvent {
  readonly status: number
  readonly message: string
  readonly peerAddress: string
  readonly correlationId: string
}

export interface RefusalHost {
  /** Wall-clock milliseconds. */
  now(): number
  /** The offered id where it is acceptable, else a fresh one. */
  correlationId(offered: string | null): string
  refused(event: RefusalEvent): void
}

/** A response given before there is a context, always the last on its connection. */
interface RawReply {
  readonly status: number
  readonly headers: string[]
  readonly body: string
}

/**
 * `{error, message}` with the two headers of every response (contract, Errors and Versioning; decision 13). `error` is
 * the name of the status.
 */
export function rawReply(status: number, message: string, correlationId: string): RawReply {
  const notAllowed = status === 405
  const error = notAllowed ? 'Method not allowed' : (STATUS_CODES[status] ?? 'Error')
  const body = JSON.stringify({ error, message })
  return {
    status,
    headers: [
      'Content-Type',
      'application/json; charset=utf-8',
      'Content-Length',
      String(Buffer.byteLength(body)),
      'X-API-Version',
      API_VERSION,
      'X-Correlation-Id',
      correlationId,
      'Cache-Control',
      'no-store',
      'Connection',
      'close',
      // No route was matched yet, so these are the methods a route can have.
      ...(notAllowed ? ['Allow', 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'] : [])
    ],
    body
  }
}

/** The response as bytes, for a connection whose parser has failed. `now` in wall-clock milliseconds. */
export function rawReplyBytes(reply: RawReply, now: number): string {
  let text = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status] ?? 'Unknown'}\r\nDate: ${new Date(now).toUTCString()}\r\n`
  for (let at = 0; at < reply.headers.length; at += 2) text += `${reply.headers[at]}: ${reply.headers[at + 1]}\r\n`
  return `${text}\r\n${reply.body}`
}

export function parseFault(code: string | undefined): { readonly status: number; readonly message: string } {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, message: 'The request head is too large.' }
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { status: 413, message: 'The chunk extensions of the request body are too large.' }
    case 'HPE_INVALID_VERSION':
    case 'HPE_PAUSED_H2_UPGRADE':
      return { status: 400, message: 'Only HTTP/1.1 and HTTP/1.0 are spoken here.' }
    case 'HPE_INVALID_METHOD':
      return { status: 400, message: 'The request method is not known.' }
    case 'HPE_INVALID_URL':
      return { status: 400, message: 'The request target is malformed.' }
    case 'HPE_INVALID_HEADER_TOKEN':
      return { status: 400, message: 'A header line is malformed.' }
    case 'HPE_INVALID_CONTENT_LENGTH':
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      return { status: 400, message: 'Content-Length is malformed or contradicts another header.' }
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return { status: 400, message: 'Transfer-Encoding is malformed or contradicts another header.' }
    case 'HPE_INVALID_CHUNK_SIZE':
      return { status: 400, message: 'The chunked request body is malformed.' }
    default:
      return { status: 400, message: 'The request is malformed.' }
  }
}

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
