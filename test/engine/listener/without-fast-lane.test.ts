// What is promised of the listener holds for the connections that node:http reads as well: the same tests, with the
// fast lane off.
import { doors } from './support.ts'

doors.fastLane = false
await import('./listener.test.ts')
await import('./response-wire.test.ts')
await import('./vectors.test.ts')
