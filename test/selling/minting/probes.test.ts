/** Crawlers of directories that name themselves share an invoice; their 402s and the operator's own tests are no demand. */
import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { isCrawler } from '../../../src/selling/minting/probes.ts'
import { AdminKey } from '../../../src/accounts/merchants/admin-key.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { challengeOf, defaultYaml, startGateway, type TestGateway, paidFor } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'

const CRAWLER = '402index/1.0 (+https://402index.io)'
const MINUTE = 60_000
const HOST = 'api.example.com'

async function opened(t: T, payment = '') {
  const clock = new ManualClock(new Date().toISOString())
  const port = await serve(
    t,
    createServer((_request, response) => response.end('hello'))
  )
  const to = `chain: paid, upstream: { url: "http://127.0.0.1:${port}" }`
  const table = '{ by: { query: size }, of: { s: 3 sats, l: 9 sats }, else: refuse }'
  const routes = [
    `{ name: quotes, match: { path: /v1/* }, price: 7 sats, ${to} }`,
    `{ name: words, match: { path: /words }, price: 9 sats, ${to} }`,
    `{ name: fiat, match: { path: /fiat }, price: USD 0.01, ${to} }`,
    `{ name: sized, match: { path: /sized/* }, price: ${table}, ${to} }`,
    `{ name: priced, match: { method: POST, path: /priced }, price: ${table.replace('query', 'json')}, ${to} }`
  ].map(route => `\n  - ${route}`)
  const yaml = defaultYaml({ replace: [['routes:', `${payment}routes:${routes.join('')}`]] })
  const gateway = await startGateway(t, { yaml, clock, env: { PUBLIC_URL: `https://${HOST}` } })
  const invoice = async (path: string, agent: string, method = 'GET', body?: object) => {
    const answer = await gateway.send(method, path, {
      headers: { 'user-agent': agent, 'x-forwarded-host': HOST, connection: 'close' },
      ...(body === undefined ? {} : { body })
    })
    t.equal(answer.status, 402, answer.text)
    return challengeOf(answer, 'l402').parameters.get('invoice') ?? ''
  }
  return { clock, gateway, invoice }
}

const metric = async (gateway: TestGateway, name: string) => {
  const { text } = await gateway.adminSend('GET', '/metrics')
  return text.split('\n').find(line => line.startsWith(name))
}

t.test('crawlers: the names that directories give themselves', async t => {
  for (const agent of [
    CRAWLER,
    '402-indexer',
    '402index-verifier/1.0',
    'Open402DirectoryCrawler/2',
    'Satring-Scraper/1.0',
    'Mozilla/5.0 (compatible; x402scan; +https://www.x402scan.com)',
    'mppscan',
    'probe402/0.1'
  ])
    t.ok(isCrawler(agent), agent)
  for (const agent of [
    undefined,
    '',
    'node',
    'curl/8.1',
    'python-httpx/0.27',
    'lnget',
    'axios/1.402',
    'Mozilla/5.0 Chrome/140'
  ])
    t.notOk(isCrawler(agent), String(agent))
})

t.test('crawlers: one invoice for an hour, by method, path and body', async t => {
  const { clock, invoice } = await opened(t)
  const first = await invoice('/v1/a', CRAWLER)
  t.equal(await invoice('/v1/a', CRAWLER), first)
  t.equal(await invoice('/v1/a', 'Satring-Scraper/1.0'), first, 'another crawler gets the same')
  t.not(await invoice('/v1/b', CRAWLER), first)
  const head = await invoice('/v1/a', CRAWLER, 'HEAD')
  const post = await invoice('/v1/a', CRAWLER, 'POST', {})
  clock.advance(55 * MINUTE)
  t.equal(await invoice('/v1/a', CRAWLER, 'HEAD'), head)
  t.equal(await invoice('/v1/a', CRAWLER, 'POST', {}), post)
  t.equal(await invoice('/v1/a', CRAWLER), first)
  clock.advance(4 * MINUTE)
  const next = await invoice('/v1/a', CRAWLER)
  t.not(next, first, 'not in its last minutes')
  t.equal(await invoice('/v1/a', CRAWLER), next)
})

t.test('crawlers: buyers never get the invoice of a crawler, nor a crawler one of theirs', async t => {
  const { gateway, invoice } = await opened(t)
  const crawled = await invoice('/v1/a', CRAWLER)
  const own = await invoice('/v1/a', 'lnget')
  t.not(own, crawled)
  t.not(await invoice('/v1/a', 'lnget'), own)
  t.equal(await invoice('/v1/a', CRAWLER), crawled)
  await gateway.pay(crawled)
  t.not(await invoice('/v1/a', CRAWLER), crawled, 'no client gets one that was paid')
})

