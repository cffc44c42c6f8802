import type { Context } from './context.ts'

// Any of these on a local connection means that a proxy relays another client's request.
const relayed = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']

/**
 * Whether a request comes from the gateway's own machine, by the connection's address, which headers cannot change, and
 * not through a local proxy.
 */
export function isLocalCaller(ctx: Context): boolean {
  return (
    (ctx.peerAddress === '::1' || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/i.test(ctx.peerAddress)) &&
    !relayed.some(name => ctx.headers.has(name))
  )
}

/**
 * Whether a page of another origin sent this request, by Sec-Fetch-Site, or Origin where the browser omits it (plain
 * HTTP). Clients can forge both, so this must grant nothing.
 */
export function isCrossSite({ headers, host }: Pick<Context, 'headers' | 'host'>): boolean {
  const site = headers.get('sec-fetch-site')
  if (site !== undefined) return site === 'cross-site' || site === 'same-site'
  const origin = headers.get('origin')
  return origin !== undefined && !(URL.canParse(origin) && new URL(origin).host === host)
}

/**
 * The method that a CORS preflight announces; null for other requests, including a plain OPTIONS (Fetch standard,
 * CORS-preflight request; decision 6).
 */
export function announcedMethod(ctx: Pick<Context, 'method' | 'headers'>): string | null {
  if (ctx.method !== 'OPTIONS' || !ctx.headers.has('origin')) return null
  return ctx.headers.get('access-control-request-method') ?? null
}
