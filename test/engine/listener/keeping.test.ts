import { once } from 'node:events'
import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { RequestUpload } from '../../../src/engine/lane/lane.ts'
import { Pieces } from '../../../src/engine/message/pieces.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import { DigestOfPieces, contentDigest } from '../../../src/lightning/payment-scheme/payment-challenge.ts'
import type { Wire } from '../../../src/engine/message/wire.ts'
import { openDoor, reply, watchWire } from './support.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { until } from '../../support/until.ts'

const KIB = 1024
const MIB = 1024 * KIB

for (const fastLane of [true, false]) {
  const way = fastLane ? 'on the fast lane' : 'over node:http'

  t.test(
    `an answer is kept for a client that does not read, up to the bound of one and of all, and counts no more once it left: ${way}`,
    async t => {
      const wires: Wire[] = []
      const door = await openDoor(t, {
        fastLane,
        limits: { buffer: 100 * KIB, buffers: 250 * KIB },
        handle(_ctx, wire) {
          wires.push(wire)
        }
      })
      const { slow } = door.listener.keeping
      const clients = await Promise.all(Array.from({ length: 4 }, () => door.connect()))
      for (const client of clients) {
        client.socket.pause()
        client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      }
      await until(() => wires.length === 4)
      const piece = Buffer.alloc(10 * KIB)
      for (const wire of wires) {
        wire.listener = {
          drained() {
            return undefined
          },
          stopping() {
            return undefined
          },
          closed() {
            return undefined
          }
        }
        wire.head(200, ['Content-Type', 'text/plain'])
      }
      // The kernel takes what it likes first.
      for (const wire of wires) {
        for (let count = 0; count < 4000; count++) {
          if (wire.write(piece)) await setImmediate()
          else break
        }
      }
      t.ok(slow.used > 200 * KIB && slow.used <= 250 * KIB, `${slow.used} bytes are kept for four`)
      for (const client of clients) client.close()
      await until(() => slow.used === 0)
      t.equal(slow.used, 0)
    }
  )

  t.test(`a body is waited for before it is forwarded, as much of it as may be kept: ${way}`, async t => {
    const contexts: Array<{ ctx: Context; wire: Wire; gathered: boolean }> = []
    const door = await openDoor(t, {
      fastLane,
      limits: { buffer: 64 * KIB },
      handle(ctx, wire) {
        const one = { ctx, wire, gathered: false }
        contexts.push(one)
        const gather = async () => {
          await ctx.body.gather()
          one.gathered = true
        }
        void gather()
      }
    })
    const { slow } = door.listener.keeping
    const small = await door.connect()
    small.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc')
    await until(() => contexts.length === 1 && contexts[0]?.ctx.body.received === 3)
    const [first] = contexts
    t.equal(first?.gathered, false)
    t.ok(slow.used > 3 && slow.used < 2 * KIB)
    small.send('def')
    await until(() => first?.gathered === true)
    t.equal(Buffer.from(first?.ctx.body.collected ?? '').toString(), 'abcdef')
    if (first !== undefined) reply(first.wire, 200, 'ok')
    await small.response()
    await until(() => slow.used === 0)

    const large = await door.connect()
    large.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${MIB}\r\n\r\n`)
    const sent = Buffer.alloc(MIB, 'x')
    sent[MIB - 1] = 0x79
    large.send(sent)
    await until(() => contexts[1]?.gathered === true)
    const body = contexts[1]?.ctx.body
    t.equal(body?.collected, null)
    t.ok(slow.used <= 64 * KIB)
    const pieces: Uint8Array[] = []
    for await (const chunk of body?.stream() ?? []) pieces.push(chunk as Uint8Array /* of bytes */)
    t.ok(Buffer.concat(pieces).equals(sent), 'the stream starts with earlier bytes')
  })
}

t.test('an upload in pieces of one byte waits as few pieces, in their order', async t => {
  const contexts: Array<{ ctx: Context; wire: Wire }> = []
  const door = await openDoor(t, {
    handle: (ctx, wire) => {
      watchWire(wire)
      contexts.push({ ctx, wire })
    }
  })
  const digits = (length: number): string => Array.from({ length }, (_, at) => at % 10).join('')
  const client = await door.connect()
  for (const [at, length] of [10_000, 100_000].entries()) {
    client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    client.send(`${digits(length).replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`)
    await until(() => contexts.length > at)
    const one = contexts[at]
    if (one === undefined) throw new Error('no request')
    const { ctx, wire } = one
    // Node stops reading the longer one until it is read.
    if (length === 10_000) await until(() => !ctx.body.unfinished)
    const chunks = (await ctx.body.stream().toArray()) as Buffer[] /* of bytes */
    t.equal(Buffer.concat(chunks).toString(), digits(length))
    if (length === 10_000) t.ok(ctx.body.pieces < 10, `${ctx.body.pieces} pieces waited`)
    reply(wire, 200, 'ok')
    await client.response()
  }
  const upload = new RequestUpload(10_000, { hold: () => undefined, release: () => undefined })
  for (const digit of digits(10_000)) upload.take(Buffer.from(digit))
  const read: Buffer[] = []
  upload.on('data', (piece: Buffer) => read.push(piece))
  upload.resume()
  await once(upload, 'end')
  t.equal(Buffer.concat(read).toString(), digits(10_000))
  t.ok(read.length < 10, `${read.length} pieces waited on the fast lane`)
})

t.test('pieces that wait keep their order, whatever their sizes', t => {
  const pieces = new Pieces()
  const large = Buffer.alloc(16 * KIB, 'l')
  const sent = [large, large, Buffer.from('a'), Buffer.from('b'), large, Buffer.from('c'), Buffer.alloc(9 * KIB, 'd')]
  let read = ''
  for (const piece of sent) pieces.add(piece)
  read += String(pieces.shift())
  for (const piece of sent) pieces.add(piece)
  const rest = String(pieces.joined())
  t.equal(pieces.size, rest.length)
  for (let piece = pieces.shift(); piece !== null; piece = pieces.shift()) read += String(piece)
  t.equal(read, String(Buffer.concat([...sent, ...sent])))
  t.equal(read, String(large) + rest)
  t.equal(pieces.size, 0)
  t.end()
})

t.test('300 unpaid uploads of 1 MiB are digested, and nothing of them is kept', async t => {
  const digests: Array<Promise<string | null>> = []
  const contexts: Context[] = []
  const door = await openDoor(t, {
    handle(ctx) {
      contexts.push(ctx)
      const digest = new DigestOfPieces()
      digests.push(
        ctx.body
          .each(piece => {
            digest.add(piece)
          })
          .then(() => digest.end())
      )
    }
  })
  const body = Buffer.alloc(MIB, 'z')
  const clients = await Promise.all(Array.from({ length: 300 }, () => door.connect()))
  for (const client of clients) {
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${MIB}\r\n\r\n`)
    client.send(body.subarray(0, MIB - 1))
  }
  await until(() => contexts.length === 300 && contexts.every(ctx => ctx.body.received === MIB - 1))
  t.ok(contexts.every(ctx => ctx.body.collected === null))
  t.same([door.listener.keeping.slow.used, door.listener.keeping.shared.used], [0, 0])
  for (const client of clients) client.send(body.subarray(MIB - 1))
  t.ok((await Promise.all(digests)).every(digest => digest === contentDigest(body)))
  await t.rejects(
    async () => {
      await contexts[0]?.body.bytes()
    },
    { message: 'the request body was read and not kept' }
  )
})

