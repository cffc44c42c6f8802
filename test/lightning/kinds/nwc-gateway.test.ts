import t from 'tap'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { openTestDatabase } from '../../support/database.ts'
import { eventually } from '../../support/gateway-process.ts'
import { defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'

type Json = Readonly<Record<string, unknown>>

function json(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

t.test("a payment's life in a wallet over Nostr Wallet Connect, through the gateway", async t => {
  const clock = new ManualClock()
  const wallet = await startFakeNwc({ clock })
  t.teardown(() => wallet.close())
  wallet.onHang = () => {
    clock.advance(60_000)
  }
  const gateway = await startGateway(t, {
    clock,
    database: await openTestDatabase(t, { clock }),
    yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: nwc, key: "${NWC}" }']] }),
    env: { NWC: wallet.key() }
  })
  const saveKey = async (key: string) =>
    json(await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: key }), 200)
  const create = async (orderId: string) =>
    await gateway.merchantSend('POST', '/api/payments', { orderId, amount: '0.00001', currency: 'BTC' })
  const key = wallet.key()
  await saveKey(key)

  await t.test('it is paid as soon as the wallet reports it, without a request', async t => {
    const payment = json(await create('one'), 201)
    wallet.wallet.settle(String(payment['paymentHash']))
    wallet.notify(String(payment['paymentHash']))
    const read = async () =>
      json(await gateway.merchantSend('GET', `/api/payments/${String(payment['invoiceId'])}`), 200)['status']
    await eventually('it is paid', async () => ((await read()) === 'paid' ? true : null))
    t.ok(
      wallet.requests.some(({ method }) => method === 'lookup_invoice'),
      'the reported payment was looked up'
    )
  })

  await t.test('a deleted connection is reported to the merchant, and stops no other', async t => {
    wallet.revoke(key)
    const refused = await create('two')
    t.equal(refused.status, 503)
    t.match(refused.text, /offline, or the connection was deleted in it/)
    t.notMatch(refused.text, new URL(key).searchParams.get('secret') ?? '')
    for (let count = 0; count < 6; count++) await create(`more ${count}`)
    t.equal((await gateway.send('GET', '/demo/quote')).status, 402, 'the same wallet answers the operator')
  })
})
