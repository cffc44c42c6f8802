import t from 'tap'
import type { Context } from '../../src/gateway/context.ts'
import type { Wire } from '../../src/gateway/wire.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { openDoor, reply, watchWire } from './support.ts'

async function until (holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(resolve => { setTimeout(resolve, 2) })
}

for (const fastLane of [true]) {
  const way = 'a plain request'

  t.test(`a client that ends its side behind a whole request gets an answer that takes a moment: ${way}`, async t => {
    const asked: Array<{ ctx: Context, wire: Wire }> = []
    const clock = new ManualClock()
    const door = await openDoor(t, { fastLane, clock, handle (ctx, wire) { asked.push({ ctx, wire }) } })
    const client = await door.connect()
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na')
    client.socket.end()
    await until(() => asked.length === 1)
    await new Promise(resolve => { setTimeout(resolve, 20) })
    if (asked[0] !== undefined) reply(asked[0].wire, 200, 'one')
    t.equal((await client.response()).body, 'one')
    await until(() => asked.length === 2)
    await new Promise(resolve => { setTimeout(resolve, 20) })
    if (asked[1] !== undefined) reply(asked[1].wire, 200, 'two')
    t.equal((await client.response()).body, 'two')
    t.equal((await client.ending()).how, 'end', 'and the connection ends')
  })

  t.test(`one that has left is found out within a second, before its answer and in a silence of it: ${way}`, async t => {
    for (const begun of [false, true]) {
      const clock = new ManualClock()
      const wires: Wire[] = []
      const door = await openDoor(t, { fastLane, clock, handle (_ctx, wire) { wires.push(wire) } })
      const client = await door.connect()
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await until(() => wires.length === 1)
      const [wire] = wires
      if (wire === undefined) throw new Error('no request')
      const watched = watchWire(wire)
      if (begun) {
        wire.head(200, ['Content-Type', 'text/event-stream'])
        wire.write(Buffer.from('data: 1\n\n'))
        await client.until('data: 1')
      }
      client.close()
      await new Promise(resolve => { setTimeout(resolve, 20) })
      clock.advance(500)
      await new Promise(resolve => { setTimeout(resolve, 20) })
      clock.advance(500)
      t.equal(await watched.closed, false)
    }
  })

  t.test(`one that waits is told by an interim answer that it is not forgotten, and then has its own: ${way}`, async t => {
    const clock = new ManualClock()
    const wires: Wire[] = []
    const door = await openDoor(t, { fastLane, clock, handle (_ctx, wire) { wires.push(wire) } })
    const client = await door.connect()
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    client.socket.end()
    await until(() => wires.length === 1)
    await new Promise(resolve => { setTimeout(resolve, 20) })
    clock.advance(3_000)
    await new Promise(resolve => { setTimeout(resolve, 20) })
    if (wires[0] !== undefined) reply(wires[0], 200, 'late')
    t.equal((await client.response()).status, 100)
    await client.until('late')
  })
}
