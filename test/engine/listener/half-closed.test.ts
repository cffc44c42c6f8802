import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import type { Wire } from '../../../src/engine/message/wire.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { arrival, openDoor, reply } from './support.ts'
import { until } from '../../support/until.ts'

/** Lets the door read what its client did: on a busy machine a timer is due before the event loop has looked. */
async function noticed(ms = 20): Promise<void> {
  await setTimeout(ms)
  await setImmediate()
  await setImmediate()
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

for (const fastLane of [true, false]) {
  const way = fastLane ? 'on the fast lane' : 'over node:http'

  t.test(`a client that ends its side behind a whole request gets an answer that takes a moment: ${way}`, async t => {
    const { client, wire, next } = await arrival(
      t,
      'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na',
      { fastLane, clock: new ManualClock(), ends: true }
    )
    await noticed()
    reply(wire, 200, 'one')
    t.equal((await client.response()).body, 'one')
    const second = await next()
    await noticed()
    reply(second.wire, 200, 'two')
    t.equal((await client.response()).body, 'two')
    t.equal((await client.ending()).how, 'end', 'and the connection ends')
  })

  t.test(`one that ends its side after a wait is probed immediately: ${way}`, async t => {
    for (const waits of [true, false]) {
      const clock = new ManualClock()
      const { client, wire } = await arrival(t, get, { fastLane, clock })
      if (waits) clock.advance(1000)
      client.socket.end()
      if (waits) await client.until('100 Continue')
      else await noticed()
      t.equal(client.received.includes('100 Continue'), waits)
      reply(wire, 200, 'one')
      await client.ending()
      t.match(client.received, /one$/, 'it may still read')
    }
  })

  t.test(
    `one that has left is found out within a second, before its answer and in a silence of it: ${way}`,
    async t => {
      for (const begun of [false, true]) {
        const clock = new ManualClock()
        const { client, wire, watch } = await arrival(t, get, { fastLane, clock })
        if (begun) {
          wire.head(200, ['Content-Type', 'text/event-stream'])
          wire.write(Buffer.from('data: 1\n\n'))
          await client.until('data: 1')
        }
        client.close()
        await noticed()
        clock.advance(500)
        await noticed()
        clock.advance(500)
        t.equal(await watch.closed, false)
      }
    }
  )

  t.test(`one that waits gets an interim response first, then its own: ${way}`, async t => {
    const clock = new ManualClock()
    const { client, wire } = await arrival(t, get, { fastLane, clock, ends: true })
    await noticed()
    clock.advance(3_000)
    await noticed()
    reply(wire, 200, 'late')
    t.equal((await client.response()).status, 100)
    await client.until('late')
  })

  t.test(`presence: a client that has ended its side is probed twice before its head: ${way}`, async t => {
    const clock = new ManualClock()
    const ask = async (request: string) => {
      const asked = await arrival(t, request, { fastLane, clock })
      t.equal(asked.wire.stillReads(), null, 'not while its side is open')
      return asked
    }
    const verdict = async (wire: Wire): Promise<boolean> => {
      let reads: Promise<boolean> | null = null
      // A reset, as of a TLS client that left its tickets unread, closes the wire before anyone can ask.
      await until(() => {
        reads = wire.stillReads()
        return reads !== null || wire.gone
      })
      const passing = setInterval(() => {
        clock.advance(50)
      }, 5)
      const found = await (reads as Promise<boolean> | null) /* assigned in a closure */
      clearInterval(passing)
      return found ?? !wire.gone
    }
    const left = await ask(get)
    left.client.close()
    t.equal(await verdict(left.wire), false)
    const { client, wire } = await ask(get)
    client.socket.end()
    t.equal(await verdict(wire), true)
    reply(wire, 200, 'late')
    t.same([(await client.response()).status, (await client.response()).status], [100, 100])
    t.equal((await client.response()).body, 'late')
    const old = await ask('GET / HTTP/1.0\r\n\r\n')
    old.client.socket.end()
    await noticed()
    t.equal(old.wire.stillReads(), null, 'HTTP/1.0 has no interim responses')
    reply(old.wire, 200, 'old')
    t.equal((await old.client.response()).body, 'old')
  })
}

const long = `X-Long: ${'x'.repeat(10_000)}\r\n`

for (const [what, request] of [
  ['a body in chunks', 'POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n'],
  ['HTTP/1.0', 'GET /1 HTTP/1.0\r\n\r\n'],
  ['HTTP/1.0 that stays', 'GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'],
  ['a head above what the fast lane reads', `GET /1 HTTP/1.1\r\nHost: a\r\n${long}\r\n`],
  ['a plain request before it', `GET /0 HTTP/1.1\r\nHost: a\r\n\r\nGET /1 HTTP/1.1\r\nHost: a\r\n${long}\r\n`]
] as const) {
  t.test(
    `a client that ends its side gets its answer where node:http reads it, and nothing but answers if it speaks HTTP/1.0: ${what}`,
    async t => {
      const clock = new ManualClock()
      const wires: Wire[] = []
      const door = await openDoor(t, {
        clock,
        handle(ctx, wire) {
          if (ctx.target === '/0') reply(wire, 200, 'before')
          else wires.push(wire)
        }
      })
      const client = await door.connect()
      client.send(request)
      client.socket.end()
      await until(() => wires.length === 1)
      for (let polls = 0; polls < 4; polls++) {
        await noticed(5)
        clock.advance(500)
      }
      if (wires[0] !== undefined) reply(wires[0], 200, 'late')
      t.equal((await client.ending()).how, 'end')
      t.match(client.received, /late$/)
      t.equal(client.received.includes('100 Continue'), !what.startsWith('HTTP/1.0'))
    }
  )
}

t.test('a half-closed client whose answer never comes is cut where the drain ends', async t => {
  const clock = new ManualClock()
  const { door, client, watch } = await arrival(t, 'GET / HTTP/1.0\r\n\r\n', { fastLane: false, clock, ends: true })
  client.close()
  const drained = door.listener.drain(1000)
  clock.advance(1000)
  await drained
  t.equal(await watch.closed, false)
})

t.test('an upload that was cut short behind another request ends with it, as a lone one does', async t => {
  const bytes = 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab'
  const { client, wire } = await arrival(t, bytes, { ends: true })
  await noticed()
  reply(wire, 200, 'one')
  t.equal((await client.response()).body, 'one')
  await client.ending()
  t.notMatch(client.received, '100 Continue')
})
