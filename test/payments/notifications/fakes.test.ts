import t from 'tap'
import { startFakeStrike } from '../../fakes/strike.ts'
import { challengeOf, defaultYaml, startGateway } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'

void t.test(
  "Strike: the operator's routes are paid into a merchant's account; both receivers hear of everything, and neither refuses it",
  async t => {
    const strike = await startFakeStrike({ key: 'strike-key' })
    t.teardown(() => strike.close())
    const gateway = await startGateway(t, {
      yaml: defaultYaml({
        replace: [
          ['primary:   { kind: sandbox }', `primary:   { kind: strike, key: strike-key, url: "${strike.url}" }`]
        ]
      })
    })
    await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: 'strike-key' })
    const response = await gateway.send('GET', '/demo/quote')
    t.equal(response.status, 402)
    await eventually("the operator's is registered", async () => strike.subscriptions[0] ?? null)
    t.equal(strike.subscriptions[0]?.webhookUrl, `${gateway.url}/api/webhooks/primary?account=operator`)
    const payment = await gateway.merchantSend('POST', '/api/payments', {
      orderId: 'o',
      amount: 0.0001,
      currency: 'BTC'
    })
    const { invoiceId = '', providerChargeId = '' } = payment.json() as Record<string, string>
    await eventually("the merchant's is registered", async () => strike.subscriptions[1] ?? null)
    strike.pay(providerChargeId)
    t.same(await strike.deliver(), [200, 200])
    await eventually('the payment is paid', async () =>
      (await gateway.send('GET', `/api/payments/${invoiceId}/status`)).text === '{"status":"paid"}' ? true : null
    )
    const invoice = challengeOf(response, 'l402').parameters.get('invoice') ?? ''
    const [row] = await gateway.database.sql<
      Array<{ charge_id: string }>
    >`select charge_id from challenges where invoice = ${invoice}`
    strike.pay(row?.charge_id ?? '')
    t.same(await strike.deliver(), [200, 200])
    await eventually('the challenge is noted as settled', async () => {
      const { sql } = gateway.database
      const settled = await sql`select from challenges where invoice = ${invoice} and settled_at is not null`
      return settled.length === 1 ? true : null
    })
  }
)

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
