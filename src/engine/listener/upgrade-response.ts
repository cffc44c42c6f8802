import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../../platform/system/clock.ts'
import type { Connection } from './connection.ts'
import type { Admission } from './front-door.ts'
import { type TunnelOpener, WireResponse } from './response-wire.ts'
import { openTunnel } from './upgrade.ts'

/** The response to an upgrade, written by hand: Node has detached its parser from the socket. It may become a tunnel. */
export function upgradeResponse(
  req: IncomingMessage,
  socket: Socket,
  connection: Connection,
  admission: Admission,
  clock: Clock
): { readonly res: WireResponse; readonly opener: TunnelOpener } {
  const res = new WireResponse(req)
  res.shouldKeepAlive = false
  res.assignSocket(socket)
  const onDrain = (): void => {
    res.emit('drain')
  }
  socket.on('drain', onDrain)
  res.on('finish', () => {
    socket.destroySoon()
  })
  // Reading without consuming is the only way to see the client leave.
  const onReadable = (): void => {
    if (socket.readableLength === 0) socket.read()
  }
  const onEnd = (): void => {
    socket.destroy()
  }
  socket.on('readable', onReadable)
  socket.on('end', onEnd)
  const opener: TunnelOpener = (target, accepted, wire) =>
    openTunnel(
      {
        socket,
        method: admission.method,
        protocol: admission.headers.all('upgrade').join(', '),
        opening: () => {
          socket.off('drain', onDrain)
          socket.off('readable', onReadable)
          socket.off('end', onEnd)
          connection.tunnelling = true
          wire.handOver()
        },
        passed: (bytesIn, bytesOut) => {
          wire.body.tunnelled(bytesIn)
          wire.tunnelled(bytesOut)
        },
        closed: clean => {
          wire.closed(clean)
        }
      },
      target,
      accepted,
      clock
    )
  return { res, opener }
}
