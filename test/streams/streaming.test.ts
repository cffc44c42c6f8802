import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { Test as T } from 'tap'
import { buy, defaultYaml, startGateway, type TestGateway } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { RawUpstream, type RawConnection } from '../support/raw-upstream.ts'

const paidRoute = (port: number) =>
  defaultYaml({
    replace: [
      [
        'routes:\n',
        `routes:\n  - match: { path: /up/* }\n    price: 1 sat\n    chain: paid\n    upstream: { url: "http://127.0.0.1:${port}" }\n`
      ]
    ]
  })

async function before(t: T, script: (connection: RawConnection) => Promise<void>) {
  const upstream = await new RawUpstream(script).listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, { yaml: paidRoute(upstream.port) })
  const credential = await buy(gateway, '/up/x')
  const client = await RawClient.connect(Number(new URL(gateway.url).port))
  t.teardown(() => {
    client.close()
  })
  return { upstream, gateway, credential, client }
}

t.test('an event stream arrives event by event', async t => {
  let next = Promise.withResolvers<void>()
  const { client, credential } = await before(t, async connection => {
    await connection.head()
    connection.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let event = 1; event <= 5; event++) {
      const data = `data: ${event}\n\n`
      connection.send(`${data.length.toString(16)}\r\n${data}\r\n`)
      await next.promise
    }
    connection.send('0\r\n\r\n')
  })
  client.send(`GET /up/x HTTP/1.1\r\nHost: a\r\nAuthorization: ${credential}\r\n\r\n`)
  for (let event = 1; event <= 5; event++) {
    // The upstream sends the next one only after this one was seen.
    await client.until(`data: ${event}\n\n`)
    const seen = next
    next = Promise.withResolvers<void>()
    seen.resolve()
  }
  const answer = await client.response()
  t.equal(answer.status, 200)
  t.equal(answer.body, [1, 2, 3, 4, 5].map(event => `data: ${event}\n\n`).join(''))
})

t.test('early hints, chunks and trailers pass in both directions', async t => {
  const seen = Promise.withResolvers<{ head: Promise<string | null>; framed: string }>()
  const { client, credential } = await before(t, async connection => {
    let framed = ''
    let hinted = false
    const head = connection.head()
    connection.socket.on('data', bytes => {
      framed += bytes.toString('latin1')
      if (!hinted) connection.send('HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n')
      hinted = true
      if (!framed.endsWith('0\r\n\r\n')) return
      connection.send(
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\npong\r\n0\r\nX-Sum: 42\r\n\r\n'
      )
      seen.resolve({ head, framed })
    })
  })
  client.send(
    `POST /up/x HTTP/1.1\r\nHost: a\r\nAuthorization: ${credential}\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n`
  )
  const early = await client.response('POST')
  t.equal(early.status, 103)
  t.equal(early.header('link'), '</a.css>; rel=preload')
  client.send('3\r\n!!!\r\n0\r\n\r\n')
  const answer = await client.response('POST')
  t.equal(answer.status, 200)
  t.equal(answer.body, 'pong')
  t.same(answer.trailers, ['X-Sum', '42'])
  const request = await seen.promise
  const head = (await request.head) ?? ''
  t.match(head, /transfer-encoding: chunked/i)
  t.match(request.framed, /ping[^]*!!!/)
  t.notMatch(head, /authorization/i)
})

t.test('an upstream that dies in the middle is an error for the client, never a clean or a hanging end', async t => {
  for (const framing of ['Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n', 'Content-Length: 100000\r\n\r\nhello']) {
    const seen = Promise.withResolvers<void>()
    const { client, credential } = await before(t, async connection => {
      await connection.request()
      await connection.flush(`HTTP/1.1 200 OK\r\n${framing}`)
      await seen.promise
      connection.reset()
    })
    client.send(`GET /up/x HTTP/1.1\r\nHost: a\r\nAuthorization: ${credential}\r\n\r\n`)
    await client.until('hello')
    seen.resolve()
    t.equal((await client.ending()).how, 'ECONNRESET')
    t.notMatch(client.received, /\r\n0\r\n\r\n$/)
  }
})

