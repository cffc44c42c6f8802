import { Type, type Static } from 'typebox'
import { described, List, SecretText, strict, type DeepReadonly } from '../config/fields.ts'
import { Duration, Size } from '../config/units.ts'

const HealthSchema = Type.Object(
  {
    path: Type.String({
      pattern: '^/[\\x21-\\x7e]{0,1000}$',
      'x-allowed': 'a path with its query, such as /health',
      description: 'Requested with GET. Any status from 200 to 399 is healthy.'
    }),
    every: Duration({ default: '10s', minimum: '1s', maximum: '1h', description: 'Time between two checks.' }),
    unhealthyAfter: Type.Integer({
      default: 3,
      minimum: 1,
      maximum: 100,
      description: 'Failed checks in a row after which the address gets no requests.'
    }),
    healthyAfter: Type.Integer({
      default: 2,
      minimum: 1,
      maximum: 100,
      description: 'Successful checks in a row after which it gets them again.'
    })
  },
  described(
    'Checks of each address, beside what requests find out. With none healthy nothing is sold and nothing charged: 503.'
  )
)
export type HealthConfig = Readonly<Static<typeof HealthSchema>>

const upstreamUrl = {
  tls: Type.Optional(
    Type.Object(
      {
        ca: Type.Optional(
          Type.String({ 'x-format': 'file', description: 'File with the certificates to trust (PEM).' })
        ),
        cert: Type.Optional(Type.String({ 'x-format': 'file', description: 'File with a client certificate (PEM).' })),
        key: Type.Optional(
          Type.String({ 'x-format': 'file', description: "File with the client certificate's key (PEM)." })
        ),
        servername: Type.Optional(
          Type.String({
            minLength: 1,
            description: 'Name to ask for and to check, where it is not the host of the address.'
          })
        )
      },
      described('TLS towards the upstream.')
    )
  ),
  timeout: Duration({
    default: '30s',
    minimum: '1ms',
    description: 'Time until the response head; then the longest pause between two pieces.'
  }),
  responseLimit: Type.Optional(Size({ minimum: 1, description: 'Largest response body. Unlimited when left out.' })),
  connections: Type.Integer({
    default: 256,
    minimum: 1,
    maximum: 65535,
    description:
      'Most connections to this upstream from one worker. One client address (IPv6 by /64) gets a quarter of them; its further requests wait.'
  }),
  preserveHost: Type.Boolean({ default: false, description: "Send the client's Host instead of the upstream's own." }),
  stripPrefix: Type.Optional(
    Type.String({
      pattern: '^/[^:*?#\\s]+$',
      'x-allowed': 'the beginning of a path, such as /v1',
      description: 'Leading part of the request path that is left out upstream.'
    })
  ),
  headers: Type.Record(Type.String(), SecretText(), {
    default: {},
    description: 'Headers set on every forwarded request.'
  })
}
const FallbackSchema = Type.Object(
  {
    url: Type.String({ 'x-format': 'upstream-url', description: 'Address, with the path of its API in front.' }),
    model: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'Replaces the `model` of a JSON body. A meter charges its price.'
      })
    ),
    headers: Type.Record(Type.String(), SecretText(), {
      default: {},
      description: 'Headers set on its requests, in place of those of the upstream.'
    })
  },
  strict
)

const upstreamUrls = {
  url: Type.Optional(
    List(Type.String({ 'x-format': 'upstream-url' }), {
      maxItems: 64,
      uniqueItems: true,
      'x-former': 'urls',
      description:
        "URL of an HTTP server, whose path is prepended to the request's path, or a list of servers that serve the same. One of several that fails five times in a row is left out for 5 to 30 seconds. A request that reached none goes to another; one without an answer too, if its method is idempotent. `urls` is read too."
    })
  ),
  balance: Type.Optional(
    Type.Union([Type.Literal('least-requests'), Type.Literal('round-robin')], {
      description:
        'Which of several servers takes a request: the one with the fewest requests in flight (least-requests), or each in turn.'
    })
  ),
  health: Type.Optional(HealthSchema),
  fallback: Type.Optional(
    Type.Array(FallbackSchema, {
      minItems: 1,
      maxItems: 16,
      description:
        'Servers that get a request, in this order, when all of `url` fail before the first byte of the response. The response says so in X-Fallback: the model, or the place in this list.'
    })
  ),
  on: Type.Optional(
    List(Type.Union([Type.Literal('connect'), Type.Literal(429), Type.Literal('5xx'), Type.Literal('idle')]), {
      'x-allowed': 'connect, 429, 5xx, idle or a list of them',
      description:
        'What leads to `fallback`, all when left out: no connection, a status, or no byte of the body within `timeout`. Requests that may change something, such as POST, follow connect and 429 alone.'
    })
  )
}

export const NamedUpstreamSchema = Type.Object({ ...upstreamUrls, ...upstreamUrl }, described('An HTTP upstream.'))

/** Exactly one of `files`, `internal`, `proxy` and `url` is allowed. */
export const UpstreamSchema = Type.Object(
  {
    files: Type.Optional(
      Type.String({
        'x-format': 'file',
        description:
          'Folder whose files are served below the `/*` of the path, or one file for a path without it. No listings, dot files or symbolic links.'
      })
    ),
    internal: Type.Optional(Type.String({ minLength: 1, description: 'Name of an upstream inside the gateway.' })),
    proxy: Type.Optional(
      Type.String({
        pattern: '^:[A-Za-z_][A-Za-z0-9_]*$',
        description: "Path parameter that holds the id of a merchant's proxy, such as `:proxyId`."
      })
    ),
    ...upstreamUrls,
    ...upstreamUrl
  },
  described('Where the request goes.')
)

type UrlOptions = Omit<Static<typeof NamedUpstreamSchema>, 'url'>

/** Times in milliseconds, limits in bytes; the files of `tls` are absolute paths. */
export type UrlUpstreamConfig = DeepReadonly<{ kind: 'url'; name?: string; url: string[] } & UrlOptions>

/** With its fallbacks. */
export function allAddressesOf({ url, fallback = [] }: UrlUpstreamConfig): readonly string[] {
  return [...url, ...fallback.map(each => each.url)]
}

/** `param` is the path parameter's name without its colon. */
export type UpstreamConfig =
  | { readonly kind: 'files'; /** Absolute. */ readonly path: string }
  | { readonly kind: 'internal'; readonly name: string }
  | { readonly kind: 'proxy'; readonly param: string }
  | UrlUpstreamConfig
