import type { Socket } from 'node:net'

/** Cuts a response off so that the client notices: by a reset, or by the missing close_notify of TLS. */
export function cut(socket: Socket): void {
  if ('encrypted' in socket) socket.destroy()
  else socket.resetAndDestroy()
}
