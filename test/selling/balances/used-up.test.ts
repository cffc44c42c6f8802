import { createServer, request as httpRequest, type ServerResponse } from 'node:http'
import { createServer as createSocketServer } from 'node:net'
import t, { type Test as T } from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { eachDatabase } from '../../support/database.ts'
import { defaultYaml, startGateway, type TestGateway, paidFor } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Ledger } from '../../../src/selling/balances/ledger.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { passTime } from '../../support/passing-time.ts'
import { answered, opened, passing, reserved, settled, use } from './fixture.ts'
import { RawClient } from '../../support/raw-client.ts'
import { serve } from '../../support/serve.ts'

const PATH = '/v1/stream'

interface Shop {
  readonly gateway: TestGateway
  readonly authorization: string
  /** Connections of the upstream whose response is not over. */
  open: number
}

/** A gateway in front of an upstream whose response never ends on its own, and a bundle of one satoshi. */
async function openShop(
  t: T,
  usage: string,
  begin: (response: ServerResponse) => void,
  {
    clock,
    bundle = '1 sat',
    prices = '1 msat',
    other = 10
  }: { clock?: ManualClock; bundle?: string; prices?: string; other?: number } = {}
): Promise<Shop> {
  const shop = { open: 0 }
  const upstream = createServer((_request, response) => {
    shop.open++
    response.on('close', () => shop.open--)
    begin(response)
  })
  upstream.on('upgrade', (_request, socket) => {
    shop.open++
    socket.on('close', () => shop.open--)
    socket.on('error', () => undefined)
    socket.on('end', () => socket.end())
    socket.resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  const port = await serve(t, upstream)
  const route = `routes:
  - match: { path: /v1/*, method: POST }
    chain: paid
    upstream: { url: "http://127.0.0.1:${port}" }
    meter: { bundle: ${bundle}, prices: ${prices}, usage: ${usage}, estimate: { else: ${other} } }
`
  const yaml = defaultYaml({ replace: [['routes:\n', route]] })
  const gateway = await startGateway(t, { yaml, ...(clock === undefined ? {} : { clock }) })
  const authorization = await paidFor(gateway, await gateway.send('POST', PATH))
  return Object.assign(shop, { gateway, authorization })
}

interface Got {
  readonly status: number
  readonly text: string
  readonly isWhole: boolean
}

/**
 * Sends the paid request and reads until the response is over, whichever way. A clock that is given goes on from the
 * response's head: before it an upstream that is slow to respond would run into its deadline.
 */
async function read(
  { gateway, authorization }: Shop,
  {
    headers = {},
    clock,
    onData
  }: { headers?: Record<string, string>; clock?: ManualClock; onData?: (length: number) => void } = {}
) {
  const over = new AbortController()
  let time: Promise<void> | null = null
  const reading = new Promise<Got>((resolve, reject) => {
    const begun = () => {
      if (clock !== undefined) time = passTime(clock, () => answered(gateway.database), over.signal)
    }
    let isAnswered = false
    const sent = httpRequest(
      `${gateway.url}${PATH}`,
      { method: 'POST', agent: false, headers: { authorization, 'content-length': '0', ...headers } },
      response => {
        isAnswered = true
        begun()
        let text = ''
        response.setEncoding('latin1')
        response.on('data', (piece: string) => {
          text += piece
          onData?.(piece.length)
        })
        response.on('error', () => undefined)
        response.on('close', () => {
          resolve({ status: response.statusCode ?? 0, text, isWhole: response.complete })
        })
      }
    )
    sent.on('upgrade', (response, socket) => {
      begun()
      socket.on('error', () => undefined)
      socket.resume()
      socket.on('close', () => {
        resolve({ status: response.statusCode ?? 0, text: '', isWhole: false })
      })
    })
    // A cut response is reported to both.
    sent.on('error', error => {
      if (!isAnswered) reject(error)
    })
    sent.end()
  })
  return await reading.finally(async () => {
    over.abort()
    await time
  })
}

/** The one entry of the one balance, when all of that is spent. */
async function spent({ gateway }: Shop, msat: number) {
  const store = new BalanceStore(gateway.database)
  return await eventually(`${msat} millisatoshis are spent`, async () => {
    const [one] = await store.list({ skip: 0, take: 1 })
    if (one?.spentMsat !== msat) return null
    return (await store.entries(one.id, { skip: 0, take: 2 }))[0] ?? null
  })
}

/** Writes a piece, and the next whenever the buyer has read the one before. */
function paced(piece = 'x'.repeat(1_000)): { begin(response: ServerResponse): void; read(length: number): void } {
  let next: (() => void) | null = null
  let [written, seen] = [0, 0]
  return {
    begin: response => {
      next = () => {
        written += piece.length
        response.write(piece)
      }
      next()
    },
    read: length => {
      seen += length
      if (seen >= written) next?.()
    }
  }
}

/** Writes the same repeatedly as long as it is read. */
function endless(response: ServerResponse, piece: string) {
  const timer = setInterval(() => response.write(piece), 1)
  response.on('close', () => {
    clearInterval(timer)
  })
}

t.test('an endless event stream ends with an event that says so when its balance is used up', async t => {
  const pieces = paced('data: {"n":1}\n\n'.repeat(20))
  const shop = await openShop(t, 'events', response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    pieces.begin(response)
  })
  const got = await read(shop, { onData: pieces.read })
  t.equal(got.isWhole, true)
  t.match(
    got.text,
    /data: \{"n":1\}\n\nevent: balance\ndata: \{"used_up":true,"charged_msat":1000,"balance_msat":0\}\n\n$/
  )
  const entry = await spent(shop, 1_000)
  t.ok(entry.unpaidMsat > 0 && entry.unpaidMsat <= 20, `no more than one chunk is lost: ${entry.unpaidMsat}`)
  await eventually('the upstream is let go', async () => (shop.open === 0 ? true : null))
})

t.test('a model that talks without end is ended by the events that came by', async t => {
  const shop = await openShop(t, 'openai', response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    endless(response, 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'.repeat(10))
  })
  const got = await read(shop)
  t.match(got.text, /\n\nevent: balance\ndata: \{"used_up":true,"charged_msat":1000,"balance_msat":0\}\n\n$/)
  t.match(await spent(shop, 1_000), { basis: 'reservation' })
})

t.test('a stream that stops in the middle of an event is broken off, not ended', async t => {
  const clock = new ManualClock()
  const shop = await openShop(
    t,
    'openai',
    response => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {}\n\n'.repeat(2_000) + 'data: {"half"')
    },
    { clock }
  )
  const began = clock.now()
  const got = await read(shop, { clock })
  t.same([got.isWhole, got.text.includes('used_up')], [false, false])
  t.ok(clock.now() - began < 5_000, `after ${clock.now() - began} ms`)
})

t.test('endless bytes are broken off when the balance is used up, and never end cleanly', async t => {
  const pieces = paced()
  const shop = await openShop(t, 'bytes', pieces.begin, { bundle: '20 sats' })
  const got = await read(shop, { onData: pieces.read })
  t.equal(got.isWhole, false)
  const entry = await spent(shop, 20_000)
  t.ok(entry.unpaidMsat <= 1_000, `lost: ${entry.unpaidMsat}`)
  await eventually('the upstream is let go', async () => (shop.open === 0 ? true : null))
})

t.test('bytes whose announced length costs more than the balance are sent as far as they are paid for', async t => {
  const pieces = paced()
  const shop = await openShop(
    t,
    'bytes',
    response => {
      response.writeHead(200, { 'content-length': '100000000' })
      pieces.begin(response)
    },
    { bundle: '20 sats' }
  )
  t.equal((await read(shop, { onData: pieces.read })).isWhole, false)
  const entry = await spent(shop, 20_000)
  t.ok(entry.unpaidMsat <= 1_000, `lost: ${entry.unpaidMsat}`)
})

t.test('a response within its balance is whole, however small its estimate was', async t => {
  const shop = await openShop(
    t,
    'bytes',
    response => {
      for (let time = 0; time < 100; time++) response.write('x'.repeat(10_000))
      response.end()
    },
    { bundle: '1000 sats', other: 1 }
  )
  const got = await read(shop)
  t.same([got.isWhole, got.text.length], [true, 1_000_000], 'exactly what was bought')
  t.match(await spent(shop, 1_000_000), { unpaidMsat: 0 })
})

t.test('a response sold by seconds is ended at the second that is not paid', async t => {
  const clock = new ManualClock()
  clock.advance(5_000)
  const shop = await openShop(
    t,
    'seconds',
    response => {
      response.writeHead(200, { 'content-type': 'text/plain' })
      response.write('begun')
    },
    { clock, prices: '100 msat', other: 2 }
  )
  const got = await read(shop, { clock })
  t.same([got.text, got.isWhole], ['begun', false])
  const entry = await passing(t, clock, shop.gateway.database, spent(shop, 1_000))
  t.ok((entry.output ?? 0) >= 10 && entry.unpaidMsat <= 200, `${entry.output} seconds, lost: ${entry.unpaidMsat}`)
})

t.test('a WebSocket sold by seconds is closed at the second that is not paid', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, 'seconds', () => undefined, { clock, prices: '100 msat', other: 2 })
  const got = await read(shop, { clock, headers: { connection: 'Upgrade', upgrade: 'websocket' } })
  t.equal(got.status, 101)
  const entry = await passing(t, clock, shop.gateway.database, spent(shop, 1_000))
  t.ok((entry.output ?? 0) >= 10 && entry.unpaidMsat <= 200, `${entry.output} seconds, lost: ${entry.unpaidMsat}`)
  await eventually('the upstream is let go', async () => (shop.open === 0 ? true : null))
})

