import { request as httpRequest } from 'node:http'
import { createServer as createSocketServer } from 'node:net'
import t, { type Test as T } from 'tap'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { eachDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { passTime } from '../../support/passing-time.ts'
import { answered, ledgers, opened, passing, reserved, settled, use } from './fixture.ts'
import { RawClient } from '../../support/raw-client.ts'
import { serve } from '../../support/serve.ts'
import { openMetered, STREAM_TYPE, type MeteredShop, type Respond } from '../shop.ts'

const PATH = '/v1/a'

/** A shop whose upstream's responses never end on their own, and a bundle of one satoshi. */
function openShop(
  t: T,
  usage: string,
  begin: Respond = () => undefined,
  {
    clock,
    bundle = '1 sat',
    prices = '1 msat',
    other = 10
  }: Partial<Record<'bundle' | 'prices', string>> & {
    clock?: ManualClock
    other?: number
  } = {}
) {
  const meter = `bundle: ${bundle}, prices: ${prices}, usage: ${usage}, estimate: { else: ${other} }`
  return openMetered(t, meter, begin, clock && { clock })
}

async function isLetGo({ upstream }: MeteredShop) {
  await eventually('the upstream is let go', async () => (upstream.open === 0 ? true : null))
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
  { gateway, authorization }: MeteredShop,
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

/** Writes a piece, and the next whenever the buyer has read the one before. */
function paced(piece = 'x'.repeat(1_000), head: Readonly<Record<string, string>> = {}) {
  let next: (() => void) | null = null
  let [written, seen] = [0, 0]
  const begin: Respond = (_request, response) => {
    response.writeHead(200, head)
    next = () => {
      written += piece.length
      response.write(piece)
    }
    next()
  }
  const read = (length: number) => {
    seen += length
    if (seen >= written) next?.()
  }
  return { begin, read }
}

t.test('an endless event stream ends with an event that says so when its balance is used up', async t => {
  const pieces = paced('data: {"n":1}\n\n'.repeat(20), STREAM_TYPE)
  const shop = await openShop(t, 'events', pieces.begin)
  const got = await read(shop, { onData: pieces.read })
  t.equal(got.isWhole, true)
  t.match(
    got.text,
    /data: \{"n":1\}\n\nevent: balance\ndata: \{"used_up":true,"charged_msat":1000,"balance_msat":0\}\n\n$/
  )
  const entry = await shop.spent(1_000)
  t.ok(entry.unpaidMsat > 0 && entry.unpaidMsat <= 20, `no more than one chunk is lost: ${entry.unpaidMsat}`)
  await isLetGo(shop)
})

t.test('a model that talks without end is ended by the events that came by', async t => {
  const shop = await openShop(t, 'openai', (_request, response) => {
    response.writeHead(200, STREAM_TYPE)
    const timer = setInterval(() => response.write('data: {"choices":[{"delta":{"content":"a"}}]}\n\n'.repeat(10)), 1)
    response.on('close', () => {
      clearInterval(timer)
    })
  })
  const got = await read(shop)
  t.match(got.text, /\n\nevent: balance\ndata: \{"used_up":true,"charged_msat":1000,"balance_msat":0\}\n\n$/)
  t.match(await shop.spent(1_000), { basis: 'reservation' })
})

t.test('a stream that stops in the middle of an event is broken off, not ended', async t => {
  const clock = new ManualClock()
  const shop = await openShop(
    t,
    'openai',
    (_request, response) => {
      response.writeHead(200, STREAM_TYPE)
      response.write('data: {}\n\n'.repeat(2_000) + 'data: {"half"')
    },
    { clock }
  )
  const began = clock.now()
  const got = await read(shop, { clock })
  t.same([got.isWhole, got.text.includes('used_up')], [false, false])
  t.ok(clock.now() - began < 5_000, `after ${clock.now() - began} ms`)
})

for (const head of [{}, { 'content-length': '100000000' }])
  t.test(`endless bytes, ${JSON.stringify(head)}: are sent as far as they are paid for, and broken off`, async t => {
    const pieces = paced(undefined, head)
    const shop = await openShop(t, 'bytes', pieces.begin, { bundle: '20 sats' })
    const got = await read(shop, { onData: pieces.read })
    t.equal(got.isWhole, false)
    const entry = await shop.spent(20_000)
    t.ok(entry.unpaidMsat <= 1_000, `lost: ${entry.unpaidMsat}`)
    await isLetGo(shop)
  })

t.test('a response within its balance is whole, however small its estimate was', async t => {
  const shop = await openShop(
    t,
    'bytes',
    (_request, response) => {
      for (let time = 0; time < 100; time++) response.write('x'.repeat(10_000))
      response.end()
    },
    { bundle: '1000 sats', other: 1 }
  )
  const got = await read(shop)
  t.same([got.isWhole, got.text.length], [true, 1_000_000], 'exactly what was bought')
  t.match(await shop.spent(1_000_000), { unpaidMsat: 0 })
})

t.test('a response sold by seconds is ended at the second that is not paid', async t => {
  const clock = new ManualClock()
  clock.advance(5_000)
  const shop = await openShop(t, 'seconds', (_request, response) => response.writeHead(200).write('begun'), {
    clock,
    prices: '100 msat',
    other: 2
  })
  const got = await read(shop, { clock })
  t.same([got.text, got.isWhole], ['begun', false])
  const entry = await passing(t, clock, shop.gateway.database, shop.spent(1_000))
  t.ok((entry.output ?? 0) >= 10 && entry.unpaidMsat <= 200, `${entry.output} seconds, lost: ${entry.unpaidMsat}`)
})

t.test('a WebSocket sold by seconds is closed at the second that is not paid', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, 'seconds', undefined, { clock, prices: '100 msat', other: 2 })
  const got = await read(shop, { clock, headers: { connection: 'Upgrade', upgrade: 'websocket' } })
  t.equal(got.status, 101)
  const entry = await passing(t, clock, shop.gateway.database, shop.spent(1_000))
  t.ok((entry.output ?? 0) >= 10 && entry.unpaidMsat <= 200, `${entry.output} seconds, lost: ${entry.unpaidMsat}`)
  await isLetGo(shop)
})

