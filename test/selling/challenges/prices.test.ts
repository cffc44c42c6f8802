import t, { type Test as T } from 'tap'
import challenge from '../../../plugins/challenge.ts'
import credential from '../../../plugins/credential.ts'
import type { SellingOptions } from '../../../src/selling/challenges/open.ts'
import type { RouteConfig } from '../../../src/engine/config/schema.ts'
import {
  harness,
  type HarnessAnswer,
  type HarnessRequest,
  type HarnessResult
} from '../../../src/engine/pipeline/harness.ts'
import { addCaveat, decodeMacaroonBase64, macaroonToBase64 } from '../../../src/lightning/l402/macaroon.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { type FiatCurrency, atPrice, pricesUnavailable, type Prices } from '../../../src/lightning/money/prices.ts'
import { knownDecimal } from '../../../src/lightning/money/decimal.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { StateUnavailable } from '../../../src/platform/state/state.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixture, freshAddress, l402Parameters, modern, route, type Fixture } from './fixture.ts'

/** Rates that a test moves, and that count who asks. */
class Rates implements Prices {
  usd: string | null = '100000'
  requests = 0

  async satoshis(_currency: FiatCurrency, amount: string): Promise<number> {
    this.requests++
    if (this.usd === null) throw pricesUnavailable(7)
    return atPrice(knownDecimal(amount), knownDecimal(this.usd))
  }
}

interface Shop {
  readonly f: Fixture
  readonly rates: Rates
  ask(request?: HarnessRequest): Promise<HarnessResult>
  /** The shop as another configuration has it. */
  with(changes: Partial<RouteConfig>): Promise<Shop>
}

async function shop(t: T, changes: Partial<RouteConfig>, more: Partial<SellingOptions> = {}): Promise<Shop> {
  const rates = new Rates()
  const f = await fixture(t, {}, undefined, { rates, ...more })
  return over(f, rates, { name: `prices-${freshAddress()}`, match: { path: ['/v1/*'] }, ...changes })
}

async function over(
  f: Fixture,
  rates: Rates,
  changes: Partial<RouteConfig>,
  answer: HarnessAnswer = {}
): Promise<Shop> {
  const config = route(changes)
  const services = { challenges: f.challenges, clock: f.clock }
  const chain = await harness([credential, challenge], { services, route: { name: config.name, config }, answer })
  const address = freshAddress()
  return {
    f,
    rates,
    ask: request => chain.run({ target: '/v1/a', peerAddress: address, ...request }),
    with: others => over(f, rates, { ...changes, ...others })
  }
}

const json = (body: string, more: HarnessRequest = {}) => ({
  method: 'POST',
  body,
  ...more,
  headers: { 'content-type': 'application/json', ...more.headers }
})
const model = (name: string) => JSON.stringify({ model: name })

/** What a 402 asks for, in satoshis, and the classic credential that paying it gives. */
function bought({ f }: Shop, result: HarnessResult) {
  if (result.status !== 402) throw new Error(`no 402 but ${result.status} ${String(result.body)}`)
  const { macaroon, invoice } = l402Parameters(result.headers.all('www-authenticate'))
  const preimage = f.payee.pay(invoice)
  const sats = Number((decodeInvoice(invoice).amountMsat ?? 0n) / 1000n)
  return { sats, macaroon, preimage, authorization: `L402 ${macaroon}:${preimage}` }
}

t.test('a route in dollars: charged at the current rate, and valid through a doubling of it', async t => {
  const s = await shop(t, { price: 'USD 0.002' })
  const first = await s.ask()
  const { sats, authorization } = bought(s, first)
  t.equal(sats, 2)
  t.match(String(first.body), /costs 2 satoshis \(USD 0\.002\)/)
  t.equal((await s.ask({ headers: { authorization } })).status, 200)
  s.rates.usd = '50000'
  t.equal(bought(s, await s.ask()).sats, 4)
  s.rates.usd = '200000'
  t.equal(bought(s, await s.ask()).sats, 1)
  const before = s.rates.requests
  t.equal((await s.ask({ headers: { authorization } })).status, 200, 'the token stays valid')
  const { challenges } = s.f.another('gateway-2')
  const cold = await over({ ...s.f, challenges }, s.rates, { price: 'USD 0.002' })
  t.equal((await cold.ask({ headers: { authorization } })).status, 200, 'also where it was never seen')
  s.rates.usd = null
  t.equal((await s.ask({ headers: { authorization } })).status, 200, 'and without any rate')
  t.equal(s.rates.requests, before, 'no rate was looked up for it')
  const unavailable = await s.ask()
  t.equal(unavailable.status, 503)
  t.match(JSON.parse(String(unavailable.body)), { error: 'Price feed unavailable' })
  t.equal(unavailable.headers.get('retry-after'), '7')
})

