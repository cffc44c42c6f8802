import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test as T } from 'tap'
import type { PriceServerConfig } from '../../../src/engine/checks/price.ts'
import type { RouteConfig } from '../../../src/engine/config/schema.ts'
import type { HarnessRequest, HarnessResult } from '../../../src/engine/pipeline/harness.ts'
import { FixedPrices } from '../../../src/lightning/money/prices.ts'
import { readServerPrice } from '../../../src/selling/prices/price-server.ts'
import { fixture, freshAddress } from '../challenges/fixture.ts'
import { sellingRoute } from './support.ts'
import { eventually } from '../../support/gateway-process.ts'
import { serve } from '../../support/serve.ts'

type Answer = (response: ServerResponse, asked: string) => void

/** A price server that does what a test says, and keeps what it was asked. */
async function priceServer(t: T): Promise<{ url: string; asked: unknown[]; says(answer: Answer | object): void }> {
  const body: unknown[] = []
  let answer: Answer = response => response.end('{}')
  const server = createServer((request: IncomingMessage, response) => {
    let text = ''
    request.on('data', (piece: Buffer) => (text += piece.toString()))
    request.on('end', () => {
      body.push({ method: request.method, url: request.url, body: JSON.parse(text) })
      answer(response, text)
    })
  })
  const port = await serve(t, server)
  return {
    url: `http://127.0.0.1:${port}/price`,
    asked: body,
    says(next) {
      answer = typeof next === 'function' ? (next as Answer) : response => response.end(JSON.stringify(next))
    }
  }
}

/** `every`: milliseconds that pass before each request; an answer is taken for 10 seconds. */
async function shop(t: T, price: PriceServerConfig, changes: Partial<RouteConfig> = {}, every = 0) {
  const f = await fixture(t, {}, undefined, { rates: new FixedPrices() })
  const selling = await sellingRoute(f, { price, ...changes })
  const ask = (request?: HarnessRequest) => {
    f.clock.advance(every)
    return selling.ask(request)
  }
  const buy = async (request?: HarnessRequest) => {
    const { authorization, ...bought } = selling.pay(await ask(request))
    return { ...bought, authorization: authorization() }
  }
  return { f, ask, buy }
}

const config = (from: string, more: Partial<PriceServerConfig> = {}): PriceServerConfig => ({
  timeout: 500,
  cache: 10_000,
  from,
  headers: [],
  fields: [],
  ...more
})

t.test('a price server gets method, path, chosen headers and fields, and its price is charged', async t => {
  const server = await priceServer(t)
  server.says({ amountSats: 12, description: 'A small answer' })
  const s = await shop(t, config(server.url, { headers: ['X-Tier'], fields: [{ json: 'model' }, { query: 'x' }] }))
  const request: HarnessRequest = {
    method: 'POST',
    body: '{"model":"small"}',
    headers: { 'content-type': 'application/json', 'x-tier': 'gold' }
  }
  const { sats, description, authorization } = await s.buy(request)
  t.equal(sats, 12)
  t.equal(description, 'A small answer')
  t.strictSame(server.asked, [
    {
      method: 'POST',
      url: '/price',
      body: { method: 'POST', path: '/v1/a', headers: { 'x-tier': 'gold' }, fields: { model: 'small', x: '1' } }
    }
  ])
  const paid = await s.ask({ ...request, headers: { ...request.headers, authorization } })
  t.equal(paid.status, 200)
  t.equal(server.asked.length, 1, 'its last answer is still known')
  s.f.clock.advance(10_001)
  t.equal((await s.ask({ ...request, headers: { ...request.headers, authorization } })).status, 200)
  t.equal(server.asked.length, 2, 'and retried when it is old')
})

t.test('millisatoshis are rounded up, dollars are turned into satoshis and bound as dollars', async t => {
  const server = await priceServer(t)
  const s = await shop(t, config(server.url), {}, 10_000)
  server.says({ amountMsat: 1500 })
  t.equal((await s.buy()).sats, 2)
  server.says({ usd: 0.004 })
  const { sats, authorization } = await s.buy()
  t.equal(sats, 4)
  server.says({ usd: '0.0040' })
  t.equal((await s.ask({ headers: { authorization } })).status, 200, 'the same price in another spelling')
  server.says({ usd: '0.005' })
  t.equal((await s.ask({ headers: { authorization } })).status, 401)
})