void eachDatabase(
  t,
  'a reservation grows by what another gateway does not need, and no further',
  async (t, database) => {
    const clock = new ManualClock()
    const store = new BalanceStore(database)
    const ledger = (gateway: string) => {
      const made = new Ledger({ store: new BalanceStore(database), database, clock, log: silentLog, gateway })
      t.teardown(() => made.close())
      return made
    }
    const [one, other] = [ledger('a'), ledger('b')]
    await Promise.all([one.start(), other.start()])
    const balance = await opened(store, clock, { depositedMsat: 3_200 })
    const first = await reserved(one, balance.id, 10)
    // The other has a slice of its own, of which it still needs 40.
    const second = await reserved(other, balance.id, 40)
    await settled(other, await reserved(other, balance.id, 1_000), 0)
    t.equal(one.grow(first, 1, 50), 'grown', 'immediately from its own slice')
    t.equal(first.msat, 60)
    t.equal(await passing(t, clock, database, one.grow(first, 3_000, 10)), 'grown')
    t.equal(first.msat, 3_060)
    t.equal(
      await passing(t, clock, database, one.grow(first, 101, 101)),
      'refused',
      "the other's reservation is not taken"
    )
    t.equal(first.msat, 3_060)
    t.equal(await passing(t, clock, database, one.grow(first, 100, 100)), 'grown')
    t.match(await one.settle(first, 3_500, use()), { chargedMsat: 3_160, unpaidMsat: 340 })
    t.equal(one.grow(first, 1, 1), 'refused', 'it is over')
    t.match(await settled(other, second, 40), { chargedMsat: 40 })
  }
)

