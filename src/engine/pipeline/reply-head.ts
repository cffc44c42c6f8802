import type { Context } from '../message/context.ts'
import { HeaderList } from '../message/headers.ts'
import { type Head, isStreamBody, type Reply } from '../message/reply.ts'
import { API_VERSION } from '../operations/errors.ts'

export const EMPTY_BODY_STATUS = new Set([204, 205, 304])

/** The head of a reply as a mutable list, with Content-Length where known. The reply stays unchanged. */
export function replyHeaders({ status, headers: given, body }: Reply): HeaderList {
  const headers = new HeaderList(given.slice())
  if (!EMPTY_BODY_STATUS.has(status) && !isStreamBody(body))
    headers.set('Content-Length', String(body === null ? 0 : Buffer.byteLength(body)))
  return headers
}

/**
 * Sets the two headers of every response (contract, Versioning; decisions 13 and 14), Strict-Transport-Security, and `no-store` on own responses
 * without Cache-Control. Shared caches cannot tell keys or sessions apart (RFC 9111 3.5 covers Authorization only)
 * and cache a 404 heuristically (decision 405).
 */
export function stampHead(head: Head, ctx: Context, isStrict: boolean): void {
  if (head.source !== 'upstream' && !head.headers.has('cache-control')) head.headers.set('Cache-Control', 'no-store')
  head.headers.set('X-Correlation-Id', ctx.correlationId)
  if (head.source !== 'upstream' || ctx.route.own || !head.headers.has('x-api-version'))
    head.headers.set('X-API-Version', API_VERSION)
  if (isStrict && head.source !== 'upstream' && ctx.secure)
    head.headers.set('Strict-Transport-Security', 'max-age=31536000')
}
