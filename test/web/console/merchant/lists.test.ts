/** What lists of payments and sales sum up and compare, search, and the page of one payment. */
import t from 'tap'
import { makePayment, openConsole } from '../session.ts'

const DAY = 86_400_000

t.test('lists: a filtered list has its count and sum beside the period before, and one search finds all', async t => {
  const { gateway, read, get } = await openConsole(t)
  await gateway.database.sql`update merchants set refunds_enabled = true`
  const page = async (path: string) => await read(`/console/${path}`)
  const ids: string[] = []
  for (const [nth, amount] of ['0.00010000', '0.00020000', '0.00040000'].entries()) {
    const more = {
      orderId: `order-${nth}`,
      amount,
      currency: 'BTC',
      customerName: nth === 0 ? '<b>Ada</b>' : 'Bob',
      customerEmail: 'buyer@example.com',
      metadata: { seat: '<i>12</i>' }
    }
    ids.push((await makePayment(gateway, more, nth !== 2)).invoiceId)
  }
  const [first = ''] = ids
  await gateway.database.sql`
    update payments set created_at = created_at - make_interval(days => 8) where invoice_id = ${first}`
  t.match(await get('/api/payments?sum=true&limit=1'), {
    total: { count: 3, sats: 30_000 },
    payments: [{ provider: 'sandbox' }]
  })
  t.match(await get('/api/payments?sum=true&status=unpaid'), { total: { count: 1, sats: 0 } })
  t.notOk('total' in ((await get('/api/payments')) as object))
  t.match((await gateway.merchantSend('GET', '/api/merchant/sales?sum=true')).json(), { total: { count: 0, sats: 0 } })

  const from = new Date(Date.now() - 7 * DAY).toISOString()
  const filtered = await page(`payments?from=${from}`)
  t.match(filtered, /<dd>2<span class="soft">1 in the previous period, \+100%/)
  t.match(filtered, /20,000 sats[^<]*<span class="soft">10,000 in the previous period, \+100%/)
  t.match(await page('payments'), /from=[^"]*">30 days/)
  t.match(await page('sales?text=none'), /<dt>Sales<\/dt><dd>0/)

  const older = async (at: string) => page(at)
  const list = await older(`payments?after=1-0&back=5-1.9-2`)
  t.match(list, /rel="prev" href="[^"]*after=9-2&amp;back=5-1"/)
  t.match(await older('payments?after=1-0'), /rel="prev" href="[^"]*payments">Newer/)

  await gateway.merchantSend('POST', '/api/refunds', {
    invoiceId: first,
    refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
    refundType: 'chain',
    amountSatoshis: 5_000,
    reason: 'Ada was late'
  })
  const found = await page('search?text=ada')
  t.match(found, /order-0[^]*&lt;b>Ada[^]*5,000 sats/)
  t.notMatch(found, /order-1|<b>Ada/)
  t.match(await page(`search?text=${'%'}25`), /No matches/)
  t.match(await page('search'), /type="search"/)

  const detail = await page(`payments/${first}`)
  for (const part of [`<code>${first}</code>`, 'data-copy="payment-hash"', 'Metadata: seat', '&lt;i>12', 'Webhooks'])
    t.ok(detail.includes(part), part)
  t.match(detail, /<code>[0-9a-f]{64}<\/code>/)
})

t.test('lists: the page of a payment shows its own webhooks', async t => {
  const { gateway, visit } = await openConsole(t)
  await gateway.merchantSend('PUT', '/api/merchant/webhook-url', { webhookUrl: 'https://shop.example.com/hooks' })
  const [{ invoiceId }, other] = [
    await makePayment(gateway, { orderId: 'a' }, true),
    await makePayment(gateway, { orderId: 'b' }, true)
  ]
  const { text } = await visit(`/console/payments/${invoiceId}`)
  const webhooks = text.slice(text.indexOf('id="webhooks"'), text.indexOf('id="refunds"'))
  t.match(webhooks, /payment\.paid[^]*shop\.example\.com/)
  t.notMatch(webhooks, new RegExp(other.invoiceId))
})
