import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { startFakeIndex, startFakeSatring } from '../../fakes/directories.ts'
import { startGateway, type Answer } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'
import { boltgate } from '../../support/cli.ts'

/** A gateway whose file is at hand, and what directories see of it at its public address. */
async function shop(t: T) {
  const upstream = await serve(
    t,
    createServer((_request, response) => response.end('{}'))
  )
  const yaml = (verify = '') => `use: [ service, sandbox ]
server: { publicUrl: "https://api.example.com", listen: "127.0.0.1:0" }
discovery:
  name: Weather
  description: Forecasts by the hour.
  contact: ops@example.com
  categories: [ data ]
  verify: { ${verify} }
routes:
  - match: { method: POST, path: /v1/now }
    chain: paid
    price: 10 sats
    description: The weather now
    upstream: { url: "http://127.0.0.1:${upstream}" }
  - match: { method: GET, path: /v1/cities }
    chain: paid
    price: USD 0.01
    description: Cities
    upstream: { url: "http://127.0.0.1:${upstream}" }
  - match: { path: /v2/* }
    chain: paid
    upstream: { url: "http://127.0.0.1:${upstream}" }
`
  const file = join(t.testdir({ 'gateway.yaml': yaml() }), 'gateway.yaml')
  let gateway = await startGateway(t, { yaml: yaml() })
  const run = (...args: readonly string[]) => boltgate('publish', ...args, '-c', file)
  const challengeOf = ({ headers }: Answer) => String([headers['www-authenticate'] ?? ''].flat()[0])
  return {
    run,
    file,
    listed: {
      domain: 'api.example.com',
      async probe(method: string, path: string, body: string | null) {
        const answer = await gateway.send(method, path, body === null ? {} : { body })
        return { status: answer.status, challenge: challengeOf(answer), text: answer.text }
      }
    },
    seller: {
      challenge: async () => challengeOf(await gateway.send('POST', '/v1/now', { body: {} })),
      isPaid: async (authorization: string) =>
        (await gateway.send('POST', '/v1/now', { headers: { authorization }, body: {} })).status === 200
    },
    wallet: () => `${gateway.url}/sandbox/pay`,
    /** Puts texts into the file, with which the gateway starts again. */
    async verify(texts: string) {
      writeFileSync(file, yaml(texts))
      gateway = await startGateway(t, { yaml: yaml(texts) })
    }
  }
}

t.test('publish 402index: shows each request, and sends none without --send', async t => {
  const s = await shop(t)
  const index = await startFakeIndex(t, s.listed)
  const dry = await s.run('402index', '--at', index.url)
  t.equal(dry.code, 0, dry.err)
  t.match(dry.err, /of the sandbox, which no buyer can pay/)
  t.same(index.requests, [])
  t.match(dry.out, /> POST http:[^\n]*\/api\/v1\/claim\n[^]*"domain": "api.example.com"/)
  t.match(dry.out, /\/api\/v1\/register\n[^]*"url": "https:\/\/api.example.com\/v1\/now"[^]*"price_sats": 10/)
  t.match(dry.out, /Dry run: nothing was sent/)
  t.match(dry.err, /\/v2\/[^ ]* is left out: .*examples/, 'a pattern cannot be called')
  t.notMatch(dry.out, '/l402/test/ping', 'what the gateway has of its own is nothing to list')
})

