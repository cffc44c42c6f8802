import t from 'tap'
import { JobTable } from '../../../src/platform/jobs/table.ts'
import { eachDatabase } from '../../support/database.ts'
import { startGateway, type Answer } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { addressOf, type Json } from './fixture.ts'

const refundAddress = addressOf()

function json(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
  return answer.json() as Json
}

void eachDatabase(t, 'refunds through the gateway, with the sandbox', async (t, database) => {
  const clock = new ManualClock()
  const gateway = await startGateway(t, { database, clock })
  let orders = 0
  const unpaid = async (amount = '0.00001') =>
    json(
      await gateway.merchantSend('POST', '/api/payments', { orderId: `order-${++orders}`, amount, currency: 'BTC' }),
      201
    )
  const paid = async () => {
    const payment = await unpaid()
    await gateway.pay(String(payment['lightningInvoice']))
    return String(payment['invoiceId'])
  }
  const statusOf = async (invoiceId: string) =>
    json(await gateway.send('GET', `/api/payments/${invoiceId}/status`), 200)['status']

  await t.test(
    'over the chain: processing, then confirmed at a sync five seconds later, and the payment reads refunded',
    async t => {
      const invoiceId = await paid()
      const created = await gateway.merchantSend('POST', '/api/refunds', {
        invoiceId,
        refundAddress,
        amountSatoshis: 1000,
        reason: 'Returned'
      })
      const refund = json(created, 201)
      t.match(refund, {
        status: 'processing',
        amountSatoshis: 1000,
        feeSatoshis: 0,
        transactionHash: null,
        refundType: 'chain',
        providerRefundId: /^sbx_/
      })
      t.equal(
        refund['alternateRefundId'],
        refund['providerRefundId'],
        'alternateRefundId | Same value, backward compatibility'
      )
      t.notOk('reason' in refund || 'processedAt' in refund)
      const path = `/api/refunds/${String(refund['refundId'])}`
      t.equal(created.headers['location'], path)
      t.equal(await statusOf(invoiceId), 'paid')
      clock.advance(5000)
      const synced = json(await gateway.merchantSend('POST', `${path}/sync`), 200)
      t.match(synced, {
        status: 'confirmed',
        transactionHash: /^[0-9a-f]{64}$/,
        feeSatoshis: 150,
        processedAt: new Date(clock.now()).toISOString(),
        reason: 'Returned'
      })
      t.equal(await statusOf(invoiceId), 'refunded')
      t.same(json(await gateway.merchantSend('GET', path), 200), synced)
      t.same(
        (await gateway.merchantSend('GET', '/api/refunds')).json(),
        [synced],
        'bare JSON array, no wrapper and no total'
      )
      t.same((await gateway.merchantSend('GET', `/api/refunds/invoice/${invoiceId}`)).json(), [synced])
      const listed = (await gateway.merchantSend('GET', '/api/refunds')).json() as Array<{ amountSatoshis: number }>
      t.same(json(await gateway.merchantSend('GET', '/api/refunds/total'), 200), {
        count: listed.length,
        sats: listed.reduce((sum, { amountSatoshis }) => sum + amountSatoshis, 0)
      })
      t.match(
        json(await gateway.merchantSend('POST', '/api/refunds', { invoiceId, refundAddress, amountSatoshis: 1 }), 400),
        { error: /its status is refunded/ }
      )
    }
  )

  await t.test(
    "over Lightning: confirmed immediately; an invoice of the gateway's own is a payment that reads paid",
    async t => {
      const invoiceId = await paid()
      const other = await unpaid('0.000004')
      const body = { invoiceId, refundAddress: other['lightningInvoice'], refundType: 'ln', amountSatoshis: 400 }
      t.match(json(await gateway.merchantSend('POST', '/api/refunds', body), 201), {
        status: 'confirmed',
        refundType: 'ln',
        transactionHash: null
      })
      t.equal(await statusOf(String(other['invoiceId'])), 'paid')
      t.equal(await statusOf(invoiceId), 'paid', 'a part of it was given back')
      t.match(json(await gateway.merchantSend('POST', '/api/refunds', body), 400), {
        error: /Another refund already pays/
      })
    }
  )

  await t.test('Create refund supports X-Idempotency-Key: the same answer, paid once and followed up', async t => {
    const invoiceId = await paid()
    const send = (amountSatoshis: number) =>
      gateway.send('POST', '/api/refunds', {
        headers: { 'x-api-key': gateway.merchant.apiKey, 'x-idempotency-key': 'refund-1' },
        body: { invoiceId, refundAddress, amountSatoshis }
      })
    const [first, ...others] = await Promise.all([send(10), send(10), send(10)])
    for (const answer of others) t.equal(answer.text, first?.text)
    const again = await send(10)
    t.match(again, { status: 201, text: first?.text, headers: { 'x-idempotency-replayed': 'true' } })
    t.equal((await send(11)).status, 400, 'another body under the same key (decision 18)')
    clock.advance(60_000)
    const [refund, second] = await eventually('the job looks it up', async () => {
      await new JobTable(database).bringForward('refunds-follow-up')
      const all = (await gateway.merchantSend('GET', `/api/refunds/invoice/${invoiceId}`)).json() as Json[]
      return all[0]?.['status'] === 'confirmed' ? all : null
    })
    t.match(refund, { amountSatoshis: 10 })
    t.equal(second, undefined)
  })
})
