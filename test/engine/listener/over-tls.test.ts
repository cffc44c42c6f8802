// What the listener promises of responses and requests holds on TLS sockets: the same tests.
import { doors } from './support.ts'

doors.tls = true
await import('./response-wire.test.ts')
await import('./half-closed.test.ts')
await import('./vectors.test.ts')
