import t from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { startGateway } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { RawClient } from '../../support/raw-client.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { anInput } from './fixture.ts'

/** A whole second: invoices count no others. */
const now = () => Math.floor(Date.now() / 1000) * 1000

void t.test('payments over HTTP, through the chains of the default deployment', async t => {
  const clock = new ManualClock(now())
  const gateway = await startGateway(t, { clock })
  const { send, merchantSend, pay } = gateway
  const create = async (different: object = {}, headers: Record<string, string> = {}) =>
    send('POST', '/api/payments', {
      headers: { 'x-api-key': gateway.merchant.apiKey, ...headers },
      body: { ...anInput(), ...different }
    })
  /** With the target as it is written: other clients resolve dot segments, encoded ones too. */
  const getRaw = async (target: string) => {
    const client = await RawClient.connect(Number(new URL(gateway.url).port))
    try {
      client.send(`GET ${target} HTTP/1.1\r\nHost: a.example\r\nX-API-Key: ${gateway.merchant.apiKey}\r\n\r\n`)
      return await client.response()
    } finally {
      client.close()
    }
  }
  const data = (answer: { json(): unknown }) => answer.json() as Record<string, unknown>

  await t.test('create, pay, read: paid immediately, by every way to read it', async t => {
    const created = await create({
      orderId: 'journey',
      amount: 12.5,
      currency: 'EUR',
      description: 'A book',
      metadata: { sku: '1' }
    })
    t.equal(created.status, 201)
    const payment = data(created)
    const { invoiceId, lightningInvoice } = payment
    t.equal(created.headers['location'], `/api/payments/${String(invoiceId)}`)
    t.equal(payment['payUrl']?.toString().startsWith(`${gateway.url}/pay/`), true)
    t.equal(decodeInvoice(String(lightningInvoice)).description, 'A book')
    t.equal((await send('GET', `/api/payments/${String(invoiceId)}/status`)).text, '{"status":"unpaid"}')
    clock.advance(2_000)
    await pay(String(lightningInvoice))
    const paid = { ...payment, status: 'paid', paidAt: new Date(clock.now()).toISOString() }
    t.same(data(await merchantSend('GET', `/api/payments/${String(invoiceId)}`)), paid)
    t.same(data(await merchantSend('GET', '/api/payments/order/journey')), paid)
    t.same(data(await merchantSend('POST', `/api/payments/${String(invoiceId)}/sync`)), paid)
    t.equal((await send('GET', `/api/payments/${String(invoiceId)}/status`)).text, '{"status":"paid"}')
    t.equal((await send('HEAD', `/api/payments/${String(invoiceId)}/status`)).status, 200)
  })

  await t.test(
    'Create supports X-Idempotency-Key: the same answer again, with X-Idempotency-Replayed: true; Idempotency-Key too',
    async t => {
      for (const header of ['x-idempotency-key', 'idempotency-key']) {
        const input = anInput()
        const first = await create(input, { [header]: `key of ${header}` })
        const again = await create(input, { [header]: `key of ${header}` })
        t.equal(first.status, 201)
        t.same(
          [again.status, again.text, again.headers['location'], again.headers['x-idempotency-replayed']],
          [201, first.text, first.headers['location'], 'true']
        )
        t.equal(first.headers['x-idempotency-replayed'], undefined)
        const other = await create({ ...input, amount: 1 }, { [header]: `key of ${header}` })
        t.same(
          [other.status, data(other)],
          [400, { error: 'Idempotency key was already used with a different request.' }]
        )
      }
      const long = await create({}, { 'x-idempotency-key': 'k'.repeat(257) })
      t.same([long.status, data(long)], [400, { error: 'Idempotency key must not exceed 256 characters.' }])
    }
  )

  await t.test(
    'an order id with a slash, a percent sign or dots gets through the front door (decision 52)',
    async t => {
      for (const orderId of ['a/b', 'x/%2F/y', '%252F', '2026/11/21#7', 'v1.2', 'a..b', '...', 'ü 💣?&=']) {
        const created = await create({ orderId })
        t.equal(created.status, 201, orderId)
        const path = encodeURIComponent(orderId)
        for (const spelling of [path, path.replaceAll('.', '%2E')]) {
          const answer = await merchantSend('GET', `/api/payments/order/${spelling}`)
          t.same([answer.status, answer.text], [200, created.text], spelling)
        }
      }
      for (const [orderId, path] of [
        ['..', '%2E%2E'],
        ['.', '%2e'],
        ['a/../b', 'a%2F..%2Fb'],
        ['../x', '..%2Fx'],
        ['a\\..', 'a%5C..'],
        ['..;x', '..%3Bx']
      ] as const) {
        const created = await create({ orderId })
        t.equal(created.status, 201, orderId)
        const answer = await getRaw(`/api/payments/order/${path}`)
        t.same([answer.status, answer.body], [200, created.text], path)
      }
      for (const path of ['..', '../x', '.'])
        t.equal((await getRaw(`/api/payments/order/${path}`)).status, 400, `${path} written plainly is refused`)
      const double = await merchantSend('GET', '/api/payments/order/a%252Fb')
      t.same([double.status, data(double)], [404, { error: 'Payment not found' }], 'decoded once')
    }
  )

  await t.test('the sandbox pays an invoice once: paying again and unknown invoices change nothing', async t => {
    const payment = data(await create())
    await pay(String(payment['lightningInvoice']))
    const { paidAt } = data(await merchantSend('GET', `/api/payments/${String(payment['invoiceId'])}`))
    const unpaid = data(await create())
    clock.leap(3_600_000)
    await eventually('idle connections are closed', () => send('GET', '/health').catch(() => null))
    await pay(String(payment['lightningInvoice']))
    t.equal(data(await merchantSend('GET', `/api/payments/${String(payment['invoiceId'])}`))['paidAt'], paidAt)
    t.equal(data(await merchantSend('GET', `/api/payments/${String(unpaid['invoiceId'])}`))['status'], 'expired')
  })
})

void t.test(
  'a payment made while the gateway listens but has not started its jobs is reported once it has',
  async t => {
    let invoiceId = ''
    let paying: Promise<Response> | null = null
    const { merchantSend } = await startGateway(t, {
      listening: async (address, apiKey) => {
        const send = (method: string, path: string, body?: object) =>
          fetch(address + path, {
            method,
            headers: {
              'content-type': 'application/json',
              ...(path.startsWith('/api') ? { 'x-api-key': apiKey } : {})
            },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
        // Then a payment is written with the job that reports it.
        await send('PUT', '/api/merchant/webhook-url', { webhookUrl: 'http://127.0.0.1:9001/hook' })
        // As the payment's schema has it.
        const made = (await (await send('POST', '/api/payments', anInput())).json()) as Record<string, string>
        invoiceId = made['invoiceId'] ?? ''
        paying = send('POST', '/sandbox/pay', { invoice: made['lightningInvoice'] })
        // A read shows it immediately; the event of the sandbox waits for the start.
        await eventually('paid at the sandbox', async () => {
          const answer = await send('POST', `/api/payments/${invoiceId}/sync`)
          return ((await answer.json()) as { status?: string }).status === 'paid' ? true : null
        })
      }
    })
    t.match(await paying, { status: 200 })
    t.same((await merchantSend('GET', `/api/payments/${invoiceId}/status`)).json(), { status: 'paid' })
  }
)
