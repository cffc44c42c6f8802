import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openAnyDatabase, openTestDatabase, temporaryFolder } from '../support/database.ts'
import { buy, challengeOf, type TestGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { countingUpstream, openShop, shopYaml, type Shop } from '../security/shop.ts'

const MINUTE = 60_000

/** One of each kind, bought and not used yet. */
async function wallet(gateway: TestGateway, path: string) {
  const unpaid = challengeOf(await gateway.send('GET', path), 'payment')
  const preimage = await gateway.pay(unpaid.parameters.get('invoice') ?? '')
  return {
    token: await buy(gateway, path),
    modern: await buy(gateway, path, 'payment'),
    legacy: `Payment method="lightning", preimage="${preimage}"`
  }
}

// Connections of their own: clocks are moved past every idle limit.
const use = (shop: Shop, path: string, authorization: string, method = 'GET') =>
  shop.alone(method, path, { Authorization: authorization })

async function statuses(shop: Shop, path: string, credentials: Readonly<Record<string, string>>) {
  const found: Record<string, number> = {}
  for (const [name, credential] of Object.entries(credentials)) found[name] = (await use(shop, path, credential)).status
  return found
}

const SERVED = { token: 200, modern: 200, legacy: 200 }
const REFUSED = { token: 401, modern: 402, legacy: 402 }

for (const kind of ['route', 'proxy'] as const) {
  t.test(
    `priceGrace of a ${kind}: after a rise the old price for so long, after a fall always; without it the very price`,
    async t => {
      const clock = new ManualClock()
      const upstream = await countingUpstream(t)
      const yaml = (price: number, grace: string) =>
        shopYaml(upstream.origin, {
          price,
          replace: [
            [
              `    price: ${price} sats\n    chain: paid\n    upstream: { url`,
              `    price: ${price} sats\n    priceGrace: ${grace}\n    chain: paid\n    upstream: { url`
            ]
          ]
        })
      const shop = await openShop(t, { clock, upstream, yaml: yaml(7, '0s') })
      const { gateway } = shop
      const proxy = await shop.proxy({ defaultPriceSats: 7 })
      const path = kind === 'route' ? '/paid/a' : `${proxy.path}/a`
      const change = async (price: number, minutes: number) => {
        if (kind === 'route') return gateway.reload(yaml(price, `${minutes}m`))
        const answer = await shop.gateway.merchantSend('PUT', `/api/proxy/${proxy.id}`, {
          defaultPriceSats: price,
          priceGrace: minutes * 60
        })
        t.match({ status: answer.status, body: answer.json() }, { status: 200, body: { priceGrace: minutes * 60 } })
      }

      const first = await wallet(gateway, path)
      clock.advance(1000)
      await change(9, 0)
      t.same(await statuses(shop, path, first), REFUSED, 'the contract: must equal the current price')
      const classic = await use(shop, path, first.token)
      t.match(classic.json(), {
        error: 'Unauthorized',
        message: 'Invalid L402 credential',
        detail: 'Token price does not match the current price: 7 sats were paid, 9 are asked'
      })
      t.match((await use(shop, path, first.modern)).json(), {
        type: /payment-insufficient$/,
        detail: 'The challenge was made for 7 satoshis; the price is 9'
      })
      t.match((await use(shop, path, first.legacy)).json(), {
        error: 'Payment Required',
        detail: 'The challenge was made for 7 satoshis; the price is 9',
        l402: { amount_sats: 9 }
      })
      await change(6, 0)
      t.same(await statuses(shop, path, first), REFUSED, 'when it fell too')

      await change(9, 5)
      const old = await wallet(gateway, path)
      t.match((await gateway.send('GET', path)).json(), { l402: { amount_sats: 9 } })
      clock.advance(1000)
      await change(12, 5)
      clock.advance(5 * MINUTE - 1)
      t.same(
        await statuses(shop, path, { token: old.token, modern: old.modern }),
        { token: 200, modern: 200 },
        'at the price before'
      )
      t.match((await shop.alone('GET', path)).json(), { l402: { amount_sats: 12 } }, 'and sold at the price of now')
      clock.advance(1)
      t.equal((await use(shop, path, old.token)).status, 401, 'for so long, known or not')
      t.equal((await use(shop, path, old.legacy)).status, 402)

      const dear = await wallet(gateway, path)
      await change(5, 5)
      clock.advance(6 * MINUTE)
      t.same(await statuses(shop, path, dear), SERVED, 'a higher payment is always served')
      t.equal((await use(shop, path, dear.modern)).status, 402, 'a single use is one')
    }
  )
}

t.test(
  'the grace holds what was offered for the very request while it was: another path, method or time at that price buys nothing',
  async t => {
    const clock = new ManualClock()
    const shop = await openShop(t, { clock })
    const { gateway } = shop
    const mine = await shop.proxy({
      defaultPriceSats: 50,
      priceGrace: 600,
      endpoints: [
        { method: 'GET', pathPattern: '/a/*', priceSats: 5, tokenPath: 'pattern' },
        { method: 'POST', pathPattern: '/a/*', priceSats: 5 },
        { pathPattern: '/a/dear', priceSats: 80, method: 'GET' }
      ]
    })
    const path = `${mine.path}/a/x`
    const before = await buy(gateway, path)
    t.equal((await use(shop, `${mine.path}/a/dear`, before)).status, 401, 'never offered at that price')
    clock.advance(1000)
    const changed = await gateway.merchantSend('PUT', `/api/proxy/${mine.id}`, {
      endpoints: [
        { method: 'GET', pathPattern: '/a/*', priceSats: 5, tokenPath: 'pattern' },
        { method: 'POST', pathPattern: '/a/*', priceSats: 40 },
        { pathPattern: '/a/dear', priceSats: 90, method: 'GET' }
      ]
    })
    t.equal(changed.status, 200)
    t.equal((await use(shop, path, before, 'POST')).status, 200, 'what was issued while POST cost as much')
    t.equal((await use(shop, `${mine.path}/a/dear`, before)).status, 401)
    clock.advance(3 * MINUTE)
    // Until the client has seen that its idle connections were closed.
    await shop.alone('GET', '/health')
    const after = await buy(gateway, path)
    t.equal((await use(shop, path, after)).status, 200)
    t.equal((await use(shop, path, after, 'POST')).status, 401, 'bought for GET after POST became more expensive')
    t.equal((await use(shop, path, after, 'POST')).status, 401, 'known by now')
  }
)

t.test("a route's former price is known after a restart with another file, and to a second process", async t => {
  const clock = new ManualClock()
  const upstream = await countingUpstream(t)
  const database = await openAnyDatabase(t, { clock, migrations: [] })
  const data = temporaryFolder(t)
  const master = randomBytes(32).toString('hex')
  const open = (price: number) =>
    openShop(t, {
      clock,
      upstream,
      database,
      data,
      master,
      yaml: shopYaml(upstream.origin, {
        price,
        replace: [
          [
            `    price: ${price} sats\n    chain: paid\n    upstream: { url`,
            `    price: ${price} sats\n    priceGrace: 10m\n    chain: paid\n    upstream: { url`
          ]
        ]
      })
    })
  const first = await open(7)
  const [token, other] = [await buy(first.gateway, '/paid/a'), await buy(first.gateway, '/paid/a')]
  await first.gateway.close()
  clock.advance(20 * MINUTE)
  const second = await open(9)
  t.equal((await use(second, '/paid/a', token)).status, 200, 'the change came with the start')
  const worker = await open(9)
  t.equal((await use(worker, '/paid/a', other)).status, 200)
  await worker.gateway.close()
  clock.advance(9 * MINUTE)
  await second.gateway.close()
  const third = await open(9)
  t.equal((await use(third, '/paid/a', token)).status, 200, 'a start that changes nothing begins no new grace period')
  clock.advance(MINUTE)
  t.equal((await use(third, '/paid/a', token)).status, 401)
})

t.test('an unavailable database leaves the current price, and the former ones of this process', async t => {
  const clock = new ManualClock()
  const upstream = await countingUpstream(t)
  const database = await openTestDatabase(t, { migrations: [] })
  const grace = (price: number) =>
    shopYaml(upstream.origin, {
      price,
      replace: [
        [
          `    price: ${price} sats\n    chain: paid\n    upstream: { url`,
          `    price: ${price} sats\n    priceGrace: 10m\n    chain: paid\n    upstream: { url`
        ]
      ]
    })
  const shop = await openShop(t, { clock, upstream, database, yaml: grace(7) })
  const token = await buy(shop.gateway, '/paid/a')
  t.equal((await use(shop, '/paid/a', token)).status, 200)
  await database.sql`alter table offered_prices rename to offered_prices_away`
  await shop.gateway.reload(grace(8))
  t.equal((await use(shop, '/paid/a', token)).status, 200)
  await database.sql`alter table offered_prices_away rename to offered_prices`
  const written = async () =>
    (await database.sql`select 1 from offered_prices where price = '8' and place like '%/paid/%'`).length
  while ((await written()) === 0) clock.advance(30_000)
  t.pass('it is written when the database is there again')
})