t.test('publish 402index: claims the domain, proves it, registers, and reports health', async t => {
  const s = await shop(t)
  const index = await startFakeIndex(t, s.listed)
  const publish = () => s.run('402index', '--send', '--at', index.url)
  const claimed = await publish()
  t.equal(claimed.code, 0, claimed.err)
  t.same(index.requests, ['POST /api/v1/claim'], 'nothing is registered before the domain is proven')
  const hash = index.claims.get('api.example.com')?.hash ?? ''
  t.match(claimed.out, `402index-verify.txt: "${hash}"`)
  t.match(claimed.out, /Keep this token[^]*[0-9a-f]{64}/)

  await s.verify(`402index-verify.txt: "${'0'.repeat(64)}"`)
  const wrong = await publish()
  t.equal(wrong.code, 1)
  t.match(wrong.out, /422 Hash mismatch/)
  t.equal(index.services.size, 0)

  await s.verify(`402index-verify.txt: "${hash}"`)
  index.requests.length = 0
  const done = await publish()
  t.equal(done.code, 0, done.out + done.err)
  t.same(index.requests, [
    'POST /api/v1/claim/verify',
    'POST /api/v1/register',
    'POST /api/v1/register',
    'GET /api/v1/services?q=api.example.com&limit=200'
  ])
  t.match(index.services.get('https://api.example.com/v1/now'), {
    name: 'Weather: POST /v1/now',
    description: 'The weather now',
    protocol: 'L402',
    price_sats: 10,
    category: 'data',
    provider: 'Weather',
    contact_email: 'ops@example.com',
    http_method: 'POST',
    status: 'active'
  })
  t.equal(index.services.get('https://api.example.com/v1/cities')?.['price_sats'], undefined, 'a price in fiat varies')
  t.match(done.out, /registered and live/)
  t.match(done.out, /healthy +99\.5 % +12 ms +https:\/\/api\.example\.com\/v1\/now/)
  t.equal((await publish()).code, 0, 'a repetition changes nothing')

  index.claims.set('api.example.com', { hash, status: 'expired' })
  t.match(
    await publish(),
    { code: 0, out: /POST [^\n]*\/claim\n[^]*402index-verify\.txt: "[0-9a-f]{64}"/ },
    'a new claim'
  )
})

t.test('publish 402index: says why an endpoint was refused, and fails', async t => {
  const s = await shop(t)
  const index = await startFakeIndex(t, { ...s.listed, probe: async () => ({ status: 503, challenge: '', text: '' }) })
  index.claims.set('api.example.com', { hash: '', status: 'verified' })
  await s.verify(`402index-verify.txt: "${'0'.repeat(64)}"`)
  const { code, out } = await s.run('402index', '--send', '--at', index.url)
  t.equal(code, 1)
  t.match(out, /422 L402 verification failed Expected 402, got 503/)
})

t.test('publish satring: pays for the listing by L402, and proves the domain', async t => {
  const s = await shop(t)
  const satring = await startFakeSatring(t, s.listed, s.seller)
  const publish = (...more: string[]) => s.run('satring', '--send', '--at', satring.url, ...more)
  const dry = await s.run('satring', '--at', satring.url)
  t.match(dry, { code: 0, out: /> POST [^\n]*\/api\/v1\/services\n[^]*"protocol": "L402\+MPP"/ }, dry.err)
  t.same(satring.requests, [])

  const unpaid = await publish()
  t.equal(unpaid.code, 1)
  t.match(unpaid.out, /10 sats[^]*--wallet/)
  t.equal(satring.services.size, 0)

  const paid = await publish('--wallet', s.wallet())
  t.equal(paid.code, 0, paid.out + paid.err)
  const [service] = satring.services.values()
  t.match(service?.body, {
    name: 'Weather',
    url: 'https://api.example.com/v1/cities',
    category_ids: [2],
    owner_contact: 'ops@example.com',
    mpp_method: 'lightning'
  })
  t.match(paid.out, `satring-verify: "${service?.challenge}"`)
  t.match(paid.out, service?.token)

  await s.verify(`satring-verify: "${service?.challenge}"`)
  const proven = await publish()
  t.equal(proven.code, 0, proven.out + proven.err)
  t.equal(service?.verified, true)
  t.match(proven.out, /The domain is verified/)
  const again = await publish()
  t.match(again, { code: 0, out: /409 [^]*The domain is verified[^]*3 views in 30 days/ })
})

t.test('publish: mistakes are named before anything is sent', async t => {
  const s = await shop(t)
  t.match(await s.run(), { code: 2, err: /Missing directory: use 402index or satring/ })
  t.match(await s.run('402indx'), { code: 2, err: /Did you mean "402index"/ })
  writeFileSync(s.file, 'use: [ service, sandbox ]\nserver: { publicUrl: "http://127.0.0.1:8080" }\nroutes: []\n')
  t.match(await s.run('402index'), { code: 2, err: /server\.publicUrl/ })
  writeFileSync(s.file, 'use: [ service, sandbox ]\nserver: { publicUrl: "https://api.example.com" }\nroutes: []\n')
  t.match(await s.run('402index'), { code: 2, err: /Nothing to register/ })
})
