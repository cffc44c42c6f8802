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
    })
  })
})
