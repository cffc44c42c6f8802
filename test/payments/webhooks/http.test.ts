import t from 'tap'
import { isAuthentic, startReceiver } from '../../fakes/receiver.ts'
import { eventually } from '../../support/gateway-process.ts'
import { startGateway, type Answer } from '../../support/gateway.ts'

type Json = Record<string, unknown>
const LIST = '/api/merchant/webhooks/deliveries'

function json(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

await t.test('webhooks through the whole gateway, with the sandbox', async t => {
  const gateway = await startGateway(t)
  const endpoint = await startReceiver()
  t.teardown(() => endpoint.close())
  const secret = 'a secret that the merchant chose'
  const send = async (method: string, path: string, status: number, body?: object) =>
    json(await gateway.merchantSend(method, path, body), status)
  const deliveries = async () => (await send('GET', LIST, 200))['deliveries'] as Json[]
  const settled = async (id: unknown) =>
    await eventually(
      'it is delivered',
      async () => (await deliveries()).find(row => row['id'] === id && row['status'] === 'delivered') ?? null
    )

  await t.test('a payment that is paid: one signed webhook, and its history', async t => {
    const unheard = await send('POST', '/api/payments', 201, { orderId: 'before', amount: 0.00001, currency: 'BTC' })
    await gateway.pay(String(unheard['lightningInvoice']))
    await send('PUT', '/api/merchant/webhook-url', 200, { webhookUrl: `${endpoint.url}/hooks`, webhookSecret: secret })
    t.same(await deliveries(), [], 'nothing is sent of what was before')
    const payment = await send('POST', '/api/payments', 201, {
      orderId: 'order-1',
      amount: 0.00002,
      currency: 'BTC',
      metadata: { cart: '7' }
    })
    await gateway.pay(String(payment['lightningInvoice']))
    await endpoint.until(1)
    const [one] = endpoint.received
    t.ok(one !== undefined && isAuthentic(one, secret, Date.now()))
    const paid = await send('GET', `/api/payments/${String(payment['invoiceId'])}`, 200)
    t.equal(
      one?.text,
      `{"invoiceId":"${String(payment['invoiceId'])}","orderId":"order-1","status":"paid","amount":0.00002,"currency":"BTC","providerChargeId":"${String(payment['providerChargeId'])}","provider":"primary",` +
        `"paidAt":"${String(paid['paidAt'])}","metadata":"{\\"cart\\":\\"7\\"}"}`
    )
    const [row] = await deliveries()
    const sent = await send('GET', `${LIST}/${String(row?.['id'])}`, 200)
    t.equal(sent['body'], one?.text, 'the very bytes that were sent')
    t.match(await settled(row?.['id']), {
      event: 'payment.paid',
      invoiceId: payment['invoiceId'],
      attempts: 1,
      responseStatus: 200,
      url: `${endpoint.url}/hooks`
    })
    t.equal(one?.headers['x-correlation-id'], row?.['id'])

    await t.test('resend by hand', async t => {
      const answer = await gateway.merchantSend('POST', `${LIST}/${String(row?.['id'])}/resend`)
      t.match(json(answer, 202), { id: row?.['id'], status: 'pending' })
      await endpoint.until(2)
      t.equal(endpoint.received[1]?.text, one?.text)
      t.match(await settled(row?.['id']), { attempts: 2 })
      t.equal((await gateway.merchantSend('POST', `${LIST}/unknown/resend`)).status, 404)
      t.equal((await gateway.send('GET', LIST)).status, 401)
      t.equal((await gateway.merchantSend('GET', `${LIST}?status=lost`)).status, 400)
    })
  })

  await t.test('a test event, which no delivery lists', async t => {
    const [before, listed] = [endpoint.received.length, await deliveries()]
    const sent = await send('POST', '/api/merchant/webhooks/test', 200)
    t.match(sent, { isDelivered: true, url: `${endpoint.url}/hooks`, responseStatus: 200, error: null })
    const one = endpoint.received[before]
    t.ok(one !== undefined && isAuthentic(one, secret, Date.now()))
    t.match(JSON.parse(one?.text ?? ''), { event: 'webhook.test', id: sent['id'], merchantId: gateway.merchant.id })
    t.same(await deliveries(), listed)
    t.equal((await gateway.send('POST', '/api/merchant/webhooks/test')).status, 401)

    await t.test('by the button of the console, which shows what the endpoint said', async t => {
      const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' }
      const signedIn = await gateway.send('POST', '/sign-in/key', {
        headers,
        body: `key=${encodeURIComponent(gateway.merchant.apiKey)}`
      })
      const cookie = String(signedIn.headers['set-cookie']).split(';', 1)[0] ?? ''
      const page = await gateway.send('GET', '/console/webhooks', { headers: { cookie, 'sec-fetch-site': 'none' } })
      t.match(page.text, 'Send test event')
      endpoint.answer(() => ({ status: 401, body: 'bad <signature>' }))
      const shown = await gateway.send('POST', '/console/webhooks', {
        headers: { ...headers, cookie },
        body: 'do=test'
      })
      endpoint.answer(() => ({ status: 200 }))
      t.equal(shown.status, 200)
      t.match(shown.text, 'Test event failed')
      t.match(shown.text, 'The endpoint answered 401.')
      t.match(shown.text, 'bad &lt;signature>')
    })
  })

  await t.test('a refund of ours sends no webhook', async t => {
    await gateway.database.sql`update merchants set refunds_enabled = true where id = ${gateway.merchant.id}`
    const before = (await deliveries()).length
    const [row] = await deliveries()
    const other = await send('POST', '/api/payments', 201, { orderId: 'order-2', amount: 0.00002, currency: 'BTC' })
    const refund = await send('POST', '/api/refunds', 201, {
      invoiceId: row?.['invoiceId'],
      refundAddress: other['lightningInvoice'],
      refundType: 'ln',
      amountSatoshis: 2000
    })
    t.match(refund, { status: 'confirmed' })
    t.match(await send('GET', `/api/payments/${String(row?.['invoiceId'])}/status`, 200), { status: 'refunded' })
    const events = (await deliveries()).map(delivery => [delivery['event'], delivery['invoiceId']])
    t.same(
      events.slice(0, events.length - before),
      [['payment.paid', other['invoiceId']]],
      'only of the payment that it paid'
    )
    await endpoint.until(5)
  })

  await t.test('l402.challenge.paid at the first verification', async t => {
    await gateway.database.sql`update merchants set l402_enabled = true where id = ${gateway.merchant.id}`
    const made = await send('POST', '/api/l402/challenges', 200, { resource: '/reports/1', priceSats: 5 })
    const body = { macaroon: made['macaroon'], preimage: await gateway.pay(String(made['invoice'])) }
    const before = endpoint.received.length
    for (let time = 0; time < 2; time++)
      t.match(await send('POST', '/api/l402/challenges/verify', 200, body), { valid: true })
    await endpoint.until(before + 1)
    const one = endpoint.received[before]
    t.ok(one !== undefined && isAuthentic(one, secret, Date.now()))
    t.match(JSON.parse(one?.text ?? ''), {
      event: 'l402.challenge.paid',
      paymentHash: made['paymentHash'],
      resource: '/reports/1',
      amountSats: 5,
      merchantId: gateway.merchant.id,
      source: 'producer'
    })
    t.equal((await deliveries()).filter(row => row['event'] === 'l402.challenge.paid').length, 1)
  })
})
