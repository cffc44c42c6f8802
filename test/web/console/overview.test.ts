import t from 'tap'
import { TrafficStore } from '../../../src/accounts/traffic/store.ts'
import { Gateway } from '../../../src/engine/pipeline/gateway.ts'
import { sell } from '../../selling/sales/fixture.ts'
import { startGateway, type TestGateway } from '../../support/gateway.ts'
import { asPerson, makeApi, makePayment, openConsole, sessionOf } from './session.ts'
import { nothingMeasured } from '../../../src/accounts/traffic/measured.ts'

/** A section of the overview by its heading's id, as words; null where it is not there. */
async function words(gateway: TestGateway, cookie: string, id: string) {
  const { text, status } = await asPerson(gateway, cookie, '/console')
  if (status !== 200) throw new Error(text)
  const [, section] = new RegExp(`<section[^>]*aria-labelledby="${id}">(.*?)</section>`, 's').exec(text) ?? []
  return section === undefined ? null : section.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')
}

async function measured(gateway: TestGateway, proxyId: string, counts: object) {
  const at = Date.now()
  await new TrafficStore(gateway.database).write({
    process: { id: 'p', pid: 1, host: 'h', generation: 1, startedAt: at, seenAt: at, written: 1, lostMinutes: 0 },
    rows: [],
    proxies: [{ at: Math.floor(at / 3_600_000) * 3_600_000, route: proxyId, ...nothingMeasured(), ...counts }],
    faults: []
  })
}

const proxy = (gateway: TestGateway) => makeApi(gateway, { name: 'Weather <i>' })

const payment = async (gateway: TestGateway, orderId: string) =>
  (await makePayment(gateway, { orderId, amount: 5, currency: 'USD' })).invoiceId

t.test('the overview shows the conversion of 402 responses', async t => {
  const { gateway, cookie } = await openConsole(t)
  t.equal(await words(gateway, cookie, 'asked'), null, 'not before a 402 was sent')
  const proxyId = await proxy(gateway)
  await measured(gateway, proxyId, { requests: 1_300, asked: 1_200, paidRequests: 90 })
  const merchantId = String(gateway.merchant.id)
  for (let nth = 0; nth < 3; nth++)
    await sell(gateway.database, Date.now() - 1_000, { source: 'proxy', merchantId, proxyId })
  await sell(gateway.database, Date.now() - 1_000, { source: 'producer', merchantId })
  const said = await words(gateway, cookie, 'asked')
  t.match(said, /402 responses 1,200 Last 30 days/)
  t.match(said, /Paid 3 0% conversion/, 'what no 402 of an API sold is left out')
})

t.test('an account without trouble has no to-dos', async t => {
  const { gateway, cookie } = await openConsole(t)
  t.match(await words(gateway, cookie, 'next'), /Set a webhook URL/)
  await gateway.merchantSend('PUT', '/api/merchant/webhook-url', { webhookUrl: 'https://shop.example.com/' })
  const invoiceId = await payment(gateway, 'one')
  await gateway.database.sql`
    update payments set status = 'paid', received_sats = amount_sats, paid_at = now() where invoice_id = ${invoiceId}`
  t.equal(await words(gateway, cookie, 'next'), null)
})