void eachDatabase(
  t,
  'a reservation grows by what another gateway does not need, and no further',
  async (t, database) => {
    const clock = new ManualClock()
    const store = new BalanceStore(database)
    const [one, other] = ledgers(t, database, clock, 'a', 'b')
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
  const shop = await openShop(t, 'bytes')
  const sent = httpRequest(`${shop.gateway.url}${PATH}`, {
    method: 'POST',
    agent: false,
    headers: { authorization: shop.authorization, 'content-length': '1000' }
  })
  sent.on('error', () => undefined)
  sent.write('half')
  await shop.reserved(10)
  sent.destroy()
  t.match(await shop.reserved(0), { spentMsat: 0 })
  t.equal(shop.upstream.requests.length, 0)
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
  await shop.reserved(10)
  client.send('no chunk\r\n')
  t.equal((await client.response('POST')).status, 400)
  t.match(await shop.reserved(0), { spentMsat: 10 })
})

t.test('a client that leaves before a connection to the upstream is open costs nothing', async t => {
  // It never answers the handshake of TLS.
  const port = await serve(
    t,
    createSocketServer().on('connection', socket => t.teardown(() => socket.destroy()))
  )
  const shop = await openMetered(t, 'bundle: 1 sat, prices: 10 msat, usage: requests', undefined, {
    upstream: `https://127.0.0.1:${port}`
  })
  const sent = httpRequest(`${shop.gateway.url}${PATH}`, {
    method: 'POST',
    agent: false,
    headers: { authorization: shop.authorization }
  })
  sent.on('error', () => undefined)
  sent.end()
  await shop.reserved(10)
  // A client that only ends its side may still read.
  sent.socket?.resetAndDestroy()
  t.match(await shop.reserved(0), { spentMsat: 0 })
})
