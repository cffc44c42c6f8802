import t, { type Test as T } from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { startGateway } from '../../support/gateway.ts'
import { account, sell } from '../../selling/sales/fixture.ts'

async function opened(t: T, database: Database) {
  const gateway = await startGateway(t, { database })
  const get = async (path: string) => {
    const answer = await gateway.adminSend('GET', path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`)
    return answer.json()
  }
  return { gateway, send: gateway.adminSend, get }
}

await eachDatabase(t, 'the overview counts what there is and what needs review', async (t, database) => {
  const { get } = await opened(t, database)
  t.match(await get('/api/admin/overview'), {
    merchants: { total: 1, active: 1 },
    earned: { today: { sales: 0, sats: 0 }, thirtyDays: { sales: 0, sats: 0 } },
    waiting: { pendingSubscriptions: 0, lostRefunds: 0, openRefunds: 0, refusedOrders: 0 },
    lastDay: { failedWebhooks: 0, ambiguousLeases: 0 }
  })
  await account(database, 99)
  await sell(database, Date.now(), { merchantId: '99', amountSats: 7 })
  await database.sql`update merchants set is_active = false where id = 99`
  const [hourAgo, now] = [new Date(Date.now() - 3_600_000), new Date()]
  await database.sql`
    insert into refunds (refund_id, merchant_id, invoice_id, status, refund_type, refund_address, amount_sats, provider_slot,
      provider_kind, created_at, updated_at, next_check_at)
    values ('100000000000001', 99, '100000000000002', 'pending', 'chain', 'a', 1, 'primary', 'sandbox', ${hourAgo}, ${now}, ${now}),
      ('100000000000003', 99, '100000000000002', 'pending', 'chain', 'a', 1, 'primary', 'sandbox', ${now}, ${now}, ${now})`
  await database.sql`
    insert into webhook_deliveries (id, merchant_id, event, event_key, body, status, created_at)
    values (gen_random_uuid(), 99, 'payment.paid', 'a', '{}', 'failed', ${hourAgo}),
      (gen_random_uuid(), 99, 'payment.paid', 'b', '{}', 'failed', ${new Date(Date.now() - 48 * 3_600_000)})`
  t.match(await get('/api/admin/overview'), {
    merchants: { total: 2, active: 1 },
    earned: { today: { sales: 1, sats: 7 }, thirtyDays: { sales: 1, sats: 7 } },
    waiting: { lostRefunds: 1, openRefunds: 2 },
    lastDay: { failedWebhooks: 1 }
  })
  t.match(await get('/api/admin/providers'), [
    { slot: 'primary', kind: 'sandbox', hosts: [] },
    { slot: 'alternate', kind: 'sandbox' }
  ])
})

await eachDatabase(t, 'merchants are found by name, address, id, plan and state, page by page', async (t, database) => {
  const { get, send } = await opened(t, database)
  for (const id of [91, 92, 93]) await account(database, id)
  await database.sql`update merchants set name = '100% Wool_Socks', plan_tier = 'standard' where id = 92`
  await database.sql`update merchants set is_active = false, plan_tier = 'individual' where id = 93`
  const found = async (query: string) =>
    ((await get(`/api/admin/merchants?${query}`)) as Array<{ merchantId: number }>).map(({ merchantId }) => merchantId)
  t.same(await found('search=WOOL'), [92])
  t.same(await found('search=100%25'), [92])
  t.same(await found('search=l_s'), [92])
  t.same(await found('search=M91@EXAMPLE'), [91])
  t.same(await found('search=93'), [93])
  t.same(await found(`search=${encodeURIComponent("'; drop table merchants; --")}`), [])
  t.same(await found('isActive=false'), [93])
  t.same(await found('planTier=individual&search=example.com'), [93, 92], 'a retired spelling is its plan')
  t.ok((await found('planTier=free')).includes(91), 'none on file is the free plan')
  const page = await send('GET', '/api/admin/merchants?search=example.com&limit=1')
  t.equal(page.headers['x-total-count'], '3')
  const [, next = ''] = /<([^>]+)>; rel="next"/.exec(String(page.headers['link'])) ?? []
  t.same(next, '/api/admin/merchants?limit=1&after=93&search=example.com')
  t.match(await get(next), [{ merchantId: 92 }])
  const csv = await send('GET', '/api/admin/merchants?search=example.com&format=csv')
  t.match(csv.headers, { 'content-type': /^text\/csv/, 'content-disposition': 'attachment; filename="merchants.csv"' })
  const [head, ...rows] = csv.text.split('\r\n')
  t.equal(head, 'merchantId,name,email,planTier,subscriptionStatus,isActive,createdAt')
  t.same(
    rows.map(row => row.split(',')[0]),
    ['93', '92', '91', '']
  )
  t.match(rows[1], /^92,100% Wool_Socks,m92@example\.com,individual,/)
  const whole = await send('GET', '/api/admin/merchants?format=json')
  const [row = {}] = whole.json() as object[]
  t.same(head?.split(','), Object.keys(row), 'each member of a row is a column')
  t.ok(Array.isArray(whole.json()) && whole.headers['link'] === undefined, 'and JSON is whole without page parameters')
})

await eachDatabase(t, 'a CSV of merchants has those of all its pages', async (t, database) => {
  const { send } = await opened(t, database)
  await database.sql`
    insert into merchants (name, email, key_id, key_digest, key_created_at, created_at, updated_at)
    select 'm' || i, 'm' || i || '@example.com', 'k' || i, sha256(i::text::bytea), now(), now(), now()
    from generate_series(1, 1200) as i`
  const csv = await send('GET', '/api/admin/merchants?format=csv&search=example.com')
  t.equal(new Set(csv.text.trimEnd().split('\r\n')).size, 1_201)
  const list = await send('GET', '/api/admin/merchants?search=example.com')
  t.equal((list.json() as unknown[]).length, 1_200, 'as has the list without limit and after')
  t.equal(list.headers['link'], undefined)
})
