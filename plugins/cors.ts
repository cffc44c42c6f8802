import { definePlugin, Duration, List, Type, type Context, type HeaderList, type Reply } from '../src/index.ts'

const token = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

const exposedByDefault = [
  'WWW-Authenticate',
  'Payment-Receipt',
  'X-L402-Error',
  'X-Balance-Msat',
  'X-Charged-Msat',
  'X-Last-Charged-Msat',
  'X-Free-Calls-Remaining',
  'X-Free-Calls-Reset',
  'X-Correlation-Id',
  'X-API-Version',
  'X-Idempotency-Replayed',
  'X-Total-Count',
  'X-L402-Proxy',
  'X-L402-Proxy-Id',
  'Retry-After'
]

const allowedByDefault = [
  'Authorization',
  'Content-Type',
  'X-API-Key',
  'X-Admin-Key',
  'Idempotency-Key',
  'X-Idempotency-Key',
  'X-Correlation-Id',
  'Accept-Payment',
  'X-Buyer-Location'
]

/** The headers of a response that say what pages of other origins may do with it; this plugin alone writes them. */
const ours: ReadonlySet<string> = new Set([
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
  'access-control-allow-methods',
  'access-control-allow-headers',
  'access-control-max-age'
])
/** Length of the shortest of them; hardly any other header has so long a name. */
const SHORTEST = 22

/** Takes the upstream's own away, in one walk. */
function strip(headers: HeaderList): void {
  const { pairs } = headers
  for (let at = 0; at < pairs.length;) {
    const name = pairs[at] ?? ''
    if (name.length >= SHORTEST && ours.has(name.toLowerCase())) pairs.splice(at, 2)
    else at += 2
  }
}

/** Lets pages of other origins call the gateway (Fetch standard, CORS protocol). */
export default definePlugin({
  name: 'cors',
  description:
    'Lets web pages of other origins call these routes. A preflight is answered here with 204, so it is neither throttled nor charged: stand it before throttle, auth and challenge. It comes to the route that names OPTIONS, else to that of the request which it announces, and no other grants anything. It writes all Access-Control headers of the response and takes those of the upstream away. Requests of origins that are not listed are served without them, and browsers then keep the answer from the page.',
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
      headers: List(Type.String({ pattern: token }), {
        default: allowedByDefault,
        description: 'Request headers that a preflight allows; * for any but Authorization.'
      }),
      exposed: List(Type.String({ pattern: token }), {
        default: exposedByDefault,
        description: 'Headers of the response that a page may read.'
      }),
      credentials: Type.Boolean({
        default: false,
        description: 'Allow cookies and client certificates. Needs a list of origins.'
      }),
      maxAge: Duration({ default: '1h', description: 'How long a browser may keep the response to a preflight.' })
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
    const exposed = config.exposed.join(', ')
    const preflight = [
      'Access-Control-Allow-Methods',
      config.methods.join(', '),
      'Access-Control-Allow-Headers',
      config.headers.join(', '),
      'Access-Control-Max-Age',
      String(Math.floor(config.maxAge / 1000))
    ]
    const refused: Reply = Object.freeze({ status: 204, headers: [], body: null })
    const allowed: Reply = Object.freeze({ status: 204, headers: preflight, body: null })

    const permit = (ctx: Context, headers: HeaderList): boolean => {
      const origin = ctx.headers.get('origin')
      if (any) {
        if (origin === undefined) return false
        headers.set('Access-Control-Allow-Origin', '*')
        return true
      }
      // The response depends on the origin also when there is none: a cache must not give one page's response to
      // another.
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
        if (ctx.preflight !== null) return ctx.preflight === 'own' && isAllowed(ctx) ? allowed : refused
      },
      response(ctx, head) {
        if (head.source === 'upstream') strip(head.headers)
        if (ctx.preflight === 'strange') return
        if (permit(ctx, head.headers) && ctx.preflight === null && exposed !== '')
          head.headers.set('Access-Control-Expose-Headers', exposed)
      }
    }
  }
})
