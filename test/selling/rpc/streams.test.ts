/** Event streams: receipts are put in while the events pass, and nothing is held back. */
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import t from 'tap'
import { EventLines, withData } from '../../../src/selling/rpc/event-lines.ts'
import { openRpcShop, paying, RECEIPT, results, toolCall, type Rpc } from './setting.ts'

const call = toolCall('cheap')

/** A response that is read piece by piece. */
class Reader {
  readonly response: IncomingMessage
  /** The response is over, whole or not. */
  readonly closed: Promise<void>
  #text = ''
  #wake: (() => void) | null = null
  #ended = false

  constructor(response: IncomingMessage) {
    this.response = response
    response.setEncoding('utf8')
    response.on('data', piece => {
      this.#text += String(piece)
      this.#wake?.()
    })
    this.closed = new Promise(resolve => {
      response.on('close', () => {
        this.#ended = true
        this.#wake?.()
        resolve()
      })
    })
  }

  /** Waits for a text; all that has come until then, and removes it. */
  async until(text: string): Promise<string> {
    for (;;) {
      const at = this.#text.indexOf(text)
      if (at >= 0) {
        const found = this.#text.slice(0, at + text.length)
        this.#text = this.#text.slice(at + text.length)
        return found
      }
      if (this.#ended) throw new Error(`the stream has ended without ${JSON.stringify(text)}: ${this.#text}`)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }
}

t.test('event streams', async t => {
  const shop = await openRpcShop(t)

  /**
   * Sends a paid call and answers the server's side and the client's, both open. A payment is given back behind the end
   * of its response, so a call that spends it again is sent up to `tries` times. Throws when the server is never asked.
   */
  async function open(body: object, tries = 1): Promise<{ server: ServerResponse; client: Reader }> {
    let server: ServerResponse | null = null
    shop.respond = (_body, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
      response.flushHeaders()
      server = response
    }
    const client = Promise.withResolvers<Reader>()
    const asking = request(`${shop.gateway.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    })
    asking.on('response', response => {
      client.resolve(new Reader(response))
    })
    asking.on('error', client.reject)
    asking.end(JSON.stringify(body))
    const reader = await client.promise
    if (server !== null) return { server, client: reader }
    await reader.closed
    if (tries > 1) return open(body, tries - 1)
    throw new Error(`the gateway did not ask the server: ${await reader.until('}')}`)
  }

  const ok = (): void => {
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(results(body))
    }
  }
  const redeem = async (credential: unknown): Promise<Rpc> => {
    ok()
    return shop.call(paying(call, credential))
  }
  const result = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'

  t.test('each event is forwarded when it arrives, and the result has the receipt', async t => {
    const credential = await shop.buy(call)
    const { server, client } = await open(paying(call, credential))
    t.equal(client.response.headers['content-type'], 'text/event-stream')
    t.equal(client.response.headers['cache-control'], 'private, no-cache')
    const progress = 'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
    server.write(progress)
    t.equal(await client.until('\n\n'), progress, 'unchanged')
    server.write(': still there\n')
    t.equal(await client.until('\n'), ': still there\n', 'comments too')
    server.write('data: {"jsonrpc":"2.0","id":9,"method":"ping"}\r\n\r\n')
    t.match(await client.until('\r\n\r\n'), '"ping"', 'requests of the server, even with an id')
    server.write('event: message\nda')
    server.write(`ta: ${result.slice(0, 20)}`)
    server.write(`${result.slice(20)}\n`)
    server.write('\n')
    const event = await client.until('\n\n')
    t.match(event, /^event: message\ndata: \{/)
    const message = JSON.parse(event.replace(/^event: message\ndata: /, '')) as Rpc
    t.match(message, { id: 1, result: { content: [], _meta: { [RECEIPT]: { challengeId: credential.challenge.id } } } })
    server.write(progress)
    t.equal(await client.until('\n\n'), progress, 'and later events')
    server.end()
    t.match(await redeem(credential), { error: { code: -32043, data: { failure: { reason: 'redeemed' } } } })
  })

  t.test('data of several lines is one message', async t => {
    const credential = await shop.buy(call)
    const { server, client } = await open(paying(call, credential))
    server.end('id: 7\ndata: {"jsonrpc":"2.0","id":1,\ndata: "result":{}}\n\n')
    const event = await client.until('\n\n')
    t.match(event, /^id: 7\ndata: /)
    const data = event
      .split('\n')
      .filter(line => line.startsWith('data: '))
      .map(line => line.slice(6))
      .join('\n')
    t.match(JSON.parse(data), { result: { _meta: { [RECEIPT]: {} } } })
  })

  t.test('an error, and an end without a result, give the payment back', async t => {
    const credential = await shop.buy(call)
    const first = await open(paying(call, credential))
    first.server.write('data: {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}\n\n')
    t.match(await first.client.until('\n\n'), '"error"')
    first.server.end()
    const second = await open(paying(call, credential), 50)
    second.server.end('data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
    await second.client.until('\n\n')
    const third = await open(paying(call, credential), 50)
    third.server.write('data: {"jsonrpc"')
    setImmediate(() => third.server.destroy())
    await third.client.closed
    let again = await redeem(credential)
    for (let tries = 0; tries < 50 && again.result === undefined; tries++) again = await redeem(credential)
    t.match(again, { result: { _meta: { [RECEIPT]: {} } } })
  })

  t.test('a stream that can be resumed has sold its call, for its rest may be had elsewhere', async t => {
    const credential = await shop.buy(call)
    const { server, client } = await open(paying(call, credential))
    server.end('id: stream_1\ndata:\n\n')
    await client.until('\n\n')
    await client.closed
    t.match(await redeem(credential), { error: { code: -32043 } })
    const left = await shop.buy(call)
    const gone = await open(paying(call, left))
    gone.server.write('id: stream_1\ndata:\n\n')
    await gone.client.until('\n\n')
    const closed = new Promise(resolve => gone.server.on('close', resolve))
    gone.client.response.destroy()
    await closed
    t.match(await redeem(left), { error: { code: -32043 } }, 'also when its client leaves')
  })

  t.test('an event above the limit passes in pieces, and has sold its call', async t => {
    const small = await openRpcShop(t, { prices: 'tools: { cheap: 2 sats }' })
    const credential = await small.buy(call)
    const text = `event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":"${'x'.repeat(5_000_000)}"}}\n\ndata: {"after":1}\n\n`
    small.respond = (_body, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.end(text)
    }
    t.equal((await small.post(paying(call, credential))).text, text)
    t.equal(await small.code(paying(call, credential)), -32043)
  })

  t.test('a client that reads slowly gets all of it', async t => {
    const credential = await shop.buy(call)
    const { server, client } = await open(paying(call, credential))
    client.response.pause()
    const event = `data: {"jsonrpc":"2.0","method":"notifications/x","params":"${'y'.repeat(10_000)}"}\n\n`
    for (let count = 0; count < 800; count++) server.write(event)
    server.end(`data: ${result}\n\n`)
    await new Promise(resolve => setImmediate(resolve))
    client.response.resume()
    const text = await client.until(`"content":[]}}\n\n`)
    t.equal(text.split('notifications/x').length - 1, 800)
    t.match(text, RECEIPT)
  })

  t.test('initialize announces payments in a stream, too', async t => {
    shop.respond = (body, response) => {
      response.setHeader('Content-Type', 'text/event-stream')
      response.end(`data: ${results(body)}\n\n`)
    }
    const { text } = await shop.post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} })
    t.match(JSON.parse(text.replace('data: ', '')), {
      result: {
        capabilities: { tools: {}, experimental: { payment: { methods: { lightning: { intents: ['charge'] } } } } }
      }
    })
  })
})

