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
