import type { Socket } from 'node:net'
import type { Clock } from '../../platform/system/clock.ts'

/** An interim response that every client of HTTP/1.1 must pass over, however many come (RFC 9110, section 15.2). */
export const PROBE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Milliseconds for the reset that answers a write to a closed connection: the round trip to most clients. */
const ROUND_TRIP = 50

/**
 * Whether a client that has ended its side still reads; false when it has left. A closed connection accepts the first
 * write and answers it with a reset, so that only a second one fails.
 */
export async function stillReads(socket: Socket, clock: Clock): Promise<boolean> {
  if (!(await accepts(socket))) return false
  await new Promise<void>(resolve => {
    clock.after(ROUND_TRIP, resolve)
  })
  return await accepts(socket)
}

function accepts(socket: Socket): Promise<boolean> {
  return new Promise(resolve => {
    if (socket.writable)
      socket.write(PROBE, 'latin1', error => {
        resolve((error ?? null) === null)
      })
    else resolve(false)
  })
}
