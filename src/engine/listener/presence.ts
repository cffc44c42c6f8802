import type { Socket } from 'node:net'
import type { Clock } from '../../platform/system/clock.ts'

/** An interim response; every HTTP/1.1 client must ignore it, however many come (RFC 9110, section 15.2). */
export const PROBE = 'HTTP/1.1 100 Continue\r\n\r\n'

/** Milliseconds for the reset of a closed connection to arrive: the round trip to most clients. */
const ROUND_TRIP = 50

/**
 * Whether a half-closed client still reads. A closed connection accepts the first write and answers with a reset, so
 * only a second write fails.
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
