import { Client } from 'undici'
import { guardedConnector } from './connector.ts'
import type { AddressGuard } from './guard.ts'

/** One call of our own to an address that a user gave. */
export interface OutboundRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  /** Flat list. */
  readonly headers: readonly string[]
  readonly body?: Uint8Array
  /** Milliseconds for the whole call, from resolving the name to the last byte that is read. */
  readonly timeout: number
  /** Most bytes of the response's body to be given; none unless said. */
  readonly keep?: number
  /** Ends the call early. */
  readonly signal?: AbortSignal
}

/** What was answered: the status, and the beginning of the body. */
export interface OutboundResponse {
  readonly status: number
  /** At most `keep` bytes; fewer where the body is shorter, breaks off, or takes longer than the call may. */
  readonly body: Uint8Array
}

/**
 * Makes a call. The status alone decides what the response is; what is not kept of its body is read to nowhere.
 * Redirects are responses, never followed.
 */
export type OutboundCall = (request: OutboundRequest) => Promise<OutboundResponse>

/** Bytes of a response that are read before the connection is dropped, where no more are to be kept. */
const MAX_RESPONSE = 64 * 1024

/**
 * Calls through the address guard, each on a connection of its own. Rejects with `AddressRefused`, `NameUnresolved`, a
 * `TimeoutError`, the reason of `signal`, or what the connection failed with.
 */
export function outboundCall(guard: AddressGuard): OutboundCall {
  return async request => {
    const url = new URL(request.url)
    const late = AbortSignal.timeout(request.timeout)
    const signal = request.signal === undefined ? late : AbortSignal.any([late, request.signal])
    // undici hears of a signal only once it is connected, which takes as long as the name takes to resolve.
    const over = Promise.withResolvers<never>()
    const end = (): void => {
      over.reject(signal.reason)
    }
    signal.addEventListener('abort', end)
    const client = new Client(url.origin, {
      connect: guardedConnector(guard, { tls: null, timeout: request.timeout }),
      maxResponseSize: Math.max(MAX_RESPONSE, request.keep ?? 0),
      allowH2: false
    })
    try {
      signal.throwIfAborted()
      const asked = client.request({
        method: request.method,
        path: `${url.pathname}${url.search}`,
        headers: [...request.headers],
        body: request.body ?? null,
        signal
      })
      const response = await Promise.race([asked, over.promise])
      return { status: response.statusCode, body: await beginning(response.body, request.keep ?? 0) }
    } finally {
      signal.removeEventListener('abort', end)
      // Not waited for: it would be until a name that is still being resolved has been.
      client.destroy().catch(() => {})
    }
  }
}

/** Reads a body to its end, or as far as it comes, and gives its first `keep` bytes. */
async function beginning(body: AsyncIterable<Uint8Array>, keep: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let left = keep
  try {
    for await (const piece of body) {
      if (left === 0) continue
      pieces.push(piece.subarray(0, left))
      left -= Math.min(left, piece.length)
    }
  } catch {
    // The status has been given; a body that is too long, breaks off or comes too late changes nothing about it.
  }
  return Buffer.concat(pieces)
}
