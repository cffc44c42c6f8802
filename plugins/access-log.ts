import { cleanTarget, definePlugin, Type, type Context, type Outcome } from '../src/index.ts'

/** The line of one request. Nothing in it can pay or sign in: no header value, preimage, macaroon or key. */
interface Line {
  correlationId: string
  method: string
  route: string
  path?: string
  status: number
  source: Outcome['source']
  delivered: boolean
  bytesIn: number
  bytesOut: number
  durationMs: number
  client: string
  principal?: string
  payment?: { scheme: string, amountSats: number }
  error?: string
}

/** An unforeseen error is answered without its text; the log has the text. */
function errorText (error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

function skipper (paths: readonly string[]): (path: string) => boolean {
  const exact = new Set(paths.filter(path => !path.endsWith('/*')))
  const below = paths.filter(path => path.endsWith('/*')).map(path => path.slice(0, -1))
  return path => exact.has(path) || below.some(prefix => path.startsWith(prefix))
}

/** Writes one line when a request is over, in every ending it can have. */
export default definePlugin({
  name: 'access-log',
  description: 'Writes one line of log for each request once it is over: correlation id, method, route, path, status, who answered (upstream, reply or error), bytes, duration, client address, principal, payment scheme and amount, and what went wrong. Never a header value, preimage, macaroon or key. Answers of 500 and above are written as errors, answers that did not reach the client as warnings, the rest at the level set here.',
  config: Type.Object({
    level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn')], { default: 'info', description: 'Level of lines about requests that went well or were refused.' }),
    path: Type.Union([Type.Literal('path'), Type.Literal('query'), Type.Literal('none')], {
      default: 'path', description: 'How much of the address is written: the path, the path and its query with the values of known secret parameters replaced, or only the route\'s name (for paths that are secrets themselves).'
    }),
    skip: Type.Array(Type.String({ minLength: 1 }), { default: [], description: 'Paths that are not logged when all went well, such as /health; a trailing /* covers everything below.' })
  }, { additionalProperties: false, description: 'What is written.' }),
  uses: ['log'],
  setup (config, { services: { log } }) {
    const skipped = config.skip.length === 0 ? null : skipper(config.skip)

    const lineOf = (ctx: Context, outcome: Outcome): Line => {
      const line: Line = {
        correlationId: ctx.correlationId,
        method: ctx.method,
        route: ctx.route.name,
        status: outcome.status,
        source: outcome.source,
        delivered: outcome.delivered,
        bytesIn: outcome.bytesIn,
        bytesOut: outcome.bytesOut,
        durationMs: Math.round(outcome.duration * 1000) / 1000,
        client: ctx.clientAddress
      }
      if (config.path !== 'none') line.path = config.path === 'path' ? ctx.path : cleanTarget(ctx.target)
      if (ctx.principal !== null) line.principal = `${ctx.principal.kind}:${ctx.principal.id}`
      if (ctx.payment !== null) line.payment = { scheme: ctx.payment.scheme, amountSats: ctx.payment.amountSats }
      if (outcome.error !== null) line.error = errorText(outcome.error)
      return line
    }

    const write = (level: 'debug' | 'info' | 'warn' | 'error', line: Line): void => {
      if (log.known === undefined) log[level](line, 'request')
      else log.known(level, line, 'request')
    }

    return {
      done (ctx, outcome) {
        if (outcome.status >= 500) write('error', lineOf(ctx, outcome))
        else if (!outcome.delivered) write('warn', lineOf(ctx, outcome))
        else if (skipped === null || !skipped(ctx.path)) write(config.level, lineOf(ctx, outcome))
      }
    }
  }
})
