import { Type } from 'typebox'
import { described } from '../config/fields.ts'
import { Duration, Size } from '../config/units.ts'

const limits = Type.Object(
  {
    headerDeadline: Duration({
      default: '10s',
      minimum: '1ms',
      description: 'Time for a request head to arrive completely, from its first byte.'
    }),
    idleReadDeadline: Duration({
      default: '60s',
      minimum: '1ms',
      description: 'Longest pause between two pieces of a request body.'
    }),
    idleWriteDeadline: Duration({
      default: '60s',
      minimum: '1ms',
      description: 'Longest time a client may leave written bytes unread.'
    }),
    keepAlive: Duration({
      default: '75s',
      description: 'How long an idle client connection is kept between two requests.'
    }),
    headerSize: Size({
      default: '80KiB',
      minimum: '1KiB',
      maximum: '1MiB',
      description: 'Largest request head. Payment credentials of up to 64 KiB must fit.'
    }),
    headerCount: Type.Integer({
      default: 200,
      minimum: 10,
      maximum: 10000,
      description: 'Most header lines of a request.'
    }),
    connectionsPerAddress: Type.Integer({
      default: 1024,
      minimum: 1,
      description: 'Most open connections from one client address.'
    }),
    uploadFloor: Size({ default: '64B', description: 'Slowest upload, in bytes a second. 0 switches it off.' }),
    downloadFloor: Size({
      default: '64B',
      description: 'Slowest reading of a response that waits for its client, in bytes a second. 0 switches it off.'
    }),
    floorWindow: Duration({
      default: '20s',
      minimum: '1ms',
      description: 'Time over which the slowest upload and reading are measured.'
    }),
    buffer: Size({
      default: '256KiB',
      description:
        "Bytes of a response, and of a request body, that are kept for a client slower than the upstream, so that the upstream's connection is free sooner."
    }),
    buffers: Size({
      default: '64MiB',
      description:
        'Bytes that are kept so for all clients together, in one worker; and the same once more for bodies of operations that anybody may call.'
    }),
    drainTimeout: Duration({
      default: '30s',
      description: 'How long running requests may go on after SIGTERM before they are cut.'
    })
  },
  described('What a single client may take from the listener.')
)

export const ServerSchema = Type.Object(
  {
    listen: Type.String({
      default: '127.0.0.1:8080',
      'x-format': 'listen',
      description:
        'Address and port to listen on, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:80. Port 0 takes any free one.'
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
