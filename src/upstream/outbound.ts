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
  /** Milliseconds for the whole call. */
  readonly timeout: number
}

/** Makes a call and answers the status; the answer's body is read to nowhere. Redirects are answers, never followed. */
export type OutboundCall = (request: OutboundRequest) => Promise<number>

/** Bytes of an answer that are read before the connection is dropped. */
const MAX_ANSWER = 64 * 1024

/**
 * Calls through the address guard, each on a connection of its own. Rejects with `AddressRefused`, `NameUnresolved`, a
 * `TimeoutError`, or what the connection failed with.
 */
export function outboundCall (guard: AddressGuard): OutboundCall {
  return async request => {
    const url = new URL(request.url)
    const client = new Client(url.origin, { connect: guardedConnector(guard, { tls: null, timeout: request.timeout }), maxResponseSize: MAX_ANSWER, allowH2: false })
    try {
      const answer = await client.request({
        method: request.method,
        path: `${url.pathname}${url.search}`,
        headers: [...request.headers],
        body: request.body ?? null,
        signal: AbortSignal.timeout(request.timeout)
      })
      // The status is the answer; a body that is too long or breaks off changes nothing about it.
      await answer.body.dump({ limit: MAX_ANSWER }).catch(() => {})
      return answer.statusCode
    } finally {
      await client.destroy()
    }
  }
}
