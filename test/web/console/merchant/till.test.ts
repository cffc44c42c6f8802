/** Taking payments on the console: the till, payment links, and the list of refunds. */
import t from 'tap'
import { startGateway, type TestGateway } from '../../../support/gateway.ts'
import { asPerson, openConsole, sessionOf } from '../session.ts'

async function setUp(t: Parameters<typeof startGateway>[0]) {
  const { gateway, visit, read } = await openConsole(t)
  const page = async (path: string) => await read(`/console/${path}`)
  const send = (form: Record<string, string>, path = 'till') => visit(`/console/${path}`, form)
  const keyIn = (text: string) => /name="key" value="([^"]+)"/.exec(text)?.[1] ?? ''
  return { gateway, page, send, keyIn }
}

async function payments({ merchantSend }: TestGateway) {
  const page = (await merchantSend('GET', '/api/payments')).json() as {
    payments: Array<{ orderId: string; amount: number; currency: string; invoiceId: string; lightningInvoice: string }>
  }
  return page.payments
}

/** Session of a key that may only read, as a viewer. */
async function viewer(gateway: TestGateway) {
  const created = await gateway.merchantSend('POST', '/api/merchant/keys', { name: 'Books', isReadOnly: true })
  return await sessionOf(gateway, (created.json() as { apiKey: string }).apiKey)
}

t.test('till: a payment in satoshis or dollars is shown as a code, and a form sent twice makes one', async t => {
  const { gateway, page, send, keyIn } = await setUp(t)
  const key = keyIn(await page('till'))
  const form = { do: 'payment', key, amount: '2500', currency: 'sats', description: 'Tea' }
  const [one, same] = await Promise.all([send(form), send(form)])
  t.same([one.status, same.status], [303, 303])
  t.equal(one.headers['location'], same.headers['location'])
  const made = await payments(gateway)
  t.match(made, [{ amount: 0.000025, currency: 'BTC' }])
  t.equal(made.length, 1)
  t.match(made[0], { orderId: /^till-\w{1,12}$/ })
  const path = `payments/${made[0]?.invoiceId ?? ''}`
  const shown = await page(path)
  t.match(shown, /<svg class="qr"/)
  t.match(shown, /Checkout link.*\/pay\/[\w-]{43}/s)
  await gateway.pay(made[0]?.lightningInvoice ?? '')
  await gateway.merchantSend('POST', `/api/${path}/sync`)
  const paid = await page(path)
  t.match(paid, /Paid: 2,500 sats/)
  t.notMatch(paid, /<svg class="qr"|Checkout link/)
  const other = await send({ ...form, key: 'other', amount: '1.50', currency: 'USD', orderId: 'table <7>' })
  t.equal(other.status, 303)
  t.match(await page('payments'), /table &lt;7>/)
  const taken = await send({ ...form, key: 'third', orderId: 'table <7>' })
  t.equal(taken.status, 422)
  t.match(taken.text, /value="2500"/, 'the fields keep their values')
})

t.test('till: invalid amounts make no payment and stay in the form', async t => {
  const { gateway, send } = await setUp(t)
  for (const [amount, currency] of [
    ...['', '0', '-1', '1e9', '1e-9', 'NaN', '2.5', '9'.repeat(20), '<b>'].map(text => [text, 'sats'] as const),
    ...['', '0', '0.00', '1e9', '1e-9', 'NaN', '1.234'].map(text => [text, 'USD'] as const),
    ['0.000000001', 'BTC'] as const,
    ['1', 'DOGE'] as const
  ])
    for (const what of ['payment', 'link'] as const) {
      if (what === 'link' && amount === '') continue
      const refused = await send({ do: what, key: 'one', amount, currency })
      t.equal(refused.status, 422, `${what} ${amount} ${currency}`)
      t.notMatch(refused.text, /<b>/)
    }
  t.equal((await payments(gateway)).length, 0)
  t.same((await gateway.merchantSend('GET', '/api/merchant/payment-links')).json(), [])
})

t.test('till: links are made and removed, not by viewers and not for other accounts', async t => {
  const { gateway, page, send } = await setUp(t)
  t.equal((await send({ do: 'link', amount: '', currency: 'sats', description: 'Tips <3' })).status, 303)
  const text = await page('till')
  t.match(text, /Tips &lt;3/)
  t.match(text, /Payer chooses/)
  const linkId = /name="linkId" value="([^"]+)"/.exec(text)?.[1] ?? ''
  const reader = await viewer(gateway)
  const seen = await asPerson(gateway, reader, '/console/till')
  t.notMatch(seen.text, /name="amount"|name="linkId"/)
  const changes = [
    { do: 'payment', key: 'x', amount: '5', currency: 'sats' },
    { do: 'link', amount: '', currency: 'sats' },
    { do: 'remove', linkId }
  ]
  for (const form of changes) {
    const refused = await asPerson(gateway, reader, '/console/till', form)
    t.equal(refused.status, 422, form.do)
    t.match(refused.text, /role/, form.do)
  }
  await gateway.database.sql`update payment_links set merchant_id = 999`
  t.equal((await send({ do: 'remove', linkId })).status, 422, 'another account')
  t.notMatch(await page('till'), /Tips/)
  await gateway.database.sql`update payment_links set merchant_id = ${gateway.merchant.id}`
  t.equal((await send({ do: 'remove', linkId })).status, 303)
  t.equal((await send({ do: 'remove', linkId })).status, 422, 'a second tab gets a conflict')
  t.equal((await payments(gateway)).length, 0)
})

t.test(
  'refunds: the list shows each with its payment and state, and a Lightning address is typed as it is',
  async t => {
    const { gateway, page, send } = await setUp(t)
    await gateway.database.sql`update merchants set refunds_enabled = true`
    t.match(await page('refunds'), /No refunds yet/)
    await send({ do: 'payment', key: 'one', amount: '10000', currency: 'sats' })
    const [made] = await payments(gateway)
    await gateway.pay(made?.lightningInvoice ?? '')
    const path = `payments/${made?.invoiceId ?? ''}`
    await gateway.merchantSend('POST', `/api/${path}/sync`)
    const refund = { do: 'refund', key: 'two', amountSatoshis: '4000' }
    const chain = { ...refund, refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080' }
    const twice = await Promise.all([send(chain, path), send(chain, path)])
    t.same(
      twice.map(({ status }) => status),
      [303, 303]
    )
    const list = await page('refunds')
    t.equal(list.match(/4,000 sats/g)?.length, 2, 'a form sent twice refunds once: the sum, and one row')
    t.match(list, new RegExp(`href="[^"]*${path}"`))
    t.match(await page('refunds?status=failed'), /No refunds match/)
    t.match(await page('refunds?status=nonsense&page=-5'), /4,000 sats/)
    for (const refundAddress of ['shop@127.0.0.1', 'shop@metadata.google.internal', 'a@b@c', 'lnurlp://10.0.0.1/pay']) {
      const refused = await send({ ...refund, key: refundAddress, refundAddress }, path)
      t.equal(refused.status, 422, refundAddress)
      t.ok(refused.text.includes(`value="${refundAddress}"`), 'the fields keep their values')
    }
    t.match((await send({ ...refund, refundAddress: 'hello' }, path)).text, /Enter a Lightning address such as/)
    t.match((await gateway.merchantSend('GET', '/api/refunds')).json(), [{ lightningAddress: null }])
  }
)
