import t, { type Test as T } from 'tap'
import { isConnectionFault, type Database } from '../../src/platform/database/database.ts'
import { buy, challengeOf, type Answer, use } from '../support/gateway.ts'
import { openAt, onEmbedded, openTestDatabase } from '../support/database.ts'
import { eventually, freshPostgres, spawnGateway } from '../support/gateway-process.ts'
import { openShop, shopYaml, countingUpstream } from '../security/shop.ts'
import { flaky } from './flaky-database.ts'
import { behindGate } from './tcp-gate.ts'

/** A database, and how to stop and restore it. */
interface Taken {
  readonly database: Database
  readonly take: () => void
  readonly give: () => void
}

function unavailable(t: T, name: string, answer: Answer) {
  t.equal(answer.status, 503, `${name}: 503 (${answer.text})`)
  t.match(answer.headers['retry-after'], /^[1-9]\d*$/, `${name}: says when`)
  t.equal(answer.headers['www-authenticate'], undefined, `${name}: requires no payment`)
  t.match(answer.json(), { error: String, message: String }, `${name}: the long shape`)
  t.notMatch(answer.text, /ECONN|10\.1\.2\.3|127\.0\.0\.1|5432/, `${name}: reveals no internals`)
}

async function failsClosed(t: T, { database, take, give }: Taken) {
  const shop = await openShop(t, { database })
  const { gateway, upstream } = shop
  const path = '/paid/item'
  const proxy = await shop.proxy()
  const unseen = await shop.proxy()
  const known = await buy(gateway, path)
  const knownThere = await buy(gateway, `${proxy.path}/a`)
  t.equal((await use(gateway, path, known)).status, 200)
  t.equal((await use(gateway, `${proxy.path}/a`, knownThere)).status, 200)
  const unpaid = await gateway.send('GET', path)
  const preimage = await gateway.pay(challengeOf(unpaid, 'payment').parameters.get('invoice') ?? '')
  const legacy = `Payment method="lightning", preimage="${preimage}"`
  const unknown = await buy(gateway, path)
  const modern = await buy(gateway, path, 'payment')
  const ready = await gateway.send('GET', '/ready')
  t.equal(ready.status, 200)

  take()
  const before = upstream.hits.length
  unavailable(t, 'no credential', await gateway.send('GET', path))
  unavailable(t, 'no credential at a proxy', await gateway.send('GET', `${proxy.path}/a`))
  unavailable(t, 'a proxy that this process has not seen', await gateway.send('GET', `${unseen.path}/a`))
  unavailable(t, 'an L402 token that was never used', await use(gateway, path, unknown))
  unavailable(t, 'a Payment credential', await use(gateway, path, modern))
  unavailable(t, 'a legacy credential', await use(gateway, path, legacy))
  unavailable(t, 'a right API key', await gateway.merchantSend('GET', '/api/proxy'))
  unavailable(
    t,
    'a wrong API key',
    await gateway.send('GET', '/api/proxy', { headers: { 'x-api-key': gateway.merchant.apiKey.slice(0, -1) + 'x' } })
  )
  unavailable(
    t,
    'the sandbox',
    await gateway.send('POST', '/sandbox/pay', {
      body: { invoice: challengeOf(unpaid, 'l402').parameters.get('invoice') }
    })
  )
  t.equal(
    (await gateway.send('GET', path, { headers: { authorization: known.replace(/.{64}$/, '0'.repeat(64)) } })).status,
    401,
    'malformed bytes are refused without the database'
  )
  t.equal(upstream.hits.length, before, 'nothing reached the upstream')

  t.equal((await use(gateway, path, known)).status, 200, 'a known token is served')
  t.equal((await use(gateway, `${proxy.path}/a`, knownThere)).status, 200, 'at a proxy too')
  const health = await gateway.send('GET', '/health')
  t.equal(health.status, 503)
  t.match(health.json(), {
    status: 'Unhealthy',
    totalDuration: Number,
    checks: [{ name: 'database', status: 'Unhealthy', exception: /^The database /, tags: ['db', 'sql'] }]
  })
  t.notMatch(health.text, /10\.1\.2\.3|127\.0\.0\.1/, 'the report reveals no address')
  t.equal((await gateway.send('GET', '/ready')).status, 503)

  give()
  await eventually(
    'health after the database came back',
    async () => (await gateway.send('GET', '/health')).status === 200
  )
  t.equal((await gateway.send('GET', '/ready')).status, 200)
  t.equal((await gateway.send('GET', path)).status, 402, 'challenges are made again')
  t.equal((await gateway.send('GET', `${unseen.path}/a`)).status, 402, 'the proxy is found')
  t.equal((await gateway.merchantSend('GET', '/api/proxy')).status, 200)
  for (const [name, authorization] of [
    ['the L402 token', unknown],
    ['the Payment credential', modern],
    ['the legacy credential', legacy]
  ] as const) {
    await eventually(`${name} works: nothing was used up`, async () => {
      const answer = await use(gateway, path, authorization)
      // A lease whose answer was lost is given back in the background.
      return answer.status === 200
    })
    t.pass(`${name} was not used up`)
  }
}

