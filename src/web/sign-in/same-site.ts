import type { Context } from '../../engine/message/context.ts'

/** What of a request tells which page it came from. */
type Asked = Pick<Context, 'headers' | 'host' | 'method' | 'secure'>

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
}

/** Whether an `Origin` is this gateway's: as clients are told to reach it, or as this one did. */
function isOwnOrigin(origin: string, { host, secure }: Asked, publicUrl: string): boolean {
  return [new URL(publicUrl).origin, `${secure ? 'https' : 'http'}://${host}`].includes(origin)
}

/**
 * Whether a request may act by its cookie (decision 322): what changes something must come from a page of this origin,
 * as the browser itself says in Sec-Fetch-Site, or in Origin where it sends plain HTTP to a network. One that says
 * neither is refused: every browser says one. What only reads may also be a link that somebody follows, or a typed
 * address; never what another site loads into a page of its own.
 */
export function mayActByCookie(ctx: Asked, publicUrl: string): boolean {
  const site = ctx.headers.get('sec-fetch-site')
  const origin = ctx.headers.get('origin')
  if (site === 'same-origin') return origin === undefined || isOwnOrigin(origin, ctx, publicUrl)
  if (!isSafe(ctx.method)) return site === undefined && origin !== undefined && isOwnOrigin(origin, ctx, publicUrl)
  if (site === undefined) return origin === undefined || isOwnOrigin(origin, ctx, publicUrl)
  if (site === 'none') return true
  return ctx.headers.get('sec-fetch-mode') === 'navigate' && ctx.headers.get('sec-fetch-dest') === 'document'
}