t.test('the overview shows what is wrong, and how to fix it', async t => {
  const gateway = await startGateway(t)
  const { sql } = gateway.database
  const { id } = gateway.merchant
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const proxyId = await proxy(gateway)
  await measured(gateway, proxyId, { requests: 150, asked: 50, paidRequests: 100, upstreamFailures: 25 })
  const short = await payment(gateway, 'half <b>')
  await sql`update payments set status = 'underpaid', received_sats = 7 where invoice_id = ${short}`
  const refund = async (reference: string, invoiceId: string, status: string, minutes: number) =>
    await sql`
    insert into refunds (refund_id, merchant_id, invoice_id, status, refund_type, refund_address, amount_sats, provider_slot,
      provider_kind, created_at, updated_at, next_check_at)
    values (${reference}, ${id}, ${invoiceId}, ${status}, 'chain', 'bcrt1', 40, 'primary', 'sandbox',
      now() - ${minutes} * interval '1 minute', now(), now() + interval '1 year')`
  const [failed, again, slow, fresh] = [
    await payment(gateway, 'a'),
    await payment(gateway, 'b'),
    await payment(gateway, 'c'),
    await payment(gateway, 'd')
  ]
  await refund('111111111111111', failed, 'failed', 20)
  await refund('111111111111112', again, 'failed', 30)
  await refund('111111111111113', again, 'confirmed', 10)
  await refund('111111111111114', slow, 'pending', 90)
  await refund('111111111111115', fresh, 'pending', 1)
  await refund('111111111111116', 'ord_4f1c2a9b8d7e6f50', 'failed', 25)
  await sql`
    insert into webhook_deliveries (id, merchant_id, event, event_key, body, status, attempts, error, created_at)
    values (gen_random_uuid(), ${id}, 'payment.paid', 'one', '{}', 'failed', 8, 'connection refused', now())`
  const { text } = await asPerson(gateway, cookie, '/console')
  const said = (await words(gateway, cookie, 'next')) ?? ''
  t.match(said, /A refund of 40 sats failed \. No money was sent/)
  t.equal(said.split('A refund of').length - 1, 3, 'not what was sent again since, nor what was just sent')
  t.match(said, /A refund of 40 sats has been unconfirmed for over an hour/)
  t.match(said, /Order half &lt;b> was underpaid : 7 sats received/)
  t.match(said, /1 webhook failed in the last week ; the last one: connection refused/)
  t.match(said, /Weather &lt;i> failed on 25 of 100 requests in the last 24 hours \(25%\)/)
  for (const way of [
    'plan',
    `payments/${failed}`,
    `payments/${slow}`,
    'store',
    `payments/${short}`,
    'webhooks?status=failed',
    `apis/${proxyId}`
  ])
    t.ok(text.includes(`console/${way}"`) || text.includes(`"${way}"`), way)
  t.notMatch(text, 'payments/ord_', 'a refund of a store has no payment of its own')
  await sql`update merchants set plan_tier = 'l402', subscription_status = 'past_due' where id = ${id}`
  const gated = (await words(gateway, cookie, 'next')) ?? ''
  t.match(gated, /The last payment for your plan failed. Pay now/)
  t.match(gated, /failed on 25 of 100/, 'what the plan closes is no reason for the page to fail')
  await sql`update merchants set subscription_status = 'canceled' where id = ${id}`
  t.match(await words(gateway, cookie, 'next'), /Your plan is unpaid/)
})

t.test('new sales and payments appear while the overview and the lists are open', async t => {
  const gateway = await startGateway(t)
  const pages = [
    ['/console', ['sold-list', 'paid-list'], gateway.merchant.apiKey],
    ['/console/sales', ['list'], gateway.merchant.apiKey],
    ['/operator/sales', ['list'], gateway.adminKey]
  ] as const
  for (const [path, ids, key] of pages) {
    const { text } = await asPerson(gateway, await sessionOf(gateway, key), path)
    t.same(
      [...text.matchAll(/<div id="([^"]+)" data-live/g)].map(([, id]) => id),
      ids,
      path
    )
  }
})

t.test('a refresh requests the live parts alone, and gets 304 when they are unchanged', async t => {
  const { gateway, cookie } = await openConsole(t)
  const ask = t.captureFn(Gateway.prototype.ask)
  t.intercept(Gateway.prototype, 'ask', { value: ask })
  const renew = async (headers: Readonly<Record<string, string>>) =>
    await gateway.send('GET', '/console', { headers: { cookie, 'sec-fetch-site': 'same-origin', ...headers } })
  const first = await renew({ 'x-live-parts': '1' })
  t.same(
    ask
      .args()
      .map(([{ path }]) => path)
      .sort(),
    ['/api/merchant/sales', '/api/payments']
  )
  t.match(first.text, /id="sold-list" data-live/)
  t.match(first.text, /id="paid-list" data-live/)
  t.notMatch(first.text, /<html|id="earned"/)
  const etag = String(first.headers['etag'])
  t.match(await renew({ 'x-live-parts': '1', 'if-none-match': etag }), { status: 304, text: '' })
  await payment(gateway, 'new')
  const changed = await renew({ 'x-live-parts': '1', 'if-none-match': etag })
  t.match(changed, { status: 200, text: /new/ })
  t.not(changed.headers['etag'], etag)
  t.match((await renew({ 'if-none-match': etag })).text, /<html/, 'a page that is opened is whole')
})