t.test('probes without a name: an address gets one invoice an hour for HEAD, and for a quote', async t => {
  const { clock, gateway, invoice } = await opened(t)
  const head = await invoice('/v1/a', 'node', 'HEAD')
  t.equal(await invoice('/v1/a', 'node', 'HEAD'), head)
  t.not(await invoice('/v1/a', CRAWLER, 'HEAD'), head, 'it is of that address')
  t.not(await invoice('/v1/a', 'node'), head, 'a buyer gets an invoice of its own')
  const quote = await invoice('/priced', 'node', 'POST', {})
  t.equal(await invoice('/priced', 'node', 'POST', {}), quote)
  const bought = await invoice('/priced', 'node', 'POST', { size: 's' })
  t.not(await invoice('/priced', 'node', 'POST', { size: 's' }), bought)
  clock.advance(55 * MINUTE)
  t.equal(await invoice('/v1/a', 'node', 'HEAD'), head)
  t.match(await metric(gateway, 'boltgate_probes_total{route="quotes"}'), / 4$/)
  t.match(await metric(gateway, 'boltgate_payment_required_total{route="quotes"}'), / 5$/)
})

t.test('crawlers and x402: HEAD shares an invoice for an hour without it, others have one each', async t => {
  const { clock, gateway, invoice } = await opened(t, 'payment: { schemes: [ l402, payment, x402 ] }\n')
  const offers = async (method: string) =>
    (await gateway.send(method, '/v1/a', { headers: { 'user-agent': CRAWLER, 'x-forwarded-host': HOST } })).headers[
      'payment-required'
    ] !== undefined
  for (const agent of [CRAWLER, 'node']) {
    const head = await invoice('/v1/a', agent, 'HEAD')
    clock.advance(25 * MINUTE)
    t.equal(await invoice('/v1/a', agent, 'HEAD'), head, agent)
  }
  t.notOk(await offers('HEAD'))
  t.ok(await offers('GET'))
  t.not(await invoice('/v1/a', CRAWLER), await invoice('/v1/a', CRAWLER))
})

t.test('crawlers: names of crawlers close nothing to those that have them', async t => {
  const { invoice } = await opened(t)
  const found = new Set<string>()
  for (let nth = 0; nth < 45; nth++) found.add(await invoice(`/v1/x${nth}`, CRAWLER))
  t.equal(found.size, 40, 'beyond 40 paths an invoice of the same price is shared')
  t.equal((await invoice('/words', CRAWLER)).length > 0, true)
})

t.test('crawlers: without an invoice to share, a crawler is a client as any other', async t => {
  const { invoice } = await opened(t, 'payment: { maxOutstanding: { address: 1 } }\n')
  const small = new Set<string>()
  for (const path of ['a', 'b', 'c', 'd', 'e']) small.add(await invoice(`/sized/${path}?size=s`, CRAWLER))
  t.equal(small.size, 4)
  const large = await invoice('/sized/a?size=l', CRAWLER)
  t.equal(decodeInvoice(large).amountMsat, 9_000n, 'no 429, though the place of crawlers is full')
})

t.test('crawlers: only a price in satoshis is cached for an hour', async t => {
  const { invoice } = await opened(t)
  t.equal(decodeInvoice(await invoice('/words', CRAWLER)).expirySeconds, 3600)
  t.equal(decodeInvoice(await invoice('/words', 'lnget')).expirySeconds, 600)
  t.equal(decodeInvoice(await invoice('/fiat', CRAWLER)).expirySeconds, 600)
})

t.test('probes and own tests are counted beside demand, and own tests beside sales', async t => {
  const { clock, gateway, invoice } = await opened(t)
  await invoice('/words', CRAWLER)
  await invoice('/words', 'lnget')
  t.match(await metric(gateway, 'boltgate_payment_required_total{route="words"}'), / 2$/)
  t.match(await metric(gateway, 'boltgate_probes_total{route="words"}'), / 1$/)
  const admin = new AdminKey(new Secret(gateway.adminKey))
  const earned = async () => (await gateway.adminSend('GET', '/api/admin/earnings')).json()
  const buy = async (test: string) => {
    const unpaid = await gateway.send('GET', '/words', { headers: { 'boltgate-test': test } })
    const authorization = await paidFor(gateway, unpaid)
    t.equal((await gateway.send('GET', '/words', { headers: { authorization } })).text, 'hello')
  }
  await buy(admin.session(clock.now() + MINUTE, 'own tests'))
  t.match(await earned(), { sales: 0, sats: 0 })
  t.match(await metric(gateway, 'boltgate_probes_total{route="words"}'), / 2$/)
  t.equal(await metric(gateway, 'boltgate_payments_total'), undefined)
  const listed = await gateway.adminSend('GET', '/api/admin/sales')
  t.match(listed.json(), { sales: [{ source: 'test', sats: 9, resource: '/words' }] })
  for (const forged of [
    'yes',
    admin.session(clock.now() - 1, 'own tests'),
    admin.session(clock.now() + MINUTE),
    new AdminKey(new Secret('another')).session(clock.now() + MINUTE, 'own tests')
  ])
    await buy(forged)
  t.match(await earned(), { sales: 4, sats: 36 }, 'a call without a signature is a sale')
})
