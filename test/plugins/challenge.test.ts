import t, { type Test as T } from 'tap'
import challenge from '../../plugins/challenge.ts'
import type { ChallengeSettings } from '../../src/selling/offers/settings.ts'
import { boundQuery, type Offer } from '../../src/selling/offers/offer.ts'
import { sentAgain } from '../../src/selling/minting/wording.ts'
import type { RouteConfig } from '../../src/engine/config/schema.ts'
import { harness, type HarnessRequest, type HarnessResult } from '../../src/engine/pipeline/harness.ts'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { ProviderUnavailable } from '../../src/lightning/provider-calls/errors.ts'
import { contentDigest } from '../../src/lightning/payment-scheme/payment-challenge.ts'
import {
  fixture,
  freshAddress,
  l402Parameters,
  offer,
  paymentParameters,
  route,
  type Fixture
} from '../selling/challenges/fixture.ts'

interface Shop extends Fixture {
  ask(request?: HarnessRequest): Promise<HarnessResult>
}

async function shop(
  t: T,
  changes: Partial<ChallengeSettings> = {},
  routeChanges: Partial<RouteConfig> = {}
): Promise<Shop> {
  const parts = await fixture(t, changes)
  const config = route({ name: `shop-${freshAddress()}`, ...routeChanges })
  const chain = await harness(challenge, {
    services: { challenges: parts.challenges, clock: parts.clock },
    route: { name: config.name, config }
  })
  const address = freshAddress()
  return { ...parts, ask: request => chain.run({ target: '/v1/quote?q=1', peerAddress: address, ...request }) }
}

const schemesOf = (result: HarnessResult) =>
  result.headers.all('www-authenticate').map(line => line.split(' ')[0] ?? '')
const put = (ctxOffer: Offer): HarnessRequest => ({
  prepare: ctx => {
    ctx.offer = ctxOffer
  }
})
const posted = (body: string, changes: { limit?: number; expects?: boolean } = {}): HarnessRequest => ({
  method: 'POST',
  body,
  prepare: ctx => {
    ctx.body.limit = changes.limit ?? 1_048_576
    if (changes.expects === true) Object.defineProperty(ctx, 'expectsContinue', { value: true })
  }
})

t.test('a response is in the database before it is sent', async t => {
  const s = await shop(t)
  const { invoice, macaroon } = l402Parameters((await s.ask()).headers.all('www-authenticate'))
  const row = await s.selling.claims.find(decodeInvoice(invoice).paymentHash)
  if (row === null) throw new Error('there is no row')
  // With what is made again of it.
  t.match(sentAgain(row, s.selling.keys()), {
    source: 'route',
    service: 'boltgate:0',
    merchantId: null,
    path: '/v1/quote',
    resource: '/v1/quote',
    method: 'GET',
    query: boundQuery('q=1'),
    amountSats: 10,
    digest: null,
    state: 'unspent',
    scheme: null,
    paidAt: null,
    invoice,
    macaroon,
    network: 'regtest',
    providerSlot: 'primary',
    providerKind: 'sandbox'
  })
  s.watched.broken.add('insert')
  const refused = await s.ask()
  t.equal(refused.status, 503)
  t.ok(refused.headers.has('retry-after'))
  t.notOk(refused.headers.has('www-authenticate'))
})

t.test('a body is bound by its digest where it is read at all', async t => {
  const s = await shop(t)
  const digestOf = async (request: HarnessRequest): Promise<string | undefined> =>
    paymentParameters((await s.ask(request)).headers.all('www-authenticate'))['digest']
  t.equal(await digestOf(posted('{"a":1}')), contentDigest(Buffer.from('{"a":1}')))
  t.equal(await digestOf(posted('')), undefined, 'an empty body')
  t.equal(await digestOf({ ...posted('x'), method: 'DELETE' }), undefined, 'a method without a digest')
  t.equal(await digestOf(posted('x', { limit: 1_048_577 })), undefined, 'a route that takes large bodies')
  t.equal(await digestOf(posted('x', { limit: Infinity })), undefined, 'a route without a limit')
  const waiting = await s.ask(posted('x', { expects: true }))
  t.equal(
    paymentParameters(waiting.headers.all('www-authenticate'))['digest'],
    undefined,
    'a client that waits for 100'
  )
  t.equal(waiting.ctx.body.received, 0, 'whose body is not read')
  const suppressed = await s.ask({ ...posted('x'), headers: { 'Accept-Payment': 'lightning/charge;q=0' } })
  t.equal(suppressed.ctx.body.received, 0, 'nothing is read for a line that is not sent')
  t.equal((await s.ask(posted('xyz', { limit: 2 }))).status, 413)
})