t.test('another fiat price refuses the token, in both schemes, and the grace takes it', async t => {
  const s = await shop(t, { price: 'USD 0.002' })
  const result = await s.ask()
  const { authorization } = bought(s, result)
  t.equal((await s.ask({ headers: { authorization } })).status, 200)
  const higher = await s.with({ price: 'USD 0.003' })
  const again = await s.ask()
  const single = modern(again.headers.all('www-authenticate'), bought(s, again).preimage)
  const insufficient = await higher.ask({ headers: { authorization: single } })
  t.equal(insufficient.status, 402)
  t.match(String(insufficient.body), /payment-insufficient.*made for USD 0\.002; the price is USD 0\.003/)
  s.rates.usd = '50000'
  t.equal((await s.ask({ headers: { authorization: single } })).status, 200, 'the rate does not matter to it')
  t.equal((await s.ask({ headers: { authorization: single } })).status, 402, 'which is valid once')
  s.rates.usd = '100000'
  const refused = await higher.ask({ headers: { authorization } })
  t.equal(refused.status, 401)
  t.match(refused.headers.get('x-l402-error'), /bought at USD 0\.002, USD 0\.003 is asked/)
  const inSats = await s.with({ price: 3 })
  t.equal((await inSats.ask({ headers: { authorization } })).status, 401)

  const place = `route:${freshAddress()}`
  const former = await s.with({ name: place.slice(6), priceGrace: 3_600_000 })
  s.f.selling.offers.prices.ask(new Map([[place, 'USD 0.002']]))
  const kept = bought(s, await former.ask())
  s.f.clock.advance(1000)
  s.f.selling.offers.prices.ask(new Map([[place, 'USD 0.003']]))
  const now = await former.with({ price: 'USD 0.003' })
  t.equal((await now.ask({ headers: { authorization: kept.authorization } })).status, 200)
  const cheaper = await former.with({ price: 'USD 0.001' })
  t.equal((await cheaper.ask({ headers: { authorization: kept.authorization } })).status, 200, 'more was paid')
  s.f.clock.advance(3_600_000)
  t.equal((await now.ask({ headers: { authorization: kept.authorization } })).status, 403, 'it has expired by then')
})

t.test('a holder cannot write a fiat price into a token that was bought in satoshis', async t => {
  const s = await shop(t, { price: 1 })
  const { macaroon, preimage } = bought(s, await s.ask())
  const forged = macaroonToBase64(addCaveat(decodeMacaroonBase64(macaroon), 'price=USD 900'))
  const dear = await s.with({ price: 'USD 900', priceGrace: 60_000 })
  t.equal((await dear.ask({ headers: { authorization: `L402 ${forged}:${preimage}` } })).status, 401)
  const less = await s.with({ price: 'USD 5', priceGrace: 60_000 })
  t.equal((await less.ask({ headers: { authorization: `L402 ${forged}:${preimage}` } })).status, 401)
})

t.test('by model: each at its own price, and a cheap credential opens no more expensive one', async t => {
  const price = { by: { json: 'model' }, of: { small: 5, large: 40, tiny: 'USD 0.001' }, else: 'refuse' } as const
  const s = await shop(t, { price, priceGrace: 0 })
  const small = bought(s, await s.ask(json(model('small'))))
  t.equal(small.sats, 5)
  t.equal(bought(s, await s.ask(json(model('large')))).sats, 40)
  t.equal(bought(s, await s.ask(json(model('tiny')))).sats, 1)
  const with_ = (body: string) => json(body, { headers: { authorization: small.authorization } })
  const served = await s.ask(with_(model('small')))
  t.equal(served.status, 200)
  t.equal((await s.ask(with_(model('large')))).status, 401)
  t.equal((await s.ask(with_(model('tiny')))).status, 401)
  const graceful = await s.with({ priceGrace: 3_600_000 })
  t.equal((await graceful.ask(with_(model('large')))).status, 401, 'nor within a grace')
})