t.test(
  'another price when the token returns is a change of the price, with its grace for the same question',
  async t => {
    const server = await priceServer(t)
    const strict = await shop(t, config(server.url, { fields: [{ query: 'size' }] }), {}, 10_000)
    const small: HarnessRequest = { target: '/v1/a?size=small' }
    const large: HarnessRequest = { target: '/v1/a?size=large' }
    server.says({ amountSats: 5 })
    const first = await strict.buy(small)
    server.says({ amountSats: 6 })
    t.equal((await strict.ask({ ...small, headers: { authorization: first.authorization } })).status, 401)

    const s = await shop(t, config(server.url, { fields: [{ query: 'size' }] }), { priceGrace: 600_000 }, 10_000)
    server.says({ amountSats: 5 })
    const { authorization } = await s.buy(small)
    server.says({ amountSats: 6 })
    t.equal((await s.ask({ ...small, headers: { authorization } })).status, 200)
    t.equal((await s.ask({ ...large, headers: { authorization } })).status, 401, 'not for other requests')
    const { challenges } = s.f.another('gateway-2')
    t.ok(challenges, 'another gateway knows it from the row')
    s.f.clock.advance(600_000)
    t.equal((await s.ask({ ...small, headers: { authorization } })).status, 401)
  }
)

t.test('price servers that are down, slow or lying are 503, and nothing is sold', async t => {
  const server = await priceServer(t)
  const s = await shop(t, config(server.url), {}, 10_000)
  const big = `{"amountSats":5,"description":"${'x'.repeat(20_000)}"}`
  for (const [name, answer] of [
    ['0', { amountSats: 0 }],
    ['negative', { amountSats: -5 }],
    ['a fraction', { amountSats: 1.5 }],
    ['a text', { amountSats: '5' }],
    ['too much', { amountSats: 2_000_000_000 }],
    ['0 millisatoshis', { amountMsat: 0 }],
    ['negative millisatoshis', { amountMsat: -1 }],
    ['less than a satoshi of nothing', { amountMsat: 0.5 }],
    ['negative dollars', { usd: -0.01 }],
    ['negative dollars as a text', { usd: '-0.01' }],
    ['-0', (response: ServerResponse) => response.end('{"amountSats":-0}')],
    ['0 in other letters', (response: ServerResponse) => response.end('{"amountSats":0e9}')],
    ['0 beside a price', { amountSats: 0, usd: '1' }],
    ['a price in another spelling', { AmountSats: 5 }],
    ['nothing', {}],
    ['null', { amountSats: null }],
    ['two members', { amountSats: 5, usd: '1' }],
    ['dollars of 0', { usd: 0 }],
    ['dollars of no country', { usd: '1e3' }],
    ['NaN', (response: ServerResponse) => response.end('{"amountSats":NaN}')],
    ['a price twice', (response: ServerResponse) => response.end('{"amountSats":50,"amountSats":5}')],
    ['HTML', (response: ServerResponse) => response.end('<h1>5</h1>')],
    ['a list', (response: ServerResponse) => response.end('[5]')],
    ['a huge body', (response: ServerResponse) => response.end(big)],
    ['201', (response: ServerResponse) => response.writeHead(201).end('{"amountSats":5}')],
    [
      'half of what it announces',
      (response: ServerResponse) => response.writeHead(200, { 'content-length': 99 }).end('{"amountSats":5}')
    ],
    ['500', (response: ServerResponse) => response.writeHead(500).end('{"amountSats":5}')],
    ['a redirect', (response: ServerResponse) => response.writeHead(302, { location: server.url }).end()],
    ['a broken connection', (response: ServerResponse) => response.destroy()]
  ] as const) {
    server.says(answer as object)
    const result = await s.ask()
    t.equal(result.status, 503, name)
    t.match(JSON.parse(String(result.body)), { error: 'Price unavailable' }, name)
    t.ok(result.headers.get('retry-after'), name)
  }
  const heard = Promise.withResolvers<void>()
  server.says(() => {
    heard.resolve()
  })
  const hanging = s.ask()
  await heard.promise
  s.f.clock.advance(500)
  t.equal((await hanging).status, 503, 'one that hangs')
  t.equal(s.f.payee.requests.length, 0)

  server.says({ amountSats: 5 })
  t.equal((await s.buy()).sats, 5, 'and sells again when it answers')
  const away = await shop(t, config('http://127.0.0.1:1/price'))
  t.equal((await away.ask()).status, 503)
})