t.test('the eleventh open invoice of one client for one request is the newest of the ten again', async t => {
  const s = await shop(t)
  const invoices: string[] = []
  const hashes = new Set<string>()
  for (let count = 0; count < 10; count++) {
    invoices.push(l402Parameters((await s.ask()).headers.all('www-authenticate')).invoice)
    s.clock.advance(1_000)
  }
  t.equal(new Set(invoices).size, 10)
  const first = await s.ask()
  const again = l402Parameters(first.headers.all('www-authenticate'))
  t.equal(again.invoice, invoices[9])
  hashes.add(decodeInvoice(again.invoice).paymentHash)
  t.equal(s.payee.requests.length, 10)
  t.not(
    l402Parameters((await s.ask({ target: '/v1/quote?q=2' })).headers.all('www-authenticate')).invoice,
    again.invoice,
    'another query has its own'
  )
  t.not(
    l402Parameters((await s.ask({ peerAddress: freshAddress() })).headers.all('www-authenticate')).invoice,
    again.invoice,
    'another client has its own'
  )
  const [paid] = hashes
  await s.selling.claims.claim(paid ?? '', 'l402', null)
  const fresh = l402Parameters((await s.ask()).headers.all('www-authenticate')).invoice
  t.notOk(invoices.includes(fresh), 'one that was claimed is not handed out, and makes room')
  s.clock.advance(500_000)
  const late = l402Parameters((await s.ask()).headers.all('www-authenticate')).invoice
  t.notOk(invoices.includes(late) || late === fresh, 'nothing with less than two minutes left is handed out')
})

t.test('the addresses of one IPv6 /64 are one client', async t => {
  const s = await shop(t, { maxPerPlace: 2, schemes: ['payment'] })
  for (const host of ['::1', '::2'])
    t.equal((await s.ask({ target: `/v1/quote?h=${host}`, peerAddress: `2001:db8:7:7${host}` })).status, 402)
  t.equal((await s.ask({ target: '/v1/quote?h=3', peerAddress: '2001:db8:7:7:ffff::3' })).status, 429)
  t.equal((await s.ask({ target: '/v1/quote?h=3', peerAddress: '2001:db8:7:8::3' })).status, 402)
})

t.test('parallel requests of one client share an invoice only above ten', async t => {
  const s = await shop(t)
  const results = await Promise.all(Array.from({ length: 12 }, () => s.ask()))
  t.same(
    results.map(result => result.status),
    Array.from({ length: 12 }, () => 402)
  )
  t.equal(new Set(results.map(result => l402Parameters(result.headers.all('www-authenticate')).invoice)).size, 10)
  t.equal(s.payee.requests.length, 10)
})

t.test(
  'a client with too many open invoices in a place is answered 429, it alone, until one of them expires (decision 175)',
  async t => {
    const s = await shop(t, { maxPerPlace: 3, schemes: ['payment'] })
    const results = await Promise.all(
      Array.from({ length: 5 }, (_none, index) => s.ask({ target: `/v1/quote?q=${index}` }))
    )
    t.same(results.map(result => result.status).sort(), [402, 402, 402, 429, 429], 'whatever they ask for')
    s.clock.advance(500_000)
    const refused = await s.ask({ target: '/v1/other' })
    t.match(refused.json(), { error: 'Too many requests', retryAfter: 100 })
    t.equal(refused.headers.get('retry-after'), '100', 'until the first expires')
    t.equal((await s.ask({ peerAddress: freshAddress() })).status, 402, 'another client')
    t.equal(
      (
        await s.ask({
          target: '/v1/other',
          prepare: ctx => {
            ctx.offer = offer({ place: 'route:elsewhere' })
          }
        })
      ).status,
      402,
      'another place'
    )
    s.clock.advance(100_001)
    t.equal((await s.ask()).status, 402)
  }
)

t.test('a closed offer: 503 with its message', async t => {
  const s = await shop(t)
  const result = await s.ask(put(offer({ closed: 'Not now.', errorMembers: { proxy_id: 'p-2' } })))
  t.equal(result.status, 503)
  t.same(result.json(), { error: 'Proxy unavailable', message: 'Not now.', proxy_id: 'p-2' })
  t.equal(s.payee.requests.length, 0)
})

t.test('whatever is wrong at the provider is 503 with Retry-After, never 402', async t => {
  const s = await shop(t)
  for (const fault of [new Error('socket hang up'), new ProviderUnavailable('away', 17), 'amount', 'hash'] as const) {
    s.payee.fault = fault
    const { status, headers } = await s.ask()
    t.same([status, headers.has('retry-after'), headers.has('www-authenticate')], [503, true, false], String(fault))
  }
})

t.test('on testnet the Payment line is left out', async t => {
  const s = await shop(t)
  s.payee.network = 'testnet'
  t.same(schemesOf(await s.ask()), ['L402'])
})
