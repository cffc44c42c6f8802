/** What the pages of payments offer, and what they say where the plan of the account has ended. */
import t from 'tap'
import { decodeInvoice } from '../../../../src/lightning/codecs/bolt11.ts'
import { type TestGateway } from '../../../support/gateway.ts'
import { makePayment, openConsole, wasOf } from '../session.ts'

const ADDRESS = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'

type Made = Awaited<ReturnType<typeof makePayment>>

const paymentOf = (gateway: TestGateway, orderId: string) => makePayment(gateway, { orderId })

async function brought(gateway: TestGateway, { invoiceId, lightningInvoice }: Made, state: string, sats = 0) {
  t.equal(decodeInvoice(lightningInvoice).network, 'regtest')
  const body = { invoice: lightningInvoice, state, ...(sats === 0 ? {} : { receivedSats: sats }) }
  if (state === 'paid') await gateway.pay(lightningInvoice)
  else t.equal((await gateway.send('POST', '/sandbox/state', { body })).status, 200)
  await gateway.merchantSend('POST', `/api/payments/${invoiceId}/sync`)
}

t.test('a refund is offered where the API takes one, of what came and is not given back yet', async t => {
  const { gateway, visit, read, make } = await openConsole(t)
  await gateway.database.sql`update merchants set refunds_enabled = true`
  const page = async ({ invoiceId }: Made) => await read(`/console/payments/${invoiceId}`)
  const offered = async (made: Made) => /name="amountSatoshis" value="(\d*)"/.exec(await page(made))?.[1] ?? null

  const unpaid = await paymentOf(gateway, 'unpaid')
  t.equal(await offered(unpaid), null)
  const part = await paymentOf(gateway, 'part')
  await brought(gateway, part, 'underpaid', 4_000)
  t.equal(await offered(part), '4000')
  t.match(await page(part), /Received<\/dt><dd>4,000 sats/)
  const processing = await paymentOf(gateway, 'processing')
  await brought(gateway, processing, 'processing')
  t.equal(await offered(processing), '10000')

  const paid = await paymentOf(gateway, 'paid')
  await brought(gateway, paid, 'paid')
  t.equal(await offered(paid), '10000')
  const path = `/console/payments/${paid.invoiceId}`
  const form = { key: 'first', refundAddress: ADDRESS, amountSatoshis: '4000' }
  t.equal((await visit(path, form)).status, 303)
  t.equal(await offered(paid), '10000', 'a form that does not say what it is for gives nothing back')
  t.equal((await visit(path, { ...form, do: 'refund' })).status, 303)
  t.equal(await offered(paid), '6000')
  const rest = { do: 'refund', key: 'second', refundAddress: ADDRESS, amountSatoshis: '6000' }
  t.equal((await visit(path, rest)).status, 303)
  t.equal(await offered(paid), null, 'all of it is given back')

  const demo = await make('/api/payments', { orderId: 'demo', amount: 0, currency: 'BTC' })
  await gateway.database.sql`update payments set status = 'paid', paid_at = now() where order_id = 'demo'`
  // The response of a create, which `make` reads alike.
  t.notMatch(await page(demo as Made), /Refund payment/, 'a demo has no payer')
})

t.test('a payment shows its status where it is neither paid nor expired', async t => {
  const { gateway, visit } = await openConsole(t)
  const went = async (orderId: string, state: string, sats = 0) => {
    const made = await paymentOf(gateway, orderId)
    await brought(gateway, made, state, sats)
    const { text } = await visit(`/console/payments/${made.invoiceId}`)
    return (/<ol class="timeline">(.*?)<\/ol>/s.exec(text)?.[1] ?? '')
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
  }
  t.match(await went('part', 'underpaid', 4_000), /Invoice created\. – 4,000 sats received, less than requested\./)
  t.match(await went('seen', 'processing'), /– Payment detected, not confirmed yet\./)
})

