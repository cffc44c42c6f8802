import { Type, type Static } from 'typebox'
import { described, SecretText, type DeepReadonly } from '../config/fields.ts'
import { Duration, Size } from '../config/units.ts'

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
    description: 'Most connections to this upstream from one worker.'
  }),
  connectionsPerClient: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 65535,
      description:
        'Most of them for requests of one client address (IPv6 by /64); what it asks beyond waits. A quarter of `connections` when left out.'
    })
  ),
  preserveHost: Type.Boolean({ default: false, description: "Send the client's Host instead of the upstream's own." }),
  underscoreHeaders: Type.Boolean({
    default: false,
    description:
      'Pass on request headers whose names have an underscore. CGI and WSGI take them for the ones with a dash, such as X-Forwarded-For.'
  }),
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
const url = {
  'x-format': 'upstream-url',
  description: "Address of an HTTP server; a path in it stands before the request's own."
}

export const NamedUpstreamSchema = Type.Object(
  { url: Type.String(url), ...upstreamUrl },
  described('An HTTP upstream.')
)

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
    url: Type.Optional(Type.String(url)),
    ...upstreamUrl
  },
  described('Where the request goes.')
)

type UrlOptions = Omit<Static<typeof NamedUpstreamSchema>, 'url'>

/** Times in milliseconds, limits in bytes; the files of `tls` are absolute paths. */
export type UrlUpstreamConfig = DeepReadonly<{ kind: 'url'; name?: string; url: string } & UrlOptions>

/** `param` is the path parameter's name without its colon. */
export type UpstreamConfig =
  | { readonly kind: 'files'; /** Absolute. */ readonly path: string }
  | { readonly kind: 'internal'; readonly name: string }
  | { readonly kind: 'proxy'; readonly param: string }
  | UrlUpstreamConfig