t.test('a former price of one model is taken for that model alone', async t => {
  const name = freshAddress()
  const table = (small: number) => ({ by: { json: 'model' }, of: { small, large: 40 }, else: 'refuse' }) as const
  const s = await shop(t, { name, price: table(5), priceGrace: 3_600_000 })
  const asked = (small: number) =>
    new Map([
      [`route:${name}`, 'varies'],
      [`route:${name} "small"`, String(small)],
      [`route:${name} "large"`, '40']
    ])
  s.f.selling.offers.prices.ask(asked(5))
  const { authorization } = bought(s, await s.ask(json(model('small'))))
  s.f.clock.advance(1000)
  s.f.selling.offers.prices.ask(asked(6))
  const now = await s.with({ price: table(6) })
  t.equal((await now.ask(json(model('small'), { headers: { authorization } }))).status, 200)
  t.equal((await now.ask(json(model('large'), { headers: { authorization } }))).status, 401)
})

t.test('a probe with {} gets a quote of the highest price, which pays for a request at that price', async t => {
  const price = { by: { json: 'model' }, of: { small: 5, large: 40 }, else: 'refuse' } as const
  const s = await shop(t, { price })
  const probed = await s.ask(json('{}'))
  t.equal(probed.status, 402)
  t.equal(probed.headers.get('x-price-quote'), 'highest')
  const { sats, authorization } = bought(s, probed)
  t.equal(sats, 40)
  t.match(s.f.payee.requests[0]?.description, /^Quote \(highest price\): /)
  t.equal((await s.ask(json('{}', { headers: { authorization } }))).status, 400, 'paid requests name their model')
  t.equal((await s.ask(json(model('small'), { headers: { authorization } }))).status, 401)
  t.equal((await s.ask(json(model('large'), { headers: { authorization } }))).status, 200)
  t.equal((await s.ask(json(model('large')))).headers.has('x-price-quote'), false)
  t.equal((await s.ask(json('{"a":1}'))).status, 400, 'a mistake is no probe')
  const fiat = await s.with({ price: { ...price, of: { small: 'USD 0.001', large: 'EUR 0.02' } } })
  t.equal((await fiat.ask(json('{}'))).status, 400, 'which is higher is not known')
  const free = await s.with({ price, free: { calls: 5, per: 60_000, by: 'address' } })
  t.equal((await free.ask(json('{}'))).status, 400, 'no free call is spent on a probe')
})

t.test('a body that names its model twice, not at all, or unreadably is never sold at the cheap price', async t => {
  const price = { by: { json: 'model' }, of: { small: 5, large: 40 }, else: 'refuse' } as const
  const s = await shop(t, { price })
  const refused = async (request: HarnessRequest, status = 400) => {
    const result = await s.ask(request)
    t.equal(result.status, status, JSON.stringify(request).slice(0, 80))
    return String(JSON.parse(String(result.body)).message)
  }
  t.match(await refused(json('{"model":"small","model":"large"}')), /has "model" twice/)
  t.match(await refused(json('{"prompt":"hi"}')), /the JSON member model is missing/)
  t.match(await refused(json(model('huge'))), /must be one of "small", "large"/)
  t.match(await refused({ method: 'POST' }), /model is missing/)
  await refused({ method: 'POST', body: model('small'), headers: { 'content-type': 'text/plain' } }, 415)
  await refused(json(model('small'), { headers: { 'content-encoding': 'gzip' } }), 415)
  t.equal(s.f.payee.requests.length, 0, 'no invoice was made')

  const rest = await s.with({ price: { ...price, else: 60 } })
  t.equal(bought(s, await rest.ask(json(model('huge')))).sats, 60)
  t.equal(bought(s, await rest.ask(json('{"prompt":"hi"}'))).sats, 60, 'also what names none')
  t.equal((await rest.ask(json('{"model":"large\\u0000"}'))).status, 400, 'C strings end at NUL')
})