t.test('a token is not used up by a price server that hangs, before its head or within its body', async t => {
  const server = await priceServer(t)
  const s = await shop(t, config(server.url), {}, 10_000)
  server.says({ amountSats: 5 })
  const { authorization } = await s.buy()
  const paid = (): Promise<HarnessResult> => s.ask({ headers: { authorization } })
  for (const hangs of [
    () => {},
    (response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"amountSats":')
    }
  ]) {
    const heard = Promise.withResolvers<void>()
    server.says(response => {
      hangs(response)
      heard.resolve()
    })
    const waiting = paid()
    await heard.promise
    s.f.clock.advance(499)
    const soon = await Promise.race([
      waiting.then(() => 'told'),
      new Promise(resolve => setImmediate(resolve, 'waits'))
    ])
    t.equal(soon, 'waits')
    s.f.clock.advance(1)
    const late = await waiting
    t.equal(late.status, 503)
    t.equal(late.upstream, null, 'nothing was forwarded')
    server.says({ amountSats: 5 })
    t.equal((await paid()).status, 200, 'and the token is valid again')
  }
  t.equal(s.f.payee.requests.length, 1)
})

t.test(
  'concurrent callers with the same question ask once, and more questions than fit are refused immediately',
  async t => {
    const server = await priceServer(t)
    const waiting: Array<() => void> = []
    const heard = Promise.withResolvers<void>()
    server.says(response => {
      waiting.push(() => response.end('{"amountSats":5}'))
      heard.resolve()
    })
    const s = await shop(t, config(server.url, { fields: [{ query: 'n' }] }))
    const same = Array.from({ length: 20 }, () => s.ask({ target: '/v1/a?n=0', peerAddress: freshAddress() }))
    const others = Array.from({ length: 255 }, (_, n) => s.ask({ target: `/v1/a?n=${n + 1}` }))
    const one = await s.ask({ target: '/v1/a?n=another' })
    t.equal(one.status, 503)
    await heard.promise
    server.says({ amountSats: 5 })
    for (const answer of waiting) answer()
    t.strictSame(new Set((await Promise.all(same)).map(({ status }) => status)), new Set([402]))
    t.equal(server.asked.filter(asked => JSON.stringify(asked).includes('"n":"0"')).length, 1)
    s.f.clock.advance(500)
    await Promise.all(others)
  }
)

t.test('a response is for callers within its lifetime, counted from its question', async t => {
  const server = await priceServer(t)
  const answered: Array<(sats: number) => void> = []
  server.says(response => {
    answered.push(sats => response.end(JSON.stringify({ amountSats: sats })))
  })
  const heard = async (count: number) => {
    await eventually(`${count} questions`, async () => answered.length >= count || null, 10_000)
  }
  const cached = await shop(t, config(server.url))
  const slow = cached.buy({})
  await heard(1)
  cached.f.clock.advance(300)
  answered[0]?.(5)
  t.equal((await slow).sats, 5)
  cached.f.clock.advance(9_701)
  server.says({ amountSats: 7 })
  t.equal((await cached.buy({ peerAddress: freshAddress() })).sats, 7, 'its age counts from the question')
})

t.test('without a lifetime each request asks, and a price server has only its own time', async t => {
  const server = await priceServer(t)
  server.says({ amountSats: 5 })
  const always = await shop(t, config(server.url, { cache: 0 }))
  t.equal((await always.buy()).sats, 5)
  server.says({ amountSats: 6 })
  t.equal((await always.buy()).sats, 6)
  server.says(() => undefined)
  const patient = await shop(t, config(server.url, { timeout: 2_000 }))
  const waiting = patient.ask()
  patient.f.clock.advance(1_999)
  t.equal(await Promise.race([waiting, Promise.resolve('waits')]), 'waits')
  patient.f.clock.advance(1)
  t.equal((await waiting).status, 503)
})

t.test('a description is one line of at most 500 characters', async t => {
  const read = readServerPrice(Buffer.from(JSON.stringify({ amountSats: 1, description: `a\nb${'é'.repeat(600)}` })))
  t.match(read, { amount: 1, description: /^a b(é){497}$/ })
  t.equal(typeof readServerPrice(Buffer.from('{"amountSats":1,"description":{}}')), 'string')
})