void onEmbedded(t, 'while the embedded database fails, nothing is sold, nothing used up, and no 402 sent', async t => {
  const database = flaky(await openTestDatabase(t))
  await failsClosed(t, {
    database,
    take: () => {
      database.away = true
    },
    give: () => {
      database.away = false
    }
  })
  t.ok(database.refused > 5)
})

/** PostgreSQL that can be stopped; null where there is none. */
async function postgresBehindGate(t: T) {
  const url = await freshPostgres(t)
  return url === null ? null : await behindGate(t, url)
}

t.test('while PostgreSQL is down, nothing is sold, nothing used up, and no 402 sent', async t => {
  const way = await postgresBehindGate(t)
  if (way === null) return
  const database = await openAt(t, way.url)
  await failsClosed(t, { database, take: way.gate.cut, give: way.gate.open })
})

t.test(
  'when all connections to PostgreSQL are lost together, statements fail soon, not after a back-off of many seconds',
  async t => {
    const way = await postgresBehindGate(t)
    if (way === null) return
    const { gate } = way
    const database = await openAt(t, way.url, { connections: 10 })
    await Promise.all(Array.from({ length: 40 }, () => database.sql`select pg_sleep(0.05)`))
    gate.cut()
    // Ours is a twentieth of a second; the client's own back-off would be twenty.
    const late = Symbol('late')
    for (let attempt = 0; attempt < 20; attempt++) {
      const outcome = await Promise.race([
        database.sql`select 1`.catch((error: unknown) => error),
        new Promise(resolve => {
          setTimeout(resolve, 8_000, late)
        })
      ])
      t.ok(isConnectionFault(outcome), `statement ${attempt} fails soon`)
      if (outcome === late) break
    }
    gate.open()
    t.same(
      await Promise.race([
        database.sql`select 1 as one`.catch((error: unknown) => error),
        new Promise(resolve => {
          setTimeout(resolve, 8_000, late)
        })
      ]),
      [{ one: 1 }],
      'and work again as soon as it is back'
    )
  }
)

t.test('a gateway that starts while PostgreSQL is down listens, answers 503, and serves once it is up', async t => {
  const way = await postgresBehindGate(t)
  if (way === null) return
  way.gate.cut()
  const upstream = await countingUpstream(t)
  const gateway = await spawnGateway(t, {
    yaml: shopYaml(upstream.origin),
    env: { DATABASE_URL: way.url },
    until: 'listening without a database'
  })
  unavailable(t, 'a challenge', await gateway.send('GET', '/paid/item'))
  unavailable(
    t,
    'a key',
    await gateway.send('GET', '/api/proxy', {
      headers: { 'x-api-key': 'bg_aaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' }
    })
  )
  t.equal((await gateway.send('GET', '/health')).status, 503)
  t.equal((await gateway.send('GET', '/ready')).status, 503)
  way.gate.open()
  await eventually('ready', async () => (await gateway.send('GET', '/ready')).status === 200)
  const authorization = await buy(gateway, '/paid/item', 'payment')
  t.equal((await use(gateway, '/paid/item', authorization)).status, 200)
  t.equal((await gateway.merchantSend('GET', '/api/proxy')).status, 200, 'the first merchant was made')
})