t.test('bodies of anonymous clients hold no more memory together than is allowed; the rest are 503', async t => {
  const results: unknown[] = []
  const wires: Array<{ wire: Wire }> = []
  const door = await openDoor(t, {
    limits: { buffers: 200 * KIB },
    handle(ctx, wire) {
      ctx.body.isAnonymous = true
      watchWire(wire)
      wires.push({ wire })
      const read = async () => {
        try {
          results.push(await ctx.body.bytes())
        } catch (error) {
          results.push(error)
        }
      }
      void read()
    }
  })
  const clients = await Promise.all(Array.from({ length: 20 }, () => door.connect()))
  for (const client of clients)
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${64 * KIB}\r\n\r\n${'x'.repeat(32 * KIB)}`)
  await until(() => results.length >= 14)
  t.ok(results.every(result => result instanceof Unavailable))
  t.ok(door.listener.keeping.shared.used <= 200 * KIB)
  for (const client of clients) client.close()
  await until(() => door.listener.keeping.shared.used === 0)
  t.equal(wires.length, 20)
})

t.test(
  'a body of an anonymous client in pieces of one byte takes no more of what all may hold than its bytes',
  async t => {
    const bodies: Array<Promise<Uint8Array>> = []
    const door = await openDoor(t, {
      limits: { buffers: 200 * KIB },
      handle(ctx, wire) {
        ctx.body.isAnonymous = true
        watchWire(wire)
        bodies.push(ctx.body.bytes())
      }
    })
    const client = await door.connect()
    client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    await until(() => bodies.length === 1)
    client.send(`${'1\r\nx\r\n'.repeat(50_000)}0\r\n\r\n`)
    t.equal((await bodies[0])?.byteLength, 50_000)
  }
)

t.test('a client that reads or sends in a trickle is ended after the window of the slowest speed', async t => {
  const clock = new ManualClock()
  const wires: Wire[] = []
  const door = await openDoor(t, {
    clock,
    handle(_ctx, wire) {
      wires.push(wire)
    }
  })
  const client = await door.connect()
  client.socket.pause()
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => wires.length === 1)
  const [wire] = wires
  if (wire === undefined) throw new Error('no request')
  const watched = watchWire(wire)
  wire.head(200, ['Content-Length', String(64 * MIB)])
  wire.write(Buffer.alloc(64 * MIB))
  await setTimeout(50)
  clock.advance(19_000)
  t.equal(wire.gone, false)
  clock.advance(3_000)
  t.equal(await watched.closed, false)
})
