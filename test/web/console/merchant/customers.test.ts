/** Customers and refunds as lists with count and sum. */
import t from 'tap'
import { startGateway } from '../../../support/gateway.ts'
import { asPerson, makePayment, openConsole, sessionOf } from '../session.ts'

t.test('customers: payments of an address or a name are one row, with count, sum and a link', async t => {
  const gateway = await startGateway(t)
  const pay = async (orderId: string, customer: object, isPaid: boolean) =>
    (await makePayment(gateway, { orderId, ...customer }, isPaid)).invoiceId
  const hostile = `<b>${'W'.repeat(150)}</b>`
  const first = await pay('a', { customerEmail: 'Ada@example.com', customerName: 'Ada' }, true)
  await pay('b', { customerEmail: 'ada@example.com', customerName: 'Ada L.' }, true)
  await pay('c', { customerName: hostile }, false)
  await pay('d', {}, true)
  const list = (await gateway.merchantSend('GET', '/api/merchant/customers')).json() as Array<Record<string, unknown>>
  t.match(list, [
    { name: hostile, email: null, payments: 1, sats: 0 },
    { name: 'Ada L.', payments: 2, sats: 20_000 }
  ])
  t.equal(list.length, 2)
  t.same((await gateway.merchantSend('GET', '/api/merchant/customers?text=nobody')).json(), [])
  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  const page = await asPerson(gateway, cookie, '/console/customers')
  t.match(page.text, /payments\?text=ada%40example.com/i)
  t.match(page.text, /20,000 sat/)
  t.notMatch(page.text, /<b>W/)
  t.match((await asPerson(gateway, cookie, '/console/customers?text=nobody')).text, /No customers match/)

  await gateway.database.sql`
    insert into payments select (jsonb_populate_record(p, jsonb_build_object('invoice_id', (100000000000000 + n)::text,
      'order_id', p.order_id || n, 'pay_token', 'token' || n, 'payment_hash', lpad(n::text, 64, '0'), 'charge_id', 'c' || n,
      'customer_email', 'c' || n || '@example.com', 'idempotency_key', null, 'idempotency_fingerprint', null, 'idempotency_operation', null))).*
    from payments p, generate_series(1, 120) n where p.order_id = 'a'`
  t.equal(((await gateway.merchantSend('GET', '/api/merchant/customers?take=100')).json() as unknown[]).length, 100)
  t.match((await asPerson(gateway, cookie, '/console/customers')).text, /page=2/)

  for (const amountSatoshis of [1_000, 2_000]) {
    const refund = { invoiceId: first, refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', amountSatoshis }
    t.equal((await gateway.merchantSend('POST', '/api/refunds', { ...refund, refundType: 'chain' })).status, 201)
  }
  t.match((await gateway.merchantSend('GET', '/api/refunds/total')).json(), { count: 2, sats: 3_000 })
  t.match((await gateway.merchantSend('GET', '/api/refunds/total?status=failed')).json(), { count: 0, sats: 0 })
  t.match((await asPerson(gateway, cookie, '/console/refunds')).text, /3,000 sat/)
})

t.test('settings: an owner renames the account, and two tabs do not overwrite each other', async t => {
  const { gateway, visit, read, get } = await openConsole(t)
  const save = (was: string, name: string) => visit('/console/settings', { do: 'name', was, name })
  const { name } = (await get('/api/merchant/me')) as { name: string }
  t.equal((await save(name, 'Tea & <b>Cake</b>')).status, 303)
  t.match(await read('/console/settings'), /value="Tea &amp; &lt;b>Cake&lt;\/b>"/)
  t.equal((await save(name, 'Late')).status, 422)
  for (const wrong of ['', '  ', 'a\nb', 'x'.repeat(201)])
    t.equal((await gateway.merchantSend('PUT', '/api/merchant/name', { name: wrong })).status, 400)
})

t.test('settings: seller details are saved, shown, and one line', async t => {
  const { gateway, visit, read, get } = await openConsole(t)
  const save = (was: string, receipt: string) => visit('/console/settings', { do: 'receipt', was, receipt })
  t.equal((await save('', 'Tea Ltd, VAT <GB1>')).status, 303)
  t.match(await read('/console/settings'), /value="Tea Ltd, VAT &lt;GB1>"/)
  t.equal((await save('', 'Late')).status, 422)
  for (const wrong of ['a\nb', 'x'.repeat(501)])
    t.equal((await gateway.merchantSend('PUT', '/api/merchant/receipt-note', { note: wrong })).status, 400)
  await save('Tea Ltd, VAT <GB1>', ' ')
  t.match(await get('/api/merchant/settings'), { receiptNote: null })
})
