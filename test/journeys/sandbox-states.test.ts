import { createHmac } from 'node:crypto'
import t from 'tap'
import { startReceiver } from '../fakes/receiver.ts'
import { startGateway } from '../support/gateway.ts'

interface Made {
  readonly invoiceId: string
  readonly lightningInvoice: string
  readonly payUrl: string
  readonly providerChargeId: string
}

const ADMIN = 'an-admin-key-of-the-operator-0123456789'
const FAILING = 'bcrt1qwdskuerzdauzqun9ve6kuepqveskjmrn0wlvnf'

t.test('an integrator sees in the sandbox how failed payments end, each with its webhook', async t => {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  const gateway = await startGateway(t, { env: { BOLTGATE_ADMIN_KEY: ADMIN } })
  t.equal((await gateway.merchantSend('PUT', '/api/merchant/webhook-url', { webhookUrl: receiver.url })).status, 200)
  let orders = 0
  const create = async (amount = 0.0001) => {
    const answer = await gateway.merchantSend('POST', '/api/payments', {
      orderId: `order-${++orders}`,
      amount,
      currency: 'BTC'
    })
    t.equal(answer.status, 201, answer.text)
    return answer.json() as Made
  }
  const bring = (body: object) => gateway.send('POST', '/sandbox/state', { body })
  let notified = 0
  const webhook = async () => {
    await receiver.until(++notified)
    return JSON.parse(receiver.received[notified - 1]?.text ?? '')
  }

  await t.test('on its way, in part, then whole', async t => {
    const { invoiceId, lightningInvoice: invoice } = await create()
    t.match((await bring({ invoice, state: 'processing' })).json(), {
      state: 'processing',
      receivedSats: 0,
      amountSats: 10_000
    })
    t.match(await webhook(), { invoiceId, status: 'processing' })
    t.match((await bring({ invoice, state: 'underpaid', receivedSats: 4_000 })).json(), {
      state: 'underpaid',
      receivedSats: 4_000
    })
    t.match(await webhook(), { invoiceId, status: 'underpaid' })
    t.match((await gateway.merchantSend('GET', `/api/payments/${invoiceId}`)).json(), { status: 'underpaid' })
    for (const state of ['processing', 'expired'])
      t.equal((await bring({ invoice, state })).status, 409, `what came in part is not ${state} again`)
    t.equal((await bring({ invoice, state: 'underpaid', receivedSats: 4_000 })).status, 409)
    t.equal((await bring({ invoice, state: 'underpaid', receivedSats: 10_000 })).status, 400, 'all of it is no part')
    await gateway.pay(invoice)
    t.match(await webhook(), { invoiceId, status: /^paid$/ })
    t.equal((await bring({ invoice, state: 'underpaid' })).status, 409, 'paid stays paid')
  })

  await t.test('expired: it cannot be paid any more', async t => {
    const { invoiceId, lightningInvoice: invoice } = await create()
    t.equal((await bring({ invoice, state: 'expired' })).status, 200)
    t.match(await webhook(), { invoiceId, status: 'expired' })
    t.equal((await gateway.send('POST', '/sandbox/pay', { body: { invoice } })).status, 400)
    t.equal((await bring({ invoice, state: 'processing' })).status, 409)
  })

  await t.test('a challenge that is brought into a state is not sold', async t => {
    const { l402 } = (await gateway.send('GET', '/demo/quote')).json() as { l402: { invoice: string } }
    t.equal((await bring({ invoice: l402.invoice, state: 'underpaid' })).status, 200)
    t.equal((await gateway.send('GET', '/demo/quote')).status, 402)
  })

  await t.test('roles, and refusals', async t => {
    const { lightningInvoice: invoice } = await create()
    const relayed = { 'x-forwarded-for': '203.0.113.9' }
    const body = { invoice, state: 'underpaid' }
    t.equal((await gateway.send('POST', '/sandbox/state', { headers: relayed, body })).status, 403)
    t.equal(
      (await gateway.send('POST', '/sandbox/state', { headers: { ...relayed, 'x-api-key': 'wrong' }, body })).status,
      401
    )
    t.equal((await bring({ invoice: 'lnbcrt1nonsense', state: 'expired' })).status, 400)
    t.equal((await bring({ invoice, state: 'paid' })).status, 400)
    t.equal((await bring({ invoice, state: 'expired', receivedSats: 5 })).status, 400)
    t.match(
      (await gateway.send('POST', '/sandbox/state', { headers: { ...relayed, 'x-api-key': ADMIN }, body })).json(),
      { receivedSats: 5_000 },
      'half of it unless said'
    )
    t.match(await webhook(), { status: 'underpaid' })
  })

  await t.test('the button of the pay page pays without a program, for any user on this machine', async t => {
    const { invoiceId, payUrl } = await create()
    const path = new URL(payUrl).pathname
    const page = await gateway.send('GET', path)
    const [, action = ''] = /<form class="form" method="post" action="([^"]+)">/.exec(page.text) ?? []
    t.match(page.headers['content-security-policy'], /form-action 'self'/)
    const other = await gateway.send('GET', path, { headers: { 'x-forwarded-for': '203.0.113.9' } })
    t.notMatch(other.text, 'method="post"', 'others see the command alone')
    t.match(other.headers['content-security-policy'], /form-action 'none'/)
    const address = new URL(action, payUrl).href
    t.equal((await gateway.send('POST', address, { headers: { 'x-forwarded-for': '203.0.113.9' } })).status, 403)
    const answer = await gateway.send('POST', address, {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: ''
    })
    t.equal(answer.status, 303)
    t.equal(new URL(String(answer.headers['location']), address).href, payUrl)
    t.match(await webhook(), { invoiceId, status: /^paid$/ })
    t.equal((await gateway.send('POST', address)).status, 303, 'pressed again it changes nothing')
    t.notMatch((await gateway.send('GET', path)).text, 'method="post"')
  })

  await t.test('a refund to the address that fails is taken, fails, and frees its amount', async t => {
    const { invoiceId, lightningInvoice: invoice } = await create()
    await gateway.pay(invoice)
    t.match(await webhook(), { invoiceId, status: /^paid$/ })
    await gateway.send('PUT', `/api/admin/merchants/${gateway.merchant.id}`, {
      headers: { 'x-api-key': ADMIN },
      body: { features: { refundsEnabled: true } }
    })
    const created = await gateway.merchantSend('POST', '/api/refunds', {
      invoiceId,
      refundAddress: FAILING,
      amountSatoshis: 10_000
    })
    t.equal(created.status, 201, created.text)
    const { refundId } = created.json() as { refundId: string }
    await gateway.database.sql`update sandbox_payouts set confirms_at = created_at where reference = ${refundId}`
    t.match((await gateway.merchantSend('POST', `/api/refunds/${refundId}/sync`)).json(), {
      status: 'failed',
      transactionHash: null
    })
    t.equal(
      (
        await gateway.merchantSend('POST', '/api/refunds', {
          invoiceId,
          refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
          amountSatoshis: 10_000
        })
      ).status,
      201
    )
  })

  await t.test('the receivers answer with the sandbox as with a provider (decision 163)', async t => {
    const { providerChargeId } = await create()
    for (const slot of ['primary', 'alternate']) {
      const send = (body: string, headers: Readonly<Record<string, string>> = {}) =>
        gateway.send('POST', `/api/webhooks/${slot}`, { headers, body })
      for (const body of ['', 'nonsense', '[]', '{}', '{"chargeId":7}'])
        t.equal((await send(body)).status, 400, `${slot}: ${body} is unreadable`)
      t.match(
        await send('{"chargeId":"sbx_unknown"}'),
        { status: 200, text: '{"received":true}' },
        `${slot}: nothing is known of it`
      )
    }
    const body = JSON.stringify({ chargeId: providerChargeId })
    const sign = (key: string) => ({
      'x-sandbox-signature': createHmac('sha256', key).update(body).digest('hex')
    })
    t.equal((await gateway.send('POST', '/api/webhooks/primary', { headers: sign('another-key'), body })).status, 401)
    t.equal((await gateway.send('POST', '/api/webhooks/primary', { body })).status, 401)
    await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: 'sandbox-key-of-a-test' })
    t.match(await gateway.send('POST', '/api/webhooks/primary', { headers: sign('sandbox-key-of-a-test'), body }), {
      status: 200,
      text: '{"received":true}'
    })
  })
})