t.test('by query, header and path', async t => {
  const of = { small: 5, large: 40 }
  const query = await shop(t, { price: { by: { query: 'size' }, of, else: 'refuse' } })
  t.equal(bought(query, await query.ask({ target: '/v1/a?size=large' })).sats, 40)
  const header = await query.with({ price: { by: { header: 'X-Size' }, of, else: 'refuse' } })
  t.equal(bought(query, await header.ask({ headers: { 'x-size': 'small' } })).sats, 5)
  const path = await query.with({ price: { by: { path: 'size' }, of, else: 'refuse' } })
  const params: HarnessRequest = {
    prepare: ctx => {
      ctx.params = { size: 'large' }
    }
  }
  t.equal(bought(query, await path.ask(params)).sats, 40)
  // Some servers drop what follows a semicolon in a segment, and would serve the large one.
  const other = await query.with({ price: { by: { path: 'size' }, of, else: 1 } })
  const segment = (size: string, target: string): HarnessRequest => ({
    target,
    prepare: ctx => {
      ctx.params = { size }
    }
  })
  const answer = await other.ask(segment('large;v=1', '/v1/large;v=1'))
  t.equal(answer.status, 400, 'a semicolon in the parameter')
  t.match(answer.text, '\\"size\\" of the path has a semicolon; write it as %3B')
  t.equal(bought(query, await other.ask(segment('large;v=1', '/v1/large%3Bv=1'))).sats, 1)
  t.equal(bought(query, await other.ask(segment('large', '/v1/large/a;b'))).sats, 40, 'one elsewhere in the path')
})

t.test('free calls: so many by network, then the price; credentials are not counted', async t => {
  const s = await shop(t, { price: 10, free: { calls: 2, per: 3_600_000, by: 'address' } })
  const from = (peerAddress: string, more: HarnessRequest = {}) => s.ask({ peerAddress, ...more })
  const first = await from('2001:db8:1:2::1')
  t.equal(first.status, 200)
  t.equal(first.headers.get('x-free-calls-remaining'), '1')
  t.equal((await from('2001:db8:1:2:ffff::9')).headers.get('x-free-calls-remaining'), '0', 'of one /64')
  const result = await from('2001:db8:1:2::3')
  const { authorization } = bought(s, result)
  t.equal(result.headers.get('x-free-calls-remaining'), '0')
  t.equal(result.headers.get('x-free-calls-reset'), '3600')
  t.equal((await from('2001:db8:1:3::1', { headers: { authorization } })).status, 200)
  t.equal((await from('2001:db8:1:3::1')).headers.get('x-free-calls-remaining'), '1', 'the paid one was not counted')
  t.equal(s.f.counted.lines.filter(line => line === 'free route').length, 3)
  s.f.clock.advance(3_600_001)
  t.equal((await from('2001:db8:1:2::1')).status, 200)

  const header = await s.with({ free: { calls: 1, per: 60_000, by: { header: 'X-Key' } }, name: freshAddress() })
  t.equal((await header.ask({ headers: { 'x-key': 'a' } })).status, 200)
  t.equal((await header.ask({ headers: { 'x-key': 'a' } })).status, 402)
  t.equal((await header.ask({ headers: { 'x-key': 'b' } })).status, 200)
  t.equal((await header.ask()).status, 402, 'a client that does not identify itself pays')
  const network = await s.with({ free: { calls: 1, per: 60_000, by: 'network' }, name: freshAddress() })
  t.equal((await network.ask({ peerAddress: '192.0.2.1' })).status, 200)
  t.equal((await network.ask({ peerAddress: '192.0.2.200' })).status, 402)
})

t.test('a response that one client got for free is not stored by shared caches', async t => {
  const s = await shop(t, { price: 10 })
  const free = { price: 10, free: { calls: 2, per: 60_000, by: 'address' } } as const
  const served = async (...headers: string[]) => {
    const chain = await over(s.f, s.rates, { ...free, name: freshAddress() }, { headers })
    return (await chain.ask()).headers.get('cache-control')
  }
  t.equal(await served(), 'private')
  t.equal(await served('Cache-Control', 'public, max-age=60'), 'private, max-age=60')
  t.equal(await served('Cache-Control', 'no-store'), 'no-store')
})

t.test('without the shared state no call is free', async t => {
  const state = new MemoryState(new ManualClock())
  const s = await shop(t, { price: 10, free: { calls: 20, per: 60_000, by: 'address' } }, { state })
  t.equal((await s.ask()).status, 200)
  Object.assign(state, { takeFixed: () => Promise.reject(new StateUnavailable('redis is down')) })
  const warned = t.capture(silentLog, 'warn')
  const result = await s.ask()
  t.equal(result.status, 402)
  t.equal(result.headers.get('x-free-calls-remaining'), undefined)
  t.equal(warned().length, 1)
  t.equal((await s.ask()).status, 402)
  t.equal(warned().length, 0, 'once per outage')
})
