import t, { type Test as T } from 'tap'
import { startFakeOpenNode, type FakeOpenNode } from '../../fakes/opennode.ts'
import { startFakeStrike, type FakeStrike } from '../../fakes/strike.ts'
import { challengeOf, defaultYaml, startGateway, type TestGateway } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { signed } from './fixture.ts'

interface World {
  readonly gateway: TestGateway
  readonly strike: FakeStrike
  readonly opennode: FakeOpenNode
}

/** The default deployment, with Strike and OpenNode on loopback instead of the sandbox. */
async function world(t: T) {
  const strike = await startFakeStrike({ key: 'strike-key' })
  const opennode = await startFakeOpenNode({ key: 'opennode-key' })
  t.teardown(() => Promise.all([strike.close(), opennode.close()]))
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        ['primary:   { kind: sandbox }', `primary:   { kind: strike, key: strike-key, url: "${strike.url}" }`],
        ['alternate: { kind: sandbox }', `alternate: { kind: opennode, url: "${opennode.url}" }`]
      ]
    })
  })
  return { gateway, strike, opennode }
}

let orders = 0

async function pay({ gateway }: World) {
  const answer = await gateway.merchantSend('POST', '/api/payments', {
    orderId: `order-${++orders}`,
    amount: 0.0001,
    currency: 'BTC'
  })
  if (answer.status !== 201) throw new Error(`no payment: ${answer.status} ${answer.text}`)
  const { invoiceId, providerChargeId, lightningInvoice } = answer.json() as Record<string, string>
  return { invoiceId: invoiceId ?? '', chargeId: providerChargeId ?? '', invoice: lightningInvoice ?? '' }
}

const status = async ({ gateway }: World, invoiceId: string) =>
  ((await gateway.send('GET', `/api/payments/${invoiceId}/status`)).json() as { status: unknown }).status

const becomes = (made: World, invoiceId: string, wanted: string) =>
  eventually(`the payment is ${wanted}`, async () => ((await status(made, invoiceId)) === wanted ? true : null))

const posted = (chargeId: string) =>
  JSON.stringify({
    id: 'e',
    eventType: 'receive-request.receive-completed',
    webhookVersion: 'v1',
    data: { entityId: chargeId }
  })

void t.test('over a gateway with Strike in the primary slot and OpenNode in the alternate one', async t => {
  const made = await world(t)
  const { gateway, strike, opennode } = made
  await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: 'strike-key' })

  await t.test('Strike: the receiver is registered by the first payment, and a notification makes it paid', async t => {
    const { invoiceId, chargeId } = await pay(made)
    await eventually('it is registered', async () => strike.subscriptions[0] ?? null)
    t.equal(strike.subscriptions[0]?.webhookUrl, `${gateway.url}/api/webhooks/primary?account=${gateway.merchant.id}`)
    await pay(made)
    t.equal(strike.subscriptions.length, 1)
    strike.pay(chargeId)
    t.same(await strike.deliver(), [200])
    await becomes(made, invoiceId, 'paid')
    strike.announce('receive-request.receive-completed', chargeId)
    strike.announce('receive-request.receive-completed', 'of-another-application')
    strike.announce('receive-request.receive-pending', chargeId)
    t.same(await strike.deliver(), [200, 200, 200], 'replays, unknown ones and late ones')
    t.equal(await status(made, invoiceId), 'paid')
  })

  await t.test(
    "Strike: the operator's routes are paid into the same account; both receivers hear of everything, and neither refuses it",
    async t => {
      const response = await gateway.send('GET', '/demo/quote')
      t.equal(response.status, 402)
      await eventually("the operator's is registered", async () => strike.subscriptions[1] ?? null)
      t.equal(strike.subscriptions[1]?.webhookUrl, `${gateway.url}/api/webhooks/primary?account=operator`)
      const { chargeId, invoiceId } = await pay(made)
      strike.pay(chargeId)
      t.same(await strike.deliver(), [200, 200])
      await becomes(made, invoiceId, 'paid')
      const invoice = challengeOf(response, 'l402').parameters.get('invoice')
      const [row] = await gateway.database.sql<
        Array<{ charge_id: string }>
      >`select charge_id from challenges where invoice = ${invoice ?? ''}`
      strike.pay(row?.charge_id ?? '')
      t.same(await strike.deliver(), [200, 200])
      await eventually('the challenge is noted as settled', async () =>
        (
          await gateway.database
            .sql`select 1 from challenges where invoice = ${invoice ?? ''} and settled_at is not null`
        )[0] === undefined
          ? null
          : true
      )
    }
  )

  await t.test('Strike: forged ones are 401, unreadable ones 400, and the payment stays as it is', async t => {
    const { invoiceId, chargeId } = await pay(made)
    strike.account.receive(chargeId, 'LIGHTNING', 'COMPLETED')
    const body = posted(chargeId)
    for (const signature of [
      '',
      signed(body, 'strike-key'),
      signed(`${body} `, strike.subscriptions[0]?.secret ?? '')
    ]) {
      const answer = await gateway.send('POST', '/api/webhooks/primary', {
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        body
      })
      t.equal(answer.status, 401)
    }
    t.equal((await gateway.send('POST', '/api/webhooks/primary', { body: '<xml/>' })).status, 400)
    t.equal((await gateway.send('POST', '/api/webhooks/primary')).status, 400)
    t.equal(await status(made, invoiceId), 'unpaid')
  })

  await t.test('Strike: a look-up that fails is retried', async t => {
    const { invoiceId, chargeId } = await pay(made)
    strike.fail('server error', /receives$/)
    strike.pay(chargeId)
    t.same(await strike.deliver(), [200, 200], 'the notification itself is taken, at both receivers')
    await becomes(made, invoiceId, 'paid')
  })

  await t.test("OpenNode: signed with the merchant's key; forged ones are 401", async t => {
    await gateway.merchantSend('PUT', '/api/merchant/alternate-key', { alternateApiKey: 'opennode-key' })
    await gateway.merchantSend('PUT', '/api/merchant/payment-provider', { provider: 'alternate' })
    const { invoiceId, chargeId, invoice } = await pay(made)
    const charge = opennode.account.charge(chargeId)
    t.equal((await opennode.notifyForged(charge))?.status, 401)
    await opennode.pay(invoice)
    t.equal(opennode.notifications.at(-1)?.status, 200)
    await becomes(made, invoiceId, 'paid')
    t.equal((await opennode.notify(charge))?.status, 200, 'a replay')
  })
})

void t.test(
  '100 requests in a sliding minute of four segments reach the receivers from one address, both together',
  async t => {
    const clock = new ManualClock(Date.now())
    // The webhook policy as it comes.
    const gateway = await startGateway(t, {
      clock,
      log: silentLog,
      yaml: defaultYaml({ policies: '  global: { limit: 100000, window: 1m }' })
    })
    const post = async (count: number, slot = 'primary') => {
      const statuses: number[] = []
      for (let index = 0; index < count; index++)
        statuses.push((await gateway.send('POST', `/api/webhooks/${slot}`, { body: 'x' })).status)
      return statuses
    }
    const limited = (statuses: readonly number[]) => statuses.filter(one => one === 429).length
    t.equal(limited(await post(60)), 0)
    clock.advance(30_000)
    t.equal(limited(await post(45, 'alternate')), 5)
    clock.advance(30_000)
    t.equal(limited(await post(65)), 5, 'the first 60 have left the window, the 40 have not')
    for (const other of ['billing', 'storefront/shop'])
      t.equal(limited(await post(1, other)), 1, `Webhook | /api/webhooks/* receivers: ${other} too`)
  }
)
