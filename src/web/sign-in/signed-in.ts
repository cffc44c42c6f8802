import type { Context } from '../../engine/message/context.ts'
import { FORBIDDEN, NOT_SIGNED_IN } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { CurrentSession, Sessions } from './sessions.ts'

export interface OpenSession {
  readonly token: string
  readonly session: CurrentSession
}

/**
 * The session, for operations without an account.
 * @throws LongError 401 without one, 403 for a cross-site request; Unavailable
 */
export async function signedIn(ctx: Context, sessions: Sessions, publicUrl: string): Promise<OpenSession> {
  const token = sessions.tokenOf(ctx)
  const session = await sessions.current(token)
  if (session === null || token === null)
    throw new LongError(NOT_SIGNED_IN, 'Not signed in', 'Not signed in. Request a link with POST /api/auth/magic-link.')
  if (!mayActByCookie(ctx, publicUrl)) throw otherSite()
  return { token, session }
}

export function otherSite(): LongError {
  return new LongError(FORBIDDEN, 'Forbidden', 'Only a page of this gateway may ask for this.')
}

type SameSiteRequest = Pick<Context, 'headers' | 'host' | 'method' | 'secure'>

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
}

/** Whether an `Origin` is the gateway's public or requested one. */
function isOwnOrigin(origin: string, { host, secure }: SameSiteRequest, publicUrl: string): boolean {
  return [new URL(publicUrl).origin, `${secure ? 'https' : 'http'}://${host}`].includes(origin)
}

/**
 * CSRF check of cookie requests (decision 322). A change must be same-origin by Sec-Fetch-Site, or by Origin over plain
 * HTTP; without either it is refused. A read may also be a followed link or typed address, never a cross-site
 * subresource.
 */
export function mayActByCookie(ctx: SameSiteRequest, publicUrl: string): boolean {
  const site = ctx.headers.get('sec-fetch-site')
  const origin = ctx.headers.get('origin')
  if (site === 'same-origin') return origin === undefined || isOwnOrigin(origin, ctx, publicUrl)
  if (!isSafe(ctx.method)) return site === undefined && origin !== undefined && isOwnOrigin(origin, ctx, publicUrl)
  if (site === undefined) return origin === undefined || isOwnOrigin(origin, ctx, publicUrl)
  if (site === 'none') return true
  return ctx.headers.get('sec-fetch-mode') === 'navigate' && ctx.headers.get('sec-fetch-dest') === 'document'
}
