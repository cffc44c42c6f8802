/** Plan, sales, to-do list and messages of the merchant console. */
import t from 'tap'
import { sell } from '../../../selling/sales/fixture.ts'
import { startGateway } from '../../../support/gateway.ts'
import { openConsole } from '../session.ts'

async function setUp(t: Parameters<typeof startGateway>[0]) {
  const { gateway, visit, read } = await openConsole(t)
  return {
    gateway,
    page: async (path: string) => await read(`/console${path}`),
    send: (path: string, form: Record<string, string>) => visit(`/console${path}`, form)
  }
}

t.test('plan: the page shows prices, limits and what is used of them', async t => {
  const { gateway, page } = await setUp(t)
  await gateway.database.sql`update merchants set plan_tier = 'free'`
  await gateway.merchantSend('POST', '/api/proxy', {
    name: 'a',
    targetBaseUrl: 'https://api.example.com',
    defaultPriceSats: 1
  })
  t.same((await gateway.merchantSend('GET', '/api/merchant/usage')).json(), {
    endpoints: { used: 1, limit: 3 },
    challengesThisMonth: { used: 0, limit: 200 },
    webhookEndpoints: { used: 1, limit: 1 },
    maxPriceSats: 1000,
    ownLimits: {}
  })
  const text = await page('/plan')
  t.match(text, /\$49\.00 per month/)
  t.match(text, /Subscribe by card \(\$49\.00 per month\)/)
  for (const words of ['1 of 3', '0 of 200', '1,000 sats']) t.ok(text.includes(words), words)
  await gateway.database.sql`update merchants set plan_tier = 'l402', subscription_status = 'active'`
  const business = await page('/plan')
  t.match(business, /1 of unlimited/)
  t.match(business, /To change this plan, contact the operator/)
  t.notMatch(business, /Change plan/)
})

t.test('messages: a success does not stay above the next failure', async t => {
  const { page, send } = await setUp(t)
  t.match(await page('/members?done=sent'), /notice good[^>]*>Sent\./)
  const failed = await send('/members?done=sent', { do: 'invite', email: 'nonsense', role: 'viewer' })
  t.equal(failed.status, 422)
  t.match(failed.text, /notice bad/)
  t.notMatch(failed.text, /Sent\./)
})

t.test('to-do: each step links to the place where it is done', async t => {
  const { gateway, page } = await setUp(t)
  await gateway.database.sql`update merchants set primary_key = null, alternate_key = null`
  const text = await page('')
  for (const place of ['settings#provider', 'webhooks#where', 'till'])
    t.match(text, new RegExp(`href="[^"]*console/${place}"`))
  t.match(await page('/settings'), /id="provider"/)
  t.match(await page('/webhooks'), /id="where"/)
})

t.test('sales: filters are those of merchants, and an order of the store shows its number and state', async t => {
  const { gateway, page } = await setUp(t)
  const { database, merchant } = gateway
  const empty = await page('/sales')
  t.match(empty, /No sales yet/)
  t.match(empty, /listed until 30 days after their token expires/)
  t.notMatch(empty, /value="(route|ping|session|subscription)"/)
  const hash = await sell(database, Date.now() - 60_000, {
    merchantId: String(merchant.id),
    source: 'storefront',
    resource: '/api/storefront/demo/*',
    scheme: null
  })
  await gateway.merchantSend('GET', '/api/merchant/storefront')
  const at = new Date()
  await database.sql`
    insert into storefronts (merchant_id, slug, platform, storefront_domain, domestic_shipping_cents, domestic_only,
      free_shipping_enabled, list_in_registry, claim_window_days, is_active, created_at, updated_at)
    values (${merchant.id}, 'books', 'sandbox', 'books.example.com', 0, false, false, false, 30, true, ${at}, ${at})
    on conflict do nothing`
  await database.sql`
    insert into storefront_orders (id, storefront_id, merchant_id, payment_hash, status, items, country, state, zip, subtotal_cents,
      shipping_cents, tax_cents, total_cents, total_sats, claim_digest, claim_token, claim_expires_at, claimed_at,
      platform_order_id, order_number, created_at, paid_at)
    select 'ord_1', id, ${merchant.id}, ${hash}, 'Shipped', '[]', 'US', 'CA', '90210', 1, 0, 0, 1, 10, sha256('x'), 'x', ${at}, ${at},
      '1', '#1001 <b>', ${at}, ${at} from storefronts where merchant_id = ${merchant.id}`
  const shown = await page('/sales?source=storefront')
  t.match(shown, /Order #1001 &lt;b>/)
  t.match(shown, />shipped</)
  t.notMatch(shown.slice(shown.indexOf('<tbody')), /not used yet|api\/storefront/)
  t.match((await gateway.merchantSend('GET', '/api/merchant/sales')).json(), {
    sales: [{ orderNumber: '#1001 <b>', orderStatus: 'Shipped' }]
  })
  t.match(await page('/sales?text=nothing'), /No sales match these filters/)
})
