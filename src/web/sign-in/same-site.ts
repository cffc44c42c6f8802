import type { Context } from '../../engine/message/context.ts'

/** Origin data of a request. */
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
