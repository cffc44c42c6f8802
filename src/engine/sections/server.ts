import { Type } from 'typebox'
import { described, List, SecretText } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

const limits = Type.Object(
  {
    drainTimeout: Duration({
      default: '30s',
      description: 'How long running requests may go on after SIGTERM before they are cut.'
    })
  },
  described('Limits of the listener.')
)

export const ServerSchema = Type.Object(
  {
    listen: List(Type.String({ 'x-format': 'listen' }), {
      default: ['127.0.0.1:8080'],
      description:
        'Addresses to listen on, such as 127.0.0.1:8080, [::1]:8080 or unix:/run/boltgate/http.sock. Port 0 takes any free one. With `tls`, an address after http:// redirects to HTTPS; requests of this machine and of trusted proxies are served there.'
    }),
    publicUrl: Type.String({
      default: '',
      'x-format': 'origin',
      description:
        'The address that clients use, without a path. Derived from `listen` when empty; required and https in production. Never taken from a request.'
    }),
    proxyUrl: Type.String({
      default: '',
      'x-format': 'origin',
      description:
        "An address with a host name of its own, such as https://apis.example.net, from which merchants' proxies are served, and nothing else. Requests for them at any other host are redirected there (308), unless they carry a payment credential for a proxy with a price. Without it they share the origin of `publicUrl`."
    }),
    tls: Type.Array(
      Type.Object({
        cert: Type.String({ 'x-format': 'file', description: 'File with the certificate and its chain (PEM).' }),
        key: Type.String({ 'x-format': 'file', description: "File with the certificate's private key (PEM)." })
      }),
      {
        default: [],
        description:
          'Certificates for HTTPS at `listen` (TLS 1.2 and 1.3). Chosen by SNI; the first one is the default. Renewed files are in use within 30 seconds. Plain HTTP when empty.'
      }
    ),
    clientCa: Type.Optional(
      Type.String({
        'x-format': 'file',
        description:
          'File with the authorities of client certificates (PEM). Clients of `tls` are asked for one and may have none; the plugin `api-key` admits those that verify. Renewed like `tls`.'
      })
    ),
    http2: Type.Boolean({
      default: false,
      description: 'Offers HTTP/2 to clients over TLS, and takes it from `trustedProxies` in the clear.'
    }),
    workers: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 1024,
      description: 'Processes that share the port. More than one needs PostgreSQL and Redis.'
    }),
    trustedProxies: Type.Array(Type.String({ 'x-format': 'address-range' }), {
      default: [],
      description: 'Addresses or ranges (CIDR) whose X-Forwarded-* headers are believed.'
    }),
    limits
  },
  described('The listener.')
)

export const SecretsSchema = Type.Object(
  {
    master: SecretText({
      default: '',
      pattern: '^$|^.{32}',
      'x-allowed': 'at least 32 characters, such as the output of `openssl rand -base64 48`',
      description:
        'At least 32 characters, from which every key is derived. Generated into the data folder when empty; required in production.'
    }),
    adminKey: SecretText({
      default: '',
      pattern: '^$|^.{16}',
      'x-allowed': 'at least 16 characters',
      description: 'Key of the operator, sent in X-API-Key. Generated into keys.json in the data folder when empty.'
    }),
    previous: Type.Array(SecretText({ minLength: 32 }), {
      default: [],
      description: 'Former masters, newest first. What they signed still verifies until they are removed.'
    })
  },
  described('Keys for macaroons, Payment ids and encryption come from here.')
)
