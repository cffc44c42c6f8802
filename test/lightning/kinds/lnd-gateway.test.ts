import t from 'tap'
import { encodeInvoice } from '../../../src/lightning/codecs/bolt11-encode.ts'
import { startFakeLnd } from '../../fakes/lnd.ts'
import { openTestDatabase } from '../../support/database.ts'
import { challengeOf, credentialOf, defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'

type Json = Readonly<Record<string, unknown>>

function json(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

t.test("a payment's life at an lnd node, through the gateway", async t => {
  const clock = new ManualClock()
  const node = await startFakeLnd({ clock })
  t.teardown(() => node.close())
  const gateway = await startGateway(t, {
    clock,
    database: await openTestDatabase(t, { clock }),
    yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: lnd, key: "${LND_KEY}" }']] }),
    env: { LND_KEY: node.key(['invoices:read', 'invoices:write']) }
  })
  const saveKey = async (key: string) =>
    json(await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: key }), 200)
  const create = async (orderId: string) =>
    await gateway.merchantSend('POST', '/api/payments', { orderId, amount: '0.00001', currency: 'BTC' })
  const sync = async (invoiceId: unknown) =>
    json(await gateway.merchantSend('POST', `/api/payments/${String(invoiceId)}/sync`), 200)
  await t.test(
    'the first merchant has no key of the sandbox, which the node would refuse at every payment',
    async t => {
      t.match((await gateway.merchantSend('GET', '/api/merchant/me')).text, /"hasPaymentProviderKey":false/)
      t.equal((await create('too early')).status, 400)
    }
  )

  await saveKey(node.key())

  await t.test("an operator's route is opened by the node's preimage", async t => {
    const challenge = challengeOf(await gateway.send('GET', '/demo/quote'), 'l402')
    const [held] = [...node.wallet.invoices.values()].filter(
      ({ invoice }) => invoice === challenge.parameters.get('invoice')
    )
    const preimage = node.wallet.settle(held?.paymentHash ?? '')
    t.equal(
      (await gateway.send('GET', '/demo/quote', { headers: { authorization: credentialOf(challenge, preimage) } }))
        .status,
      200
    )
  })

  await t.test('created, paid, refunded with the answer lost, and looked up without paying twice', async t => {
    const payment = json(await create('one'), 201)
    t.match(payment, { status: 'unpaid', providerChargeId: payment['paymentHash'], hostedCheckoutUrl: '' })
    node.wallet.settle(String(payment['paymentHash']))
    t.match(await sync(payment['invoiceId']), { status: /^paid$/ })
    const refundAddress = encodeInvoice(
      {
        network: 'regtest',
        amountMsat: 1_000_000n,
        paymentHash: 'cd'.repeat(32),
        paymentSecret: '11'.repeat(32),
        timestamp: clock.now() / 1000,
        expirySeconds: 600,
        description: 'refund'
      },
      Buffer.alloc(32, 3)
    )
    node.fail('lost after', /send$/)
    const refund = json(
      await gateway.merchantSend('POST', '/api/refunds', {
        invoiceId: payment['invoiceId'],
        refundAddress,
        refundType: 'ln',
        amountSatoshis: 1000
      }),
      201
    )
    t.match(refund, { status: 'pending', feeSatoshis: 0 })
    t.match(json(await gateway.merchantSend('POST', `/api/refunds/${String(refund['refundId'])}/sync`), 200), {
      status: 'confirmed',
      feeSatoshis: 2,
      providerRefundId: 'cd'.repeat(32)
    })
    t.equal(node.requests.filter(({ path }) => path === '/v2/router/send').length, 1)
  })

  await t.test('primary key validation names the missing permission', async t => {
    t.match(json(await gateway.merchantSend('POST', '/api/merchant/validate-primary'), 200), { isValid: true })
    await saveKey(node.key(['info:read', 'invoices:read']))
    t.match(json(await gateway.merchantSend('POST', '/api/merchant/validate-primary'), 200), {
      isValid: false,
      message: /invoices:write/
    })
    const refused = await create('two')
    t.match(json(refused, 502), { error: 'Payment provider error', message: /invoices:write/ })
    await saveKey(node.key())
  })

  await t.test('a node in trouble is a 503 with Retry-After, and no 402', async t => {
    node.fail('locked')
    const locked = await create('three')
    t.match(json(locked, 503), { error: 'Payment provider unavailable' })
    t.equal(locked.headers['retry-after'], '30')
    node.fail('server error')
    const unpriced = await gateway.send('GET', '/demo/quote')
    t.equal(unpriced.status, 503)
    t.match(unpriced.headers['retry-after'], /^\d+$/)
    t.equal((await create('three')).status, 201, 'the order is free again')
  })
})