t.test('an unpaid payment is canceled once, reported as expired, and still paid if money comes', async t => {
  const { gateway, visit, read } = await openConsole(t)
  const made = await paymentOf(gateway, 'unwanted')
  const path = `/console/payments/${made.invoiceId}`
  t.match(await read(path), /Cancel payment/)
  const sent = await visit(path, { do: 'cancel' })
  t.match([sent.status, sent.headers['location']], [303, /done=canceled$/])
  const canceled = await read(path)
  t.notMatch(canceled, /Cancel payment/)
  const told = (text: string) =>
    (/<ol class="timeline">(.*?)<\/ol>/s.exec(text)?.[1] ?? '').replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')
  t.match(told(canceled), /Canceled by API key \w+\. $/)
  await gateway.database.sql`update payments set expires_at = now() - interval '1 minute'`
  t.match(told(await read(path)), /Canceled by API key \w+\. $/, 'also once its time is over')
  await gateway.database.sql`update payments set expires_at = now() + interval '1 hour'`
  const cancel = (invoiceId: string) => gateway.merchantSend('POST', `/api/payments/${invoiceId}/cancel`)
  t.match((await cancel(made.invoiceId)).json(), { status: 'expired' }, 'again changes nothing')
  await gateway.pay(made.lightningInvoice)
  await gateway.merchantSend('POST', `/api/payments/${made.invoiceId}/sync`)
  const late = await cancel(made.invoiceId)
  t.equal(late.status, 409)
  t.match(late.json(), { message: /is paid: only an unpaid one/ })
  const sync = await gateway.merchantSend('GET', `/api/payments/${made.invoiceId}`)
  t.match(sync.json(), { status: /^paid$/ })

  const unheard = await paymentOf(gateway, 'paid meanwhile')
  await gateway.pay(unheard.lightningInvoice)
  t.equal((await cancel(unheard.invoiceId)).status, 409, 'its provider is called before')
  t.equal((await cancel('123456789012345')).status, 404)
})

t.test('after the plan has ended payments remain visible, and every page says how to renew', async t => {
  const { gateway, visit, read } = await openConsole(t)
  await gateway.database.sql`update merchants set refunds_enabled = true`
  const paid = await paymentOf(gateway, 'paid')
  await brought(gateway, paid, 'paid')
  for (const ended of [{ subscriptionStatus: 'past_due' }, { currentPeriodEnd: '2026-01-01T00:00:00Z' }]) {
    await gateway.adminSend('PUT', `/api/admin/merchants/${gateway.merchant.id}`, {
      planTier: 'individual',
      subscriptionStatus: 'active',
      currentPeriodEnd: null,
      ...ended
    })
    const words = JSON.stringify(ended)
    t.match(await read('/console'), /Pay now<\/a> to keep selling/, words)
    const plan = await read('/console/plan')
    t.match(plan, /Subscribe by card \(\$49\.00 per month\)/, words)
    t.match(plan, /Pay for one month by Lightning/, words)
    t.match(plan, /none until you subscribe again|card declined/, words)
    const one = await visit(`/console/payments/${paid.invoiceId}`)
    t.equal(one.status, 200, words)
    t.match(one.text, /Refunds are not enabled for your account/, words)
    const apis = await visit('/console/apis')
    t.equal(apis.status, 403, words)
    t.match(apis.text, /href="[^"]*console\/plan">View plan/, words)
  }
})

t.test("a fault in a page's address is reported as the API reports it", async t => {
  const { visit } = await openConsole(t)
  for (const path of ['/console/payments?from=foo', '/console/payments?after=foo', '/console/sales?after=foo']) {
    const response = await visit(path)
    t.equal(response.status, 400, path)
    t.match(response.text, /Invalid address/, path)
  }
})

t.test('a form without known fields changes nothing', async t => {
  const { gateway, visit } = await openConsole(t)
  for (const page of ['plan', 'store']) {
    const sent = await visit(`/console/${page}`, { do: 'nothing' })
    t.equal(sent.status, 303, page)
    t.notMatch(sent.headers['location'], /done=/, page)
  }
  const [row] = await gateway.database.sql`select count(*)::int as made from bitcoin_subscriptions`
  t.same(row, { made: 0 })
})

t.test('money is formatted by locale, with its cents and every digit, and sent as typed', async t => {
  const { gateway, visit, read } = await openConsole(t)
  await gateway.merchantSend('POST', '/api/payments', { orderId: 'dollars', amount: 2, currency: 'USD' })
  await gateway.merchantSend('POST', '/api/payments', { orderId: 'a satoshi', amount: '0.00000001', currency: 'BTC' })
  for (const path of ['/console/payments', '/console']) {
    const { text } = await visit(path)
    t.match(text, />\$2\.00/, path)
    t.match(text, />1 sat\b/, path)
  }
  const page = async () => await read('/console/store')
  const shown = (text: string) => /<input[^>]*name="domesticShippingUsd"[^>]*value="([^"]*)"/.exec(text)?.[1]
  const before = await page()
  t.equal(shown(before), '4.90')
  const was = wasOf(before, 'settings')
  const form = { do: 'settings', was, claimWindowDays: '14' }
  const save = (domesticShippingUsd: string) => visit('/console/store', { ...form, domesticShippingUsd })
  t.match((await save('4.905')).text, /value="4\.905"/, 'an invalid amount is shown again')
  t.equal((await save('7.10')).status, 303)
  t.equal(shown(await page()), '7.10')
  const stored = await gateway.merchantSend('GET', '/api/merchant/storefront')
  t.match(stored.text, /"domesticShippingUsd":7\.1[,}]/)
})