t.test('a client that leaves ends the upstream request, before any time limit would', async t => {
  const gone = Promise.withResolvers<number>()
  const { client, credential } = await before(t, async connection => {
    await connection.head()
    connection.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwait\r\n')
    await connection.closed
    gone.resolve(performance.now())
  })
  client.send(`GET /up/x HTTP/1.1\r\nHost: a\r\nAuthorization: ${credential}\r\n\r\n`)
  await client.until('wait')
  const left = performance.now()
  client.close()
  // Some milliseconds; the limit of the upstream is 30 seconds. That no timer is in it at all is shown beside the sink.
  t.ok((await gone.promise) - left < 10_000)
})

async function withSockets(t: T) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const upgrades: (string | undefined)[] = []
  server.on('connection', (socket, request) => {
    upgrades.push(request.headers.authorization)
    socket.on('message', (data, binary) => {
      if (!binary && String(data) === 'close 4001') socket.close(4001, 'as asked')
      else socket.send(data, { binary })
    })
  })
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of server.clients) socket.terminate()
    server.close()
  })
  const address = server.address()
  const gateway = await startGateway(t, {
    yaml: paidRoute(typeof address === 'object' && address !== null ? address.port : 0)
  })
  return { gateway, upgrades, url: `${gateway.url.replace('http', 'ws')}/up/x` }
}

const open = async (t: T, url: string, authorization: string) => {
  const socket = new WebSocket(url, { headers: { authorization } })
  t.teardown(() => {
    socket.terminate()
  })
  await once(socket, 'open')
  return socket
}

/** The answer to an upgrade request that is refused. */
async function refusal(gateway: TestGateway, authorization?: string) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; challenge: string }>()
  const request = httpRequest(`${gateway.url}/up/x`, {
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      ...(authorization === undefined ? {} : { authorization })
    }
  })
  request.on('response', response => {
    response.resume()
    resolve({ status: response.statusCode ?? 0, challenge: response.headers['www-authenticate'] ?? '' })
  })
  request.on('upgrade', (response, socket) => {
    socket.destroy()
    resolve({ status: response.statusCode ?? 0, challenge: '' })
  })
  request.on('error', reject)
  request.end()
  return promise
}

t.test('a WebSocket echoes behind a paid route', async t => {
  const { gateway, upgrades, url } = await withSockets(t)
  const unpaid = await refusal(gateway)
  t.equal(unpaid.status, 402, 'unpaid: a 402 before any 101')
  t.match(unpaid.challenge, /L402 .*macaroon=/)
  t.same(upgrades, [], 'nothing reached the upstream')

  const socket = await open(t, url, await buy(gateway, '/up/x'))
  socket.send('hello')
  t.equal(String((await once(socket, 'message'))[0]), 'hello')
  socket.send(Buffer.from([0, 1, 255]))
  const [bytes, binary] = (await once(socket, 'message')) as [Buffer, boolean]
  t.same([...bytes], [0, 1, 255])
  t.equal(binary, true)
  socket.ping('are you there')
  t.equal(String((await once(socket, 'pong'))[0]), 'are you there')
  // Far more than any buffer on the way holds, so that both directions have to wait for each other.
  const large = Buffer.alloc(16 * 1024 * 1024, 'ab')
  socket.send(large)
  t.ok(large.equals(((await once(socket, 'message')) as [Buffer])[0]), 'a large message comes back whole')
  socket.send('close 4001')
  const [code, why] = (await once(socket, 'close')) as [number, Buffer]
  t.equal(code, 4001)
  t.equal(String(why), 'as asked')
  t.same(upgrades, [undefined], 'the credential stayed here')
})

t.test('a modern credential opens one WebSocket', async t => {
  const { gateway, upgrades, url } = await withSockets(t)
  const credential = await buy(gateway, '/up/x', 'payment')
  const socket = await open(t, url, credential)
  socket.send('paid')
  t.equal(String((await once(socket, 'message'))[0]), 'paid')
  t.equal((await refusal(gateway, credential)).status, 402, 'spent')
  t.equal(upgrades.length, 1)
  socket.close(1000)
  t.equal((await once(socket, 'close'))[0], 1000)
})
