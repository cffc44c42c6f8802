/** Test mode: a test account beside a live one, and the wall between them. */
import { createServer } from 'node:http'
import t, { type Test as T } from 'tap'
import { ManualClock } from '../support/manual-clock.ts'
import { openAnyDatabase } from '../support/database.ts'
import { startGateway, type TestGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { serve } from '../support/serve.ts'
import { asPerson, sessionOf } from '../web/console/session.ts'
import { json, openShopFront, type Json } from './shop-front.ts'
import { strikeTill } from './tills.ts'

type Ask = (method: string, path: string, body?: object) => ReturnType<TestGateway['send']>

const asKey =
  (gateway: TestGateway, key: string): Ask =>
  (method, path, body) =>
    gateway.send(method, path, { headers: { 'x-api-key': key }, ...(body === undefined ? {} : { body }) })

/** The test account's key and calls. */
async function testAccount(gateway: TestGateway) {
  const made = json(await gateway.merchantSend('POST', '/api/merchant/test-account'), 201)
  const again = json(await gateway.merchantSend('POST', '/api/merchant/test-account'), 200)
  if (again['apiKey'] !== null) throw new Error('the key is shown again')
  const key = String(made['apiKey'])
  return { key, ask: asKey(gateway, key) }
}

const ORDER = { amount: 0.0001, currency: 'BTC', customerName: 'T' }

async function pays(t: T, ask: Ask, payment: Json): Promise<void> {
  const paid = await ask('POST', '/sandbox/pay', { invoice: payment['lightningInvoice'] })
  t.equal(paid.status, 200, paid.text)
  await eventually('it is paid', async () => {
    const found = json(await ask('GET', `/api/payments/${String(payment['invoiceId'])}`), 200)
    return found['status'] === 'paid' ? found : null
  })
}

void t.test('test mode: payments of the test key are the sandbox’s, and each side sees its own alone', async t => {
  const clock = new ManualClock(Date.now())
  const till = await strikeTill(t, clock)
  const front = await openShopFront(t, till, clock)
  const { gateway } = front
  const admin = asKey(gateway, gateway.adminKey)
  const live = await front.order({ orderId: 'same' })
  const charges = till.charges()
  const { key, ask } = await testAccount(gateway)
  json(await ask('PUT', '/api/merchant/webhook-url', { webhookUrl: `${front.receiver.url}/test` }), 200)
  const test = json(await ask('POST', '/api/payments', { ...ORDER, orderId: 'same' }), 201)
  t.equal(till.charges(), charges, 'the provider of the live account makes no invoice')
  t.match(test, { isTest: true, lightningInvoice: /^lnbcrt/ })
  t.notOk('isTest' in live)

  await t.test('neither key reads, pays, cancels or refunds what is of the other', async t => {
    for (const [other, id] of [
      [ask, live['invoiceId']],
      [asKey(gateway, gateway.merchant.apiKey), test['invoiceId']]
    ] as const) {
      t.equal((await other('GET', `/api/payments/${String(id)}`)).status, 404)
      t.equal((await other('POST', `/api/payments/${String(id)}/sync`)).status, 404)
      t.notMatch((await other('GET', '/api/payments')).text, new RegExp(String(id)))
      const refund = { invoiceId: id, refundAddress: `bcrt1q${'0'.repeat(40)}`, amountSatoshis: 1, refundType: 'chain' }
      t.match([400, 403], [400, 403].includes((await other('POST', '/api/refunds', refund)).status) ? [400, 403] : [])
    }
    const paid = await ask('POST', '/sandbox/pay', { invoice: live['lightningInvoice'] })
    t.equal(paid.status, 404, 'the sandbox pays no invoice of a provider')
  })

  await t.test('test payments are marked, and no sum, list or mail of the live side has them', async t => {
    await pays(t, ask, test)
    const [webhook] = await eventually('the webhook has arrived', async () => {
      const found = front.webhooksOf(test['invoiceId'])
      return found.length > 0 ? found : null
    })
    t.match(JSON.parse(webhook?.text ?? ''), { isTest: true, status: 'paid' })
    t.equal(webhook?.path, '/test')
    const sums = (json(await admin('GET', '/api/admin/overview'), 200) as { earned: { today: { sats: number } } })
      .earned
    t.equal(sums.today.sats, 0)
    t.notMatch((await gateway.merchantSend('GET', '/api/payments?format=csv')).text, /,T,/)
    t.equal(((await admin('GET', '/api/admin/merchants')).json() as unknown[]).length, 1)
    const refund = json(
      await ask('POST', '/api/refunds', {
        invoiceId: test['invoiceId'],
        refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
        amountSatoshis: 1000,
        refundType: 'chain'
      }),
      201
    )
    t.equal(till.payouts(), 0)
    t.notMatch((await admin('GET', '/api/admin/refunds?view=open')).text, new RegExp(String(refund['refundId'])))
    const metrics = await admin('GET', '/metrics')
    t.notMatch(metrics.text, /boltgate_payments_total\{[^}]*source="payment"/)
  })

  await t.test('operations that cost money are refused', async t => {
    for (const [method, path, body] of [
      ['PUT', '/api/merchant/primary-key', { primaryApiKey: till.key }],
      ['PUT', '/api/merchant/payment-provider', { provider: 'alternate' }],
      ['POST', '/api/merchant/members', { email: 'a@example.com', role: 'owner' }],
      ['POST', '/api/bitcoin/create-subscription', { plan: 'individual', email: 'a@example.com', name: 'A' }],
      ['POST', '/api/merchant/storefront', {}]
    ] as const) {
      const refused = await ask(method, path, body)
      t.equal(refused.status, 403, `${path} ${refused.text}`)
      t.match(refused.text, /test account/)
    }
    t.equal((await admin('GET', `/api/admin/merchants/-${gateway.merchant.id}`)).status, 404)
  })

  await t.test(
    'an API of the test account is sold for the sandbox’s payment, and its token buys no live one',
    async t => {
      const port = await serve(
        t,
        createServer((_request, response) => void response.end('ok'))
      )
      const api = { name: 'Api', targetBaseUrl: `http://127.0.0.1:${port}`, defaultPriceSats: 5 }
      const mine = json(await ask('POST', '/api/proxy', api), 201)
      const theirs = json(await gateway.merchantSend('POST', '/api/proxy', api), 201)
      const answer = await gateway.send('GET', `/l402/proxy/${String(mine['proxyId'])}/a`)
      t.equal(answer.status, 402, answer.text)
      const line = String(answer.headers['www-authenticate'])
      const [, macaroon = '', invoice = ''] =
        /L402 (?:version="0", )?(?:token|macaroon)="([^"]+)".*?invoice="([^"]+)"/.exec(line) ?? []
      const { preimage } = json(await ask('POST', '/sandbox/pay', { invoice }), 200)
      const headers = { authorization: `L402 ${macaroon}:${String(preimage)}` }
      t.equal((await gateway.send('GET', `/l402/proxy/${String(mine['proxyId'])}/a`, { headers })).status, 200)
      const other = await gateway.send('GET', `/l402/proxy/${String(theirs['proxyId'])}/a`, { headers })
      t.ok([401, 402, 403].includes(other.status), String(other.status))
      t.equal(
        (json(await admin('GET', '/api/admin/overview'), 200) as { earned: { today: { sats: number } } }).earned.today
          .sats,
        0
      )
      t.notMatch((await admin('GET', '/api/admin/sales')).text, /proxy\//)
    }
  )

  await t.test('the console shows it with the switch on, marked, and the live data with the switch off', async t => {
    const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
    const page = async (path: string, form?: Readonly<Record<string, string>>) =>
      await asPerson(gateway, cookie, path, form)
    const first = await page('/console/payments')
    t.notMatch(first.text, /you see test data/)
    t.notMatch(first.text, new RegExp(String(test['invoiceId'])))
    const form = /name="form" value="([^"]+)"/.exec(first.text)?.[1] ?? ''
    t.equal((await page('/sign-in/test-mode', { form: 'x', test: 'on' })).status, 403)
    t.equal((await page('/sign-in/test-mode', { form, test: 'on' })).status, 303)
    const shown = await page('/console/payments')
    t.match(shown.text, /you see test data/)
    t.match(shown.text, new RegExp(String(test['invoiceId'])))
    t.notMatch(shown.text, new RegExp(String(live['invoiceId'])))
    t.notMatch(shown.text, /console\/plan"/)
    t.equal((await page('/sign-in/test-mode', { form, test: 'off' })).status, 303)
    t.match((await page('/console/payments')).text, new RegExp(String(live['invoiceId'])))
    // A session of the test key has no way to the live data.
    const other = await sessionOf(gateway, key)
    const mine = await asPerson(gateway, other, '/console/payments')
    const own = /name="form" value="([^"]+)"/.exec(mine.text)?.[1] ?? ''
    for (const to of ['on', 'off']) {
      await asPerson(gateway, other, '/sign-in/test-mode', { form: own, test: to })
      t.notMatch((await asPerson(gateway, other, '/console/payments')).text, new RegExp(String(live['invoiceId'])))
    }
  })

  await t.test('a deactivated account has no test account either', async t => {
    t.equal((await admin('POST', `/api/admin/merchants/${gateway.merchant.id}/deactivate`)).status, 204)
    t.equal((await ask('GET', '/api/payments')).status, 401)
    t.equal((await admin('POST', `/api/admin/merchants/${gateway.merchant.id}/reactivate`)).status, 204)
    t.equal((await ask('GET', '/api/payments')).status, 200)
  })
})

