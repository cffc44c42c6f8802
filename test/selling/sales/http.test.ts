import t, { type Test as T } from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { startGateway } from '../../support/gateway.ts'
import { account, sell } from './fixture.ts'

interface Page {
  readonly sales: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly next: string | null
}

// Of now: sums are kept for what was sold some minutes ago.
const NOON = Date.now() - 1_000
const iso = (at: number) => new Date(at).toISOString()

async function opened(t: T, database: Database) {
  const gateway = await startGateway(t, { database })
  const get = async <A = Page>(path: string, key = gateway.merchant.apiKey) => {
    const answer = await gateway.send('GET', path, { headers: { 'x-api-key': key } })
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`)
    // The test says what it asks for.
    return answer.json() as A
  }
  return { gateway, get, mine: String(gateway.merchant.id) }
}

await eachDatabase(
  t,
  'sales of proxies, challenges and routes are listed, each merchant’s its own',
  async (t, database) => {
    const { gateway, get, mine } = await opened(t, database)
    await account(database, 99)
    const weather = { source: 'proxy', merchantId: mine, proxyId: 'weather-1' } as const
    const first = await sell(database, NOON, { ...weather, resource: '/weather', amountSats: 3, price: 'USD 0.002' })
    const second = await sell(database, NOON + 1, { ...weather, scheme: 'payment' })
    const third = await sell(database, NOON + 2, {
      source: 'storefront',
      merchantId: mine,
      scheme: null,
      description: '=1+1'
    })
    await sell(database, NOON + 3, { ...weather, merchantId: '99' })
    await sell(database, NOON + 4, { resource: '/own' })
    await database.sql`
    insert into balances (id, kind, merchant_id, place, unit, deposited_msat, opened_at, expires_at)
    values (${second}, 'bundle', ${mine}, 'proxy:weather-1', 'request', 10000, ${new Date(NOON)}, ${new Date(NOON)})`
    await database.sql`insert into balance_deposits (payment_hash, balance_id, msat, made_at) values (${second}, ${second}, 10000, ${new Date(NOON)})`

    const { sales, next } = await get('/api/merchant/sales')
    t.equal(next, null)
    t.same(
      sales.map(({ paymentHash }) => paymentHash),
      [third, second, first],
      'newest first'
    )
    t.match(sales[0], { source: 'storefront', scheme: null, state: 'settled', proxyId: null })
    t.match(sales[1], { source: 'bundle', scheme: 'payment', state: 'spent', proxyId: 'weather-1', isRevoked: false })
    t.same(sales[2], {
      soldAt: iso(NOON),
      source: 'proxy',
      resource: '/weather',
      description: 'd',
      proxyId: 'weather-1',
      scheme: 'l402',
      sats: 3,
      price: 'USD 0.002',
      state: 'paid',
      isRevoked: false,
      paymentHash: first,
      orderNumber: null,
      orderStatus: null
    })
    const found = async (query: string) =>
      (await get(`/api/merchant/sales?${query}`)).sales.map(({ paymentHash }) => paymentHash)
    t.same(await found('source=bundle'), [second])
    t.same(await found('scheme=l402'), [first])
    t.same(await found('state=settled'), [third])
    t.same(await found('proxyId=weather-1'), [second, first])
    t.same(await found('text=WEATHER'), [first])
    t.same(await found(`text=${third}`), [third])
    t.same(await found(`from=${iso(NOON + 1)}&to=${iso(NOON + 2)}`), [second])
    t.same(await found(`limit=1&after=${NOON + 2}-${third}`), [second])
    await gateway.merchantSend('DELETE', `/api/merchant/tokens/${first}`)
    t.match((await get(`/api/merchant/sales?scheme=l402`)).sales[0], { paymentHash: first, isRevoked: true })
    await gateway.merchantSend('DELETE', `/api/merchant/tokens`)
    t.ok(
      (await get('/api/merchant/sales')).sales.every(({ isRevoked }) => isRevoked),
      'all that was issued until now'
    )

    const all = await get('/api/admin/sales', gateway.adminKey)
    t.same(
      all.sales.map(({ merchantId }) => merchantId),
      [null, 99, Number(mine), Number(mine), Number(mine)]
    )
    t.equal((await get('/api/admin/sales?own=true', gateway.adminKey)).sales.length, 1)
    t.equal((await get('/api/admin/sales?merchantId=99', gateway.adminKey)).sales.length, 1)
    const csv = await gateway.send('GET', '/api/merchant/sales', {
      headers: { 'x-api-key': gateway.merchant.apiKey, accept: 'text/csv' }
    })
    t.match(csv.text, `${iso(NOON + 2)},storefront,/a,"'=1+1",,,10,,settled,`)
    t.equal(csv.text.split('\r\n').length, 5)

    const days = (key: string, query = '') =>
      get<{ sats: number; points: Array<Record<string, unknown>> }>(
        `/api/${key === gateway.adminKey ? 'admin' : 'merchant'}/earnings?by=day${query}`,
        key
      )
    const earned = await gateway.merchantSend('GET', '/api/merchant/earnings?by=day&format=csv')
    t.match(earned.headers['content-type'], /^text\/csv/, 'as a link requests it')
    t.match(earned.text, /,storefront,/)
    t.match(await days(gateway.merchant.apiKey), { sats: 23, sales: 3, by: 'day', of: 'source' })
    t.match(await days(gateway.adminKey, '&of=merchant'), { sats: 43, sales: 5 })
    t.match(await days(gateway.adminKey, '&own=true&of=endpoint'), { sats: 10, points: [{ key: '/own', sats: 10 }] })
    t.match(await days(gateway.adminKey, '&merchantId=99'), { sats: 10 })
    for (const query of ['of=merchant&own=true', 'of=endpoint', 'own=true&merchantId=1', 'by=year', 'from=x'])
      t.equal((await gateway.adminSend('GET', `/api/admin/earnings?${query}`)).status, 400, query)
  }
)