t.test(
  'while PostgreSQL is silent, requests are refused in bounded time, none is stuck, and it recovers afterwards',
  async t => {
    const way = await postgresBehindGate(t)
    if (way === null) return
    const database = await openAt(t, way.url, { connections: 4, silence: 4_000 })
    const { gateway, upstream } = await openShop(t, { database })
    const known = await buy(gateway, '/paid/item')
    const unused = await buy(gateway, '/paid/item', 'payment')
    t.equal((await use(gateway, '/paid/item', known)).status, 200)
    const before = upstream.hits.length
    way.gate.stall()
    const begun = Date.now()
    const late = new Promise<null>(resolve => {
      setTimeout(resolve, 60_000, null).unref()
    })
    // More than there are connections, so that most never reach one.
    const pending = [
      ...Array.from({ length: 40 }, () => gateway.send('GET', '/paid/item')),
      use(gateway, '/paid/item', unused),
      gateway.merchantSend('GET', '/api/proxy'),
      gateway.merchantSend('POST', '/api/l402/challenges', { resource: '/r', priceSats: 1 })
    ]
    const health = gateway.send('GET', '/health')
    t.equal((await use(gateway, '/paid/item', known)).status, 200, 'a known token is served meanwhile')
    const answers = await Promise.race([Promise.all(pending), late])
    t.ok(answers !== null, `all were answered, after ${Date.now() - begun} ms`)
    for (const answer of answers ?? []) {
      t.equal(answer.status, 503, answer.text)
      t.match(answer.headers['retry-after'], /^[1-9]\d*$/)
    }
    const answer = await health
    t.equal(answer.status, 503)
    t.match(
      answer.json(),
      { checks: [{ name: 'database', status: 'Unhealthy', exception: /did not answer within 3000 ms/ }] },
      'health waits for three seconds, not for the silence to end'
    )
    t.equal(upstream.hits.length, before + 1)
    way.gate.open()
    await eventually('health', async () => (await gateway.send('GET', '/health')).status === 200)
    await eventually(
      'the credential works: nothing was used up',
      async () => (await use(gateway, '/paid/item', unused)).status === 200
    )
    t.equal((await use(gateway, '/paid/item', unused)).status, 402)
  }
)

t.test(
  'PostgreSQL may be slow where it was said so, and a statement that takes too long ends as a fault of the database',
  async t => {
    const way = await postgresBehindGate(t)
    if (way === null) return
    const database = await openAt(t, way.url, { silence: 2_000 })
    const fault = await database.sql`select pg_sleep(30)`.catch((error: unknown) => error)
    t.ok(isConnectionFault(fault), String(fault))
    const done = await database.transaction(
      async tx => {
        await tx`set local statement_timeout = 0`
        return await tx<{ slept: string }[]>`select pg_sleep(4)::text as slept`
      },
      { slow: true }
    )
    t.equal(done.length, 1, 'a slow transaction is waited for')
    const rows = await Promise.all(
      Array.from(
        { length: 60 },
        (_, index) => database.sql<{ n: number; text: string }[]>`select ${index}::int as n, repeat('x', 20000) as text`
      )
    )
    t.same(
      rows.map(([row]) => row?.n),
      Array.from({ length: 60 }, (_, index) => index),
      'concurrent callers get their own answers'
    )
    await new Promise(resolve => {
      setTimeout(resolve, 4_000)
    })
    t.same(await database.sql`select 1 as one`, [{ one: 1 }], 'an idle connection is not ended for its silence')
  }
)
