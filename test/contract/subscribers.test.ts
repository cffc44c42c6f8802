/** The plugin api-key in a whole gateway: subscribers pass, others pay. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { Agent } from 'undici'
import { certificateFiles } from '../engine/listener/support.ts'
import { selfSigned } from '../fakes/certificate.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { temporaryFolder } from '../support/database.ts'
import { buy, defaultYaml, sender, startGateway } from '../support/gateway.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { serve } from '../support/serve.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

const KEY = 'sk_0123456789abcdef0123456789abcdef'
const SHA256 = createHash('sha256').update(KEY).digest('hex')

t.test('subscribers pass without a payment, everybody else gets a 402, and no key reaches the upstream', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          `chains:
  subscribed: [ { api-key: { keys: [ { name: alice, sha256: "${SHA256}" } ] } }, { throttle: { policy: few } }, body-limit, session, credential, challenge, meter ]
`
        ],
        ['policies:\n', 'policies:\n  few: { limit: 5, window: 60s }\n'],
        [
          'routes:\n',
          `routes:
  - { match: { path: /sold/* }, price: 21 sats, chain: subscribed, upstream: { url: "${upstream.origin}" } }
  - { match: { path: /balance/* }, chain: subscribed, keys: true, meter: { unit: call, bundle: 100 sats, prices: 1000 msat }, upstream: { url: "${upstream.origin}" } }
`
        ]
      ]
    })
  })
  const subscriber = { authorization: `Bearer ${KEY}` }
  for (const path of ['/sold/a', '/balance/a']) {
    t.equal((await gateway.send('GET', path, { headers: subscriber })).status, 200, path)
    t.notMatch(upstream.requests.at(-1)?.head, /authorization/i)
    const served = upstream.requests.length
    t.equal((await gateway.send('GET', path, { headers: { authorization: `Bearer ${KEY}x` } })).status, 401)
    t.equal((await gateway.send('GET', path)).status, 402)
    t.equal(upstream.requests.length, served)
  }
  const authorization = await buy(gateway, '/sold/b')
  t.equal((await gateway.send('GET', '/sold/b', { headers: { authorization } })).status, 200)
  for (let turn = 0; turn < 3; turn++)
    t.equal((await gateway.send('GET', '/sold/a', { headers: subscriber })).status, 200)
  t.equal((await gateway.send('GET', '/sold/a', { headers: subscriber })).status, 429, 'counted by the subscriber')
})

t.test('the meter of a route counts what a subscriber used, and charges nothing', async t => {
  const json = JSON.stringify({ usage: { prompt_tokens: 30, completion_tokens: 20 } })
  const events = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })}\n\ndata: [DONE]\n\n`
  const upstream = createServer((request, response) => {
    request.resume().on('end', () => {
      const isStream = request.url === '/v1/stream'
      response.writeHead(request.url === '/v1/bad' ? 400 : 200, {
        'content-type': isStream ? 'text/event-stream' : 'application/json'
      })
      response.end(isStream ? events : json)
    })
  })
  const url = `http://127.0.0.1:${await serve(t, upstream)}`
  const logged: object[] = []
  const log = { ...silentLog, info: (fields: object | string) => logged.push(Object(fields)) }
  const gateway = await startGateway(t, {
    log,
    yaml: defaultYaml({
      replace: [
        [
          'chains:\n',
          `chains:
  subscribed: [ access-log, { api-key: { keys: [ { name: alice, sha256: "${SHA256}" } ] } }, throttle, body-limit, credential, challenge, meter ]
`
        ],
        [
          'routes:\n',
          `routes:
  - match: { path: /v1/* }
    chain: subscribed
    meter: { unit: token, bundle: 1 sat, prices: { by: { json: model }, of: { small: 1 msat }, else: refuse }, usage: openai, estimate: { else: 9 } }
    upstream: { url: "${url}" }
`
        ]
      ]
    })
  })
  const ask = (path: string) =>
    gateway.send('POST', path, {
      headers: { authorization: `Bearer ${KEY}` },
      body: { model: 'unlisted', max_tokens: 9999 }
    })
  const whole = await ask('/v1/whole')
  t.equal(whole.status, 200, 'neither refused by price nor by the size of a bundle')
  t.equal(whole.text, json)
  t.equal(whole.headers['x-charged-msat'], undefined)
  t.equal((await ask('/v1/stream')).text, events, 'as it came')
  t.equal((await ask('/v1/bad')).status, 400)
  const { text } = await gateway.adminSend('GET', '/metrics')
  t.match(text, 'boltgate_api_key_units_total{key="alice",part="input"} 33')
  t.match(text, 'boltgate_api_key_units_total{key="alice",part="output"} 22')
  t.match(logged, [
    { principal: 'subscriber:alice', units: { input: 30, output: 20 } },
    { units: { input: 3, output: 2 } },
    { status: 400, units: undefined }
  ])
  const { total } = (await gateway.adminSend('GET', '/api/admin/sales?sum=true')).json() as { total: { count: number } }
  t.equal(total.count, 0)
})

t.test(
  'a valid client certificate is a subscriber, an invalid one is refused, and without one the client pays',
  async t => {
    const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
    t.teardown(() => upstream.close())
    const clock = new ManualClock(Date.now())
    const ca = selfSigned({ names: [], commonName: 'ca' })
    const clientCa = join(temporaryFolder(t), 'ca.pem')
    writeFileSync(clientCa, ca.certificate)
    const server = certificateFiles(['localhost'])
    const logged: object[] = []
    const tls = `tls: [ { cert: "${server.cert}", key: "${server.key}" } ]`
    const yaml = (names: string, more: string) =>
      defaultYaml({
        replace: [
          ['server:\n', `server:\n  ${tls}\n${more}`],
          [
            'chains:\n',
            `chains:
  subscribed: [ access-log, { api-key: { certificates: { ${names} }, keys: [ { name: alice, sha256: "${SHA256}" } ] } }, { throttle: { policy: few } }, body-limit, session, credential, challenge ]
`
          ],
          ['policies:\n', 'policies:\n  few: { limit: 3, window: 60s }\n'],
          [
            'routes:\n',
            `routes:\n  - { match: { path: /sold/* }, price: 21 sats, chain: subscribed, upstream: { url: "${upstream.origin}" } }\n`
          ]
        ]
      })
    const gateway = await startGateway(t, {
      yaml: yaml('names: [ acme, late ]', `  clientCa: "${clientCa}"\n  http2: true\n`),
      clock,
      log: { ...silentLog, info: (fields: object | string) => logged.push(Object(fields)) }
    })
    const client = (options: Partial<Parameters<typeof selfSigned>[0]> | null, allowH2 = false) => {
      const made = options === null ? null : selfSigned({ names: [], issuer: ca, ...options })
      const presented = made === null ? {} : { cert: made.certificate, key: made.key }
      const agent = new Agent({ allowH2, connect: { rejectUnauthorized: false, ...presented } })
      t.teardown(() => agent.destroy())
      return sender(gateway.url.replace('http:', 'https:'), agent)
    }
    const [valid, bare] = [client({ commonName: 'acme' }), client(null)]
    const refused = async (send: typeof valid, why: string) => {
      const { status, text } = await send('GET', '/sold/a')
      t.equal(status, 401, why)
      t.match(text, why)
    }
    t.equal((await valid('GET', '/sold/a')).text, 'ok')
    t.equal((await client({ commonName: 'acme' }, true)('GET', '/sold/a')).status, 200)
    t.equal((await bare('GET', '/sold/a')).status, 402)
    t.equal((await bare('GET', '/sold/a', { headers: { 'x-client-cert': 'CN=acme' } })).status, 402)
    await refused(
      client({ commonName: 'acme', issuer: selfSigned({ names: [], commonName: 'b' }) }),
      'unable to verify'
    )
    await refused(client({ commonName: 'acme', until: Date.now() - 1000 }), 'cert has expired')
    await refused(client({ commonName: 'other' }), 'its name is not allowed')
    const paying = { authorization: `L402 ${'a'.repeat(40)}:${'0'.repeat(64)}` }
    t.equal((await valid('GET', '/sold/a', { headers: paying })).status, 400)
    const bearer = { authorization: `Bearer ${KEY}` }
    t.equal(
      (await client({ commonName: 'other' })('GET', '/sold/a', { headers: bearer })).status,
      200,
      'a key goes first'
    )
    t.equal((await valid('GET', '/sold/a')).status, 200)
    t.equal((await valid('GET', '/sold/a')).status, 429, 'counted by the certificate')
    t.ok(logged.some(line => 'principal' in line && line.principal === 'subscriber:cert:acme'))
    const { text } = await bare('GET', '/metrics', { headers: { 'x-api-key': gateway.adminKey } })
    t.match(text, 'boltgate_api_key_requests_total{key="cert:acme"} 4')
    t.match(text, 'boltgate_api_key_requests_total{key="none"} 3')
    const until = Date.now() + 30_000
    const late = client({ commonName: 'late', until })
    t.equal((await late('GET', '/sold/a')).status, 200)
    clock.advance(until - clock.now() + 1000)
    await refused(late, 'cert has expired')
    t.equal(upstream.requests.length, 5)
    await t.rejects(startGateway(t, { yaml: yaml('names: acme', '') }), /certificates without server\.clientCa/)
    const plain = `server: { listen: "127.0.0.1:0", clientCa: "${clientCa}" }`
    await t.rejects(startGateway(t, { yaml: plain }), /server\.clientCa: found without certificates in tls/)
  }
)

t.test('a chain in which the key comes too late does not load', async t => {
  const yaml = defaultYaml({
    replace: [
      [
        'chains:\n',
        `chains:\n  late: [ { throttle: {} }, body-limit, credential, challenge, { api-key: { keys: [ { name: a, sha256: "${SHA256}" } ] } } ]\n`
      ],
      [
        'routes:\n',
        'routes:\n  - { match: { path: /late }, price: 1 sat, chain: late, upstream: { url: "http://127.0.0.1:9" } }\n'
      ]
    ]
  })
  await t.rejects(startGateway(t, { yaml }), /api-key/)
})
