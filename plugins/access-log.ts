import { cleanTarget, codeOf, definePlugin, Type, type Context, type ErrorCode, type Outcome } from '../src/index.ts'

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
  units?: { readonly input: number; readonly output: number }
  payment?: { scheme: string; amountSats: number }
  error?: string
  /** Its name in docs/reference/errors.md. */
  code?: ErrorCode
}

/** Internal errors are answered without their text; the log has it. */
function errorText(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

/** Characters that JSON escapes, and non-ASCII. */
const ODD = /[^\x20\x21\x23-\x5b\x5d-\x7e]/

const FRACTIONS = Array.from({ length: 1000 }, (_, thousandth) =>
  thousandth === 0 ? '' : String(thousandth / 1000).slice(1)
)

/** A number with up to three decimals as JSON. Faster than formatting fractions. */
function thousandths(value: number): string {
  const count = Math.round(value * 1000)
  if (!(count >= 0 && count < 1e12)) return JSON.stringify(count / 1000)
  const whole = Math.floor(count / 1000)
  return `${whole}${FRACTIONS[count - whole * 1000] ?? ''}`
}

/** Flattens a concatenated ASCII string, which each use would walk again. */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}

function skipper(paths: readonly string[]): (path: string) => boolean {
  const exact = new Set(paths.filter(path => !path.endsWith('/*')))
  const below = paths.filter(path => path.endsWith('/*')).map(path => path.slice(0, -1))
  return path => exact.has(path) || below.some(prefix => path.startsWith(prefix))
}

/** Logs one line per finished request, however it ended. */
export default definePlugin({
  name: 'access-log',
  description:
    'Writes one log line per request when it ends. It has the correlation ID, method, route, path, status, source of the response (upstream, reply or error), bytes, duration and client address. Where they apply, it adds principal, units, payment scheme, amount, and the error with its code (docs/reference/errors.md). It never contains a header value, preimage, macaroon or key. Responses of 500 and above are logged as errors, undelivered responses as warnings, all others at the level set here.',
  config: Type.Object(
    {
      level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn')], {
        default: 'info',
        description: 'Level of lines about requests that went well or were refused.'
      }),
      path: Type.Union([Type.Literal('path'), Type.Literal('query'), Type.Literal('none')], {
        default: 'path',
        description:
          "How much of the address is written: the path, the path and its query with the values of known secret parameters replaced, or only the route's name (for paths that are secrets themselves)."
      }),
      skip: Type.Array(Type.String({ minLength: 1 }), {
        default: [],
        description:
          'Paths that are not logged when all went well, such as /health; a trailing /* covers everything below.'
      })
    },
    { additionalProperties: false, description: 'What is written.' }
  ),
  uses: ['log'],
  setup(config, { services: { log }, route }) {
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
      if (ctx.principal?.kind === 'subscriber' && ctx.principal.used !== undefined) line.units = ctx.principal.used
      if (ctx.payment !== null) line.payment = { scheme: ctx.payment.scheme, amountSats: ctx.payment.amountSats }
      if (outcome.error !== null) {
        line.error = errorText(outcome.error)
        const code = codeOf(outcome.error)
        if (code !== null) line.code = code
      }
      return line
    }

    const plainRoute = !ODD.test(route.name)
    // Cached parts of the line with their inputs.
    const front = { method: '', status: 0, source: '', delivered: false, bytesIn: 0, text: '' }
    const paid = { scheme: '', amountSats: 0, text: '' }

    const frontOf = ({ method }: Context, { status, source, delivered, bytesIn }: Outcome): string => {
      if (
        front.method === method &&
        front.status === status &&
        front.source === source &&
        front.delivered === delivered &&
        front.bytesIn === bytesIn
      )
        return front.text
      const text = flat(
        `","method":"${method}","route":"${route.name}","status":${status},"source":"${source}","delivered":${String(delivered)},"bytesIn":${bytesIn},"bytesOut":`
      )
      Object.assign(front, { method, status, source, delivered, bytesIn, text })
      return text
    }

    const paidOf = (payment: Context['payment']): string => {
      if (payment === null) return ''
      const { scheme, amountSats } = payment
      if (paid.scheme !== scheme || paid.amountSats !== amountSats)
        Object.assign(paid, {
          scheme,
          amountSats,
          text: flat(`,"payment":{"scheme":"${scheme}","amountSats":${amountSats}}`)
        })
      return paid.text
    }

    /** The line as JSON members, built by hand: twice as fast as serializing. Null for rare members. */
    const textOf = (ctx: Context, outcome: Outcome): string | null => {
      const { correlationId, method, clientAddress, payment } = ctx
      if (!plainRoute || ctx.route !== route || ctx.principal !== null || outcome.error !== null) return null
      const path = config.path === 'none' ? null : config.path === 'path' ? ctx.path : cleanTarget(ctx.target)
      if ((path !== null && ODD.test(path)) || ODD.test(correlationId) || ODD.test(method) || ODD.test(clientAddress))
        return null
      const line = `"correlationId":"${correlationId}${frontOf(ctx, outcome)}${outcome.bytesOut},"durationMs":${thousandths(outcome.duration)},"client":"${clientAddress}`
      return path === null ? `${line}"${paidOf(payment)}` : `${line}","path":"${path}"${paidOf(payment)}`
    }

    const write = (level: 'debug' | 'info' | 'warn' | 'error', ctx: Context, outcome: Outcome): void => {
      if (log.known === undefined) log[level](lineOf(ctx, outcome), 'request')
      else log.known(level, textOf(ctx, outcome) ?? lineOf(ctx, outcome), 'request')
    }

    return {
      done(ctx, outcome) {
        if (outcome.status >= 500) write('error', ctx, outcome)
        else if (ctx.internal) return
        else if (!outcome.delivered) write('warn', ctx, outcome)
        else if (skipped === null || !skipped(ctx.path)) write(config.level, ctx, outcome)
      }
    }
  }
})
