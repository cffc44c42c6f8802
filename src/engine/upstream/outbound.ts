import { Client } from 'undici'
import { guardedConnector, plainConnector, type UpstreamTls } from './connector.ts'
import type { AddressGuard } from './guard.ts'

declare module '../pipeline/plugin.ts' {
  interface Services {
    /** Calls through the address guard. */
    readonly outbound: OutboundCall
  }
}

export interface OutboundRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: readonly string[]
  readonly body?: Uint8Array
  /** Milliseconds for the whole call, from name resolution to the last byte. */
  readonly timeout: number
  /** Most body bytes to return; default none. */
  readonly keep?: number
  readonly signal?: AbortSignal
}

export interface OutboundResponse {
  readonly status: number
  /** At most `keep` bytes; fewer where the body is shorter, breaks off, or exceeds the time. */
  readonly body: Uint8Array
}

/** The status alone decides the outcome; bytes beyond `keep` are discarded. Never follows redirects. */
export type OutboundCall = (request: OutboundRequest) => Promise<OutboundResponse>

/** Bytes read of a discarded response before the connection is dropped. */
const MAX_RESPONSE = 64 * 1024

/**
 * Calls through the address guard, each on its own connection. Without a guard, which is for the operator's own
 * addresses, `tls` is used.
 * @throws AddressRefused, NameUnresolved, a `TimeoutError`, the reason of `signal`, or the connection's error
 */
export function outboundCall(guard: AddressGuard | null, tls: UpstreamTls | null = null): OutboundCall {
  return async request => {
    const url = new URL(request.url)
    const late = AbortSignal.timeout(request.timeout)
    const signal = request.signal === undefined ? late : AbortSignal.any([late, request.signal])
    // undici observes a signal only once connected, and resolving the name may take long.
    const over = Promise.withResolvers<never>()
    const end = (): void => {
      over.reject(signal.reason)
    }
    signal.addEventListener('abort', end)
    const client = new Client(url.origin, {
      connect:
        guard === null
          ? plainConnector({ tls, timeout: request.timeout })
          : guardedConnector(guard, { tls: null, timeout: request.timeout }),
      maxResponseSize: Math.max(MAX_RESPONSE, request.keep ?? 0),
      allowH2: false
    })
    try {
      signal.throwIfAborted()
      const pending = client.request({
        method: request.method,
        path: `${url.pathname}${url.search}`,
        headers: [...request.headers],
        body: request.body ?? null,
        signal
      })
      const response = await Promise.race([pending, over.promise])
      return { status: response.statusCode, body: await beginning(response.body, request.keep ?? 0) }
    } finally {
      signal.removeEventListener('abort', end)
      // Not awaited: it would wait for a pending name resolution.
      client.destroy().catch(() => {})
    }
  }
}

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
    // The status decides; a body that is too long, breaks off or is late changes nothing.
  }
  return Buffer.concat(pieces)
}
