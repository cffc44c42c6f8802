import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { localAddress, portOf } from '../../../src/engine/config/listen-address.ts'
import { Acceptors } from '../../../src/engine/listener/acceptors.ts'
import { openDoor, reply } from './support.ts'

void t.test('acceptors: a busy event loop accepts many connections in each of its turns', async t => {
  const { listener, port } = await openDoor(t, {
    handle: (_ctx, wire) => {
      reply(wire, 200, 'ok')
    }
  })
  // The system completes the handshakes; each is then in the backlog.
  const clients = Array.from({ length: 200 }, () => connect(port, '127.0.0.1'))
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  let turns = 0
  for (; listener.connections < clients.length && turns < 200; turns++) await turn()
  t.equal(listener.connections, 200)
  t.ok(turns <= 50, `${turns} turns`)
})

void t.test('acceptors: two gateways cannot share a port, and a closed one gives it back', async t => {
  const acceptors = (port = 0) => {
    const made = new Acceptors(
      localAddress(port),
      socket => socket.destroy(),
      error => {
        throw error
      }
    )
    t.teardown(() => made.close())
    return made
  }
  const first = acceptors()
  await first.listen()
  const port = portOf([first.address])
  const second = acceptors(port)
  await t.rejects(second.listen(), { code: 'BG_LISTEN_FAILED' })
  await first.close()
  t.equal(portOf([first.address]), 0, 'its port is free')
  await second.listen()
  t.equal(portOf([second.address]), port)
})