void t.test('test mode: in production the sandbox pays for test keys and on their pay pages alone', async t => {
  const gateway = await startGateway(t, {
    yaml: [
      'mode: production',
      'server: { listen: "127.0.0.1:0", publicUrl: "https://pay.example.com" }',
      `secrets: { master: ${'0123456789abcdef'.repeat(2)}, adminKey: ${'a'.repeat(40)} }`,
      'database: { url: "postgres://u:p@127.0.0.1/none" }',
      'lightning: { primary: { kind: strike } }',
      'use: [ service, merchant-api, operator-api, pages ]',
      'routes: [ { match: { path: /* }, chain: public, upstream: { internal: api } } ]',
      ''
    ].join('\n'),
    database: await openAnyDatabase(t)
  })
  const admin = asKey(gateway, gateway.adminKey)
  const account = json(await admin('POST', '/api/admin/merchants', { name: 'Live', email: 'live@example.com' }), 201)
  const live = asKey(gateway, String(account['apiKey']))
  const made = json(await live('POST', '/api/merchant/test-account'), 201)
  const test = asKey(gateway, String(made['apiKey']))
  t.equal((await live('POST', '/api/payments', { ...ORDER, orderId: 'a' })).status, 400, 'no provider key')
  json(await live('PUT', '/api/merchant/primary-key', { primaryApiKey: 'sandbox-0123456789' }), 200)
  t.not((await live('POST', '/api/payments', { ...ORDER, orderId: 'a' })).status, 201, 'a sandbox key makes no sandbox')
  const payment = json(await test('POST', '/api/payments', { ...ORDER, orderId: 'a' }), 201)
  const invoice = payment['lightningInvoice']
  for (const other of [live, admin]) t.equal((await other('POST', '/sandbox/pay', { invoice })).status, 403)
  t.equal((await gateway.send('POST', '/sandbox/pay', { body: { invoice } })).status, 403)
  await pays(t, test, payment)
  const second = json(await test('POST', '/api/payments', { ...ORDER, orderId: 'b' }), 201)
  const path = new URL(String(second['payUrl'])).pathname
  t.match((await gateway.send('GET', path)).text, /Sandbox: no real money.*Pay in sandbox/s)
  t.equal(
    (await gateway.send('POST', `${path}/sandbox`, { headers: { 'x-forwarded-for': '203.0.113.1' } })).status,
    303
  )
  await eventually('it is paid', async () =>
    json(await test('GET', `/api/payments/${String(second['invoiceId'])}`), 200)['status'] === 'paid' ? true : null
  )
})
