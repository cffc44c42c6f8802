import { definePlugin, List, Type, type Context, type HeaderList, type Reply } from '../src/index.ts'

const token = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

const exposedByDefault = [
  'WWW-Authenticate',
  'Payment-Receipt',
  'PAYMENT-REQUIRED',
  'PAYMENT-RESPONSE',
  'X-L402-Error',
  'X-Balance-Msat',
  'X-Charged-Msat',
  'X-Fallback',
  'X-Last-Charged-Msat',
  'X-Free-Calls-Remaining',
  'X-Free-Calls-Reset',
  'X-Correlation-Id',
  'X-API-Version',
  'X-Idempotency-Replayed',
  'X-Total-Count',
  'X-L402-Proxy',
  'X-L402-Proxy-Id',
  'Retry-After',
  'Mcp-Session-Id'
]

/** Set after every plugin. */
const stamped: ReadonlySet<string> = new Set(['x-correlation-id', 'x-api-version'])

const ALLOW_ORIGIN = 'access-control-allow-origin'
const EXPOSED = 'access-control-expose-headers'
const ours: ReadonlySet<string> = new Set([
  ALLOW_ORIGIN,
  'access-control-allow-credentials',
  EXPOSED,
  'access-control-allow-methods',
  'access-control-allow-headers',
  'access-control-max-age'
])
/** Length of the shortest of them, for a fast check. */
const SHORTEST = 22

function takeUpstreams(headers: HeaderList): { readonly origins: readonly string[]; readonly exposed: string } {
  const { pairs } = headers
  const origins: string[] = []
  const exposed: string[] = []
  for (let at = 0; at < pairs.length;) {
    const name = pairs[at] ?? ''
    const lower = name.length < SHORTEST ? '' : name.toLowerCase()
    if (!ours.has(lower)) {
      at += 2
      continue
    }
    const [, value = ''] = pairs.splice(at, 2)
    if (lower === ALLOW_ORIGIN) origins.push(value)
    else if (lower === EXPOSED && value.trim() !== '') exposed.push(value)
  }
  return { origins, exposed: exposed.join(', ') }
}

/** Lets pages of other origins call the gateway (Fetch standard, CORS protocol). */
export default definePlugin({
  name: 'cors',
  description:
    'Lets web pages of other origins call these routes. A preflight is answered here with 204, so it is neither throttled nor charged: put it before throttle, auth and challenge. It comes to the route that names OPTIONS, else to that of the request which it announces, and no other grants anything. Responses expose the headers of `exposed` that they have, and those that the upstream exposes; where `origins` is `*`, an `Access-Control-Allow-Origin` of the upstream that names one origin is kept. Other CORS headers of the upstream are replaced. Requests of origins that are not listed are served without CORS headers, so browsers do not show the response to the page.',
  config: Type.Object(
    {
      origins: List(Type.String({ pattern: '^(\\*|null|[a-z][a-z0-9+.-]*://[^/?#]+)$' }), {
        default: ['*'],
        description: 'Origins such as https://shop.example, or * for any.'
      }),
      methods: List(Type.String({ pattern: token }), {
        default: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
        description: 'Methods that a preflight allows.'
      }),
      headers: Type.Optional(
        List(Type.String({ pattern: token }), {
          description:
            'Request headers that a preflight allows; * for any but Authorization. Unless set, those that the preflight asks for.'
        })
      ),
      exposed: List(Type.String({ pattern: token }), {
        default: exposedByDefault,
        description: 'Headers of the response that a page may read.'
      }),
      credentials: Type.Boolean({
        default: false,
        description: 'Allow cookies and client certificates. Needs a list of origins.'
      })
    },
    { additionalProperties: false, description: 'Who may call from a page, and how.' }
  ),
  setup(config) {
    const any = config.origins.includes('*')
    if (any && config.credentials)
      throw new TypeError(
        'credentials need a list of origins: with "*" any page could act with the cookies of its visitor'
      )
    const origins = new Set(config.origins.map(origin => origin.toLowerCase()))
    const exposed = config.exposed.map(name => ({ name, lower: name.toLowerCase() }))
    const preflight = ['Access-Control-Allow-Methods', config.methods.join(', '), 'Access-Control-Max-Age', '3600']
    const refused: Reply = Object.freeze({ status: 204, headers: [], body: null })
    const allowed = (ctx: Context): Reply => {
      const headers = config.headers ?? ctx.headers.all('access-control-request-headers')
      return {
        status: 204,
        headers: headers.length === 0 ? preflight : [...preflight, 'Access-Control-Allow-Headers', headers.join(', ')],
        body: null
      }
    }

    const permit = (ctx: Context, headers: HeaderList): boolean => {
      const origin = ctx.headers.get('origin')
      if (any) {
        if (origin === undefined) return false
        headers.set('Access-Control-Allow-Origin', '*')
        return true
      }
      // Also without an origin: a shared cache must not mix responses of different pages.
      headers.addToken('Vary', 'Origin')
      if (origin === undefined || !origins.has(origin.toLowerCase())) return false
      headers.set('Access-Control-Allow-Origin', origin)
      if (config.credentials) headers.set('Access-Control-Allow-Credentials', 'true')
      return true
    }

    const isAllowed = (ctx: Context): boolean => any || origins.has((ctx.headers.get('origin') ?? '').toLowerCase())

    return {
      answersPreflights: true,
      request(ctx) {
        if (ctx.preflight !== null) return ctx.preflight === 'own' && isAllowed(ctx) ? allowed(ctx) : refused
      },
      response(ctx, head) {
        const { headers } = head
        const theirs = head.source === 'upstream' ? takeUpstreams(headers) : null
        if (ctx.preflight === 'strange' || !permit(ctx, headers) || ctx.preflight !== null) return
        if (any && theirs !== null && theirs.origins.some(origin => origin.trim() !== '*')) {
          const [origin = ''] = theirs.origins
          // Browsers reject several values; omitting the header has the same effect.
          if (theirs.origins.length === 1) headers.set('Access-Control-Allow-Origin', origin)
          else headers.delete(ALLOW_ORIGIN)
          headers.addToken('Vary', 'Origin')
        }
        // Only what is there: a 402 with three schemes would not fit the buffers of proxies.
        const present = exposed.filter(({ lower }) => lower === '*' || stamped.has(lower) || headers.has(lower))
        const names = [...present.map(({ name }) => name), theirs?.exposed ?? ''].filter(text => text !== '')
        if (names.length > 0) headers.set('Access-Control-Expose-Headers', names.join(', '))
      }
    }
  }
})
