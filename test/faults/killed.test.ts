import t, { type Test as T } from 'tap'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { buy, paidFor, use } from '../support/gateway.ts'
import { serversOnly, temporaryFolder } from '../support/database.ts'
import { eventually, freshPostgres, spawnGateway, type GatewayProcess } from '../support/gateway-process.ts'
import { RawClient } from '../support/raw-client.ts'
import { countingUpstream, shopYaml } from '../security/shop.ts'

const path = '/paid/item'

/** Where a killed gateway's rows are: its own folder, or a PostgreSQL that goes on without it. */
type Start = (yaml: string) => Promise<GatewayProcess>

/**
 * Runs a test over the embedded database, and over PostgreSQL where there is one; `start` may be called again after a
 * kill.
 */
async function onEach(name: string, run: (t: T, start: Start) => Promise<void>) {
  if (!serversOnly())
    await t.test(`${name} (embedded)`, async t => {
      const data = temporaryFolder(t)
      await run(t, yaml => spawnGateway(t, { yaml, data }))
    })
  await t.test(`${name} (PostgreSQL)`, async t => {
    const database = await freshPostgres(t)
    if (database === null) return
    const data = temporaryFolder(t)
    await run(t, yaml => spawnGateway(t, { yaml, data, env: { DATABASE_URL: database } }))
  })
}

async function kill(t: T, gateway: GatewayProcess) {
  gateway.kill('SIGKILL')
  t.same(await gateway.ended, { code: null, signal: 'SIGKILL' })
}

for (const stage of ['head', 'body'] as const)
  await onEach(
    `a gateway that is killed before the end of a ${stage}: the credential is good again after the lease's time, once`,
    async (t, start) => {
      const begun = Promise.withResolvers<void>()
      let answers = false
      const upstream = await countingUpstream(t, (_req, res) => {
        if (answers) res.end('sold')
        else if (stage === 'body') res.write('half')
        begun.resolve()
      })
      const yaml = shopYaml(upstream.origin, {
        replace: [['mode: development', 'payment: { leaseTimeout: 3s }\nmode: development']]
      })
      const first = await start(yaml)
      const authorization = await buy(first, path, 'payment')
      const client = await RawClient.connect(Number(new URL(first.url).port))
      t.teardown(() => {
        client.close()
      })
      client.send(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`)
      await begun.promise
      if (stage === 'body') await client.until('half')
      t.equal((await use(first, path, authorization)).status, 402, 'leased')
      const killed = Date.now()
      await kill(t, first)
      await client.ending()
      answers = true
      const second = await start(yaml)
      await eventually('the credential works again', async () => {
        const answer = await use(second, path, authorization)
        if (answer.status === 402)
          t.match(answer.json(), { detail: /being redeemed by another request/ }, 'until then it is in use, not spent')
        return answer.status === 200
      })
      t.ok(Date.now() - killed >= 1_000, 'not before')
      t.equal(upstream.hits.length, 2)
      t.equal((await use(second, path, authorization)).status, 402, 'and now it is spent')
      t.equal(upstream.hits.length, 2)
    }
  )

await onEach('what a gateway returned before it was killed, it knows afterwards', async (t, start) => {
  const upstream = await countingUpstream(t)
  const yaml = shopYaml(upstream.origin)
  const first = await start(yaml)
  const spent: string[] = []
  for (let index = 0; index < 5; index++) spent.push(await buy(first, path, 'payment'))
  for (const authorization of spent) t.equal((await use(first, path, authorization)).status, 200)
  const classic = await buy(first, path)
  t.equal((await use(first, path, classic)).status, 200)
  const offered = [await first.send('GET', path), await first.send('GET', '/demo/quote')]
  const produced = await first.merchantSend('POST', '/api/l402/challenges', { resource: '/reports/1', priceSats: 5 })
  t.equal(produced.status, 200, produced.text)
  const keyed = await first.send('POST', '/api/l402/challenges', {
    headers: { 'x-api-key': keyOf(first), 'idempotency-key': 'order-1' },
    body: { resource: '/reports/2', priceSats: 6 }
  })
  t.equal(keyed.status, 200, keyed.text)
  const proxy = (
    await first.merchantSend('POST', '/api/proxy', {
      name: 'Shop',
      targetBaseUrl: upstream.origin,
      defaultPriceSats: 5
    })
  ).json() as { proxyId: string }
  // The head goes out while its spend is being written: durable is what the database says is spent.
  for (const authorization of spent) {
    await eventually('a durable spend', async () => {
      const { detail } = (await use(first, path, authorization)).json() as { detail: string }
      return detail.includes('being redeemed') ? null : true
    })
  }
  await kill(t, first)
  const second = await start(yaml)
  const before = upstream.hits.length
  for (const authorization of spent) {
    const answer = await use(second, path, authorization)
    t.equal(answer.status, 402, 'spent stays spent')
    t.match(answer.json(), { type: /verification-failed$/, detail: /already redeemed/ })
  }
  t.equal(upstream.hits.length, before)
  t.equal((await use(second, path, classic)).status, 200, 'a classic token stays valid')
  for (const [index, answer] of offered.entries()) {
    const authorization = await paidFor(second, answer, 'payment')
    t.equal(
      (await second.send('GET', index === 0 ? path : '/demo/quote', { headers: { authorization } })).status,
      200,
      'a challenge that was sent can be paid and used'
    )
  }
  const again = await second.send('POST', '/api/l402/challenges', {
    headers: { 'x-api-key': keyOf(first), 'idempotency-key': 'order-1' },
    body: { resource: '/reports/2', priceSats: 6 }
  })
  t.same(again.json(), keyed.json(), 'the key still gives the same challenge')
  t.equal(again.headers['x-idempotency-replayed'], 'true')
  const conflict = await second.send('POST', '/api/l402/challenges', {
    headers: { 'x-api-key': keyOf(first), 'idempotency-key': 'order-1' },
    body: { resource: '/reports/2', priceSats: 7 }
  })
  t.equal(conflict.status, 409, 'and nothing else')
  const { macaroon, invoice } = produced.json() as { macaroon: string; invoice: string }
  const verdict = await second.merchantSend('POST', '/api/l402/challenges/verify', {
    macaroon,
    preimage: await second.pay(invoice)
  })
  t.match(verdict.json(), { valid: true }, 'a produced challenge can be paid and verified')
  t.equal((await second.send('GET', `/l402/proxy/${proxy.proxyId}/a`)).status, 402, 'a proxy that was made is there')
})

function keyOf(gateway: GatewayProcess) {
  return readKeys(gateway.data)?.merchant?.apiKey.reveal() ?? ''
}
