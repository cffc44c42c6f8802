import net from 'node:net'
import { once } from 'node:events'
import type { Test as T } from 'tap'

/**
 * A door in front of a server, that a test can shut: what is behind it is then unreachable, as after a crash or behind a dead
 * network.
 */
export interface TcpGate {
  readonly port: number
  /** Resets every connection, and each new one immediately. */
  cut(): void
  /** Keeps connections but lets nothing through, as a network that drops packets does. */
  stall(): void
  /** Lets everything through again; what was held back too. */
  open(): void
}

/** Opens a door on a free port of loopback to `target`. */
export async function openGate(t: T, target: { readonly host: string; readonly port: number }): Promise<TcpGate> {
  const pairs = new Set<readonly [net.Socket, net.Socket]>()
  let state: 'open' | 'cut' | 'stalled' = 'open'
  const server = net.createServer({ noDelay: true }, near => {
    near.on('error', () => {
      near.destroy()
    })
    if (state === 'cut') {
      near.resetAndDestroy()
      return
    }
    const far = net.connect({ ...target, noDelay: true })
    const pair = [near, far] as const
    pairs.add(pair)
    for (const [from, to] of [
      [near, far],
      [far, near]
    ] as const) {
      from.on('error', () => {
        to.destroy()
      })
      from.on('close', () => {
        to.destroy()
        pairs.delete(pair)
      })
      // One that comes during a stall begins to flow when the gate opens; two pipes would double every byte.
      if (state === 'stalled') from.pause()
      else from.pipe(to)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const drop = () => {
    for (const [near, far] of pairs) {
      near.resetAndDestroy()
      far.destroy()
    }
  }
  t.teardown(() => {
    drop()
    server.close()
  })
  return {
    // A server that listens on TCP has an address object.
    port: (server.address() as net.AddressInfo).port,
    cut() {
      state = 'cut'
      drop()
    },
    stall() {
      state = 'stalled'
      for (const [near, far] of pairs) {
        near.unpipe(far)
        far.unpipe(near)
        near.pause()
        far.pause()
      }
    },
    open() {
      if (state === 'stalled')
        for (const [near, far] of pairs) {
          near.pipe(far)
          far.pipe(near)
        }
      state = 'open'
    }
  }
}

/** A server's address, or a database's there, behind a gate. */
export async function behindGate(t: T, address: string): Promise<{ readonly gate: TcpGate; readonly url: string }> {
  const url = new URL(address)
  const gate = await openGate(t, { host: url.hostname, port: Number(url.port || 5432) })
  url.host = `127.0.0.1:${gate.port}`
  return { gate, url: url.href }
}