t.test('an event stream does not depend on where it is split', async t => {
  const stream = Buffer.from(
    '\ufeffdata: {"a":1}\r\n\r\n: note\nid: 1\nevent: x\ndata: one\ndata:two\n\ndata\n\n\rdata: three\r\rdata: last'
  )
  const read = (cuts: number) => {
    const lines = new EventLines(1000)
    const pieces = []
    for (let at = 0; at < stream.length; at += cuts) pieces.push(...lines.feed(stream.subarray(at, at + cuts)))
    pieces.push(...lines.end())
    return {
      data: pieces.map(({ data }) => data).filter(data => data !== null),
      bytes: Buffer.concat(pieces.map(({ raw }) => raw)).toString()
    }
  }
  for (let cuts = 1; cuts <= stream.length; cuts++) {
    const { data, bytes } = read(cuts)
    t.equal(bytes, stream.toString())
    t.same(data, ['{"a":1}', 'one\ntwo', '', 'three', 'last'])
  }
  const long = new EventLines(8)
  const text = 'data: 0123456789\n\ndata: a\n\n'
  const pieces = [...text].flatMap(letter => long.feed(Buffer.from(letter)))
  t.equal(Buffer.concat(pieces.map(({ raw }) => raw)).toString(), text)
  t.equal(pieces.at(-1)?.data, 'a', 'events after a long one are read again')
})

t.test('an event with other data keeps its other fields', async t => {
  const written = (raw: string, data: string) => Buffer.from(withData(Buffer.from(raw), data)).toString()
  for (const [raw, data, expected] of [
    ['', 'a', 'data: a\n\n'],
    ['data: a\n\n', 'b', 'data: b\n\n'],
    ['data: a\n\n', 'b\r\nc\rd\n', 'data: b\ndata: c\ndata: d\ndata: \n\n'],
    ['id: 7\ndata\nevent:é\ndata:a\r\r', 'b', 'id: 7\nevent:é\ndata: b\n\n'],
    [
      '\ufeffretry: 3\r\n: note\r\ndata: a\r\nunknown\r\ndatum: 1\r\n\r\n',
      'b',
      'retry: 3\nunknown\ndatum: 1\ndata: b\n\n'
    ],
    ['\ndata: a\nid: 7', 'b', 'id: 7\ndata: b\n\n'],
    [
      `${'name'.repeat(10)}: ${'x'.repeat(100)}\ndata: a\n\n`,
      '',
      `${'name'.repeat(10)}: ${'x'.repeat(100)}\ndata: \n\n`
    ]
  ] as const)
    t.equal(written(raw, data), expected, JSON.stringify(raw))
})
