import type { Context } from './context.ts'

// Any of these on a connection from this machine means that somebody else's request was passed on to us.
const relayed = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']

/**
 * Whether a request was made on the gateway's own machine: by the connection's own address, which no header can change,
 * and not through a proxy that runs there.
 */
export function isLocalCaller(ctx: Context): boolean {
  return (
    (ctx.peerAddress === '::1' || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/i.test(ctx.peerAddress)) &&
    !relayed.some(name => ctx.headers.has(name))
  )
}