t.test('a client that leaves before its upload has come costs nothing: the upstream never had the request', async t => {
  let requests = 0
  const shop = await openShop(t, 'bytes', response => {
    requests++
    response.end('x')
  })
  const store = new BalanceStore(shop.gateway.database)
  const sent = httpRequest(`${shop.gateway.url}${PATH}`, {
    method: 'POST',
    agent: false,
    headers: { authorization: shop.authorization, 'content-length': '1000' }
  })
  sent.on('error', () => undefined)
  sent.write('half')
  const reserved = async (msat: number) => {
    const [one] = await store.list({ skip: 0, take: 1 })
    return one?.reservedMsat === msat ? one : null
  }
  await eventually('it is reserved', () => reserved(10))
  sent.destroy()
  t.match(await eventually('it is settled', () => reserved(0)), { spentMsat: 0 })
  t.equal(requests, 0)
})

t.test('an upload that its client breaks is paid for once the upstream had its beginning', async t => {
  const { promise: arrived, resolve } = Promise.withResolvers<void>()
  const shop = await openShop(t, 'bytes', () => {
    resolve()
  })
  const client = await RawClient.connect(Number(new URL(shop.gateway.url).port))
  t.teardown(() => {
    client.close()
  })
  client.send(
    `POST ${PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: ${shop.authorization}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`
  )
  await arrived
  const store = new BalanceStore(shop.gateway.database)
  const reserved = async (msat: number) => {
    const [one] = await store.list({ skip: 0, take: 1 })
    return one?.reservedMsat === msat ? one : null
  }
  await eventually('it is reserved', () => reserved(10))
  client.send('no chunk\r\n')
  t.equal((await client.response('POST')).status, 400)
  t.match(await eventually('it is settled', () => reserved(0)), { spentMsat: 10 })
})

t.test('a client that leaves before a connection to the upstream is open costs nothing', async t => {
  // It never answers the handshake of TLS.
  const port = await serve(
    t,
    createSocketServer().on('connection', socket => t.teardown(() => socket.destroy()))
  )
  const route = `routes:\n  - match: { path: /v1/* }\n    chain: paid\n    upstream: { url: "https://127.0.0.1:${port}" }\n    meter: { bundle: 1 sat, prices: 10 msat, usage: requests }\n`
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [['routes:\n', route]] }) })
  const authorization = await paidFor(gateway, await gateway.send('GET', PATH))
  const sent = httpRequest(`${gateway.url}${PATH}`, { agent: false, headers: { authorization } })
  sent.on('error', () => undefined)
  sent.end()
  const store = new BalanceStore(gateway.database)
  const reserved = async (msat: number) => {
    const [one] = await store.list({ skip: 0, take: 1 })
    return one?.reservedMsat === msat ? one : null
  }
  await eventually('it is reserved', () => reserved(10))
  // A client that only ends its side may still read.
  sent.socket?.resetAndDestroy()
  t.match(await eventually('it is settled', () => reserved(0)), { spentMsat: 0 })
})
