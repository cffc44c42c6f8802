import t from 'tap'
import { buy, defaultYaml, startGateway, paidFor } from '../support/gateway.ts'

const LOCATION = { 'x-buyer-location': 'US-CA-94103' }
const CART = { items: [{ variantId: 10101, quantity: 1 }], email: 'ada@example.com' }

t.test('every sale is in the figures once, by what was sold and how it was learnt', async t => {
  const gateway = await startGateway(t, { yaml: defaultYaml() })
  const figures = async (name: string) => {
    const { text } = await gateway.adminSend('GET', '/metrics')
    return Object.fromEntries(
      text
        .split('\n')
        .filter(line => line.startsWith(`${name}{`))
        .map(line => {
          const [, source = '', scheme = '', value = ''] = /source="(\w+)",scheme="([\w-]+)"\} (\d+)/.exec(line) ?? []
          return [`${source} ${scheme}`, Number(value)]
        })
    )
  }
  for (const [path, scheme] of [
    ['/demo/quote', 'l402'],
    ['/demo/quote', 'payment'],
    ['/l402/test/ping', 'l402']
  ] as const) {
    const authorization = await buy(gateway, path, scheme)
    t.equal((await gateway.send('GET', path, { headers: { authorization } })).status, 200)
  }

  const payment = (
    await gateway.merchantSend('POST', '/api/payments', { orderId: 'one', amount: '0.00001', currency: 'BTC' })
  ).json() as { lightningInvoice: string; invoiceId: string }
  await gateway.pay(payment.lightningInvoice)
  t.match((await gateway.merchantSend('POST', `/api/payments/${payment.invoiceId}/sync`)).json(), { status: /^paid$/ })
  await gateway.merchantSend('POST', '/api/payments', { orderId: 'a demo is none', amount: 0, currency: 'USD' })

  const checkout = (authorization?: string) =>
    gateway.send('POST', '/api/storefront/demo/checkout', {
      headers: { ...LOCATION, ...(authorization === undefined ? {} : { authorization }) },
      body: CART
    })
  // The sandbox reports one immediately; the credential reports the other too, and it is the same sale.
  const proof = await paidFor(gateway, await checkout())
  for (let times = 0; times < 2; times++) t.equal((await checkout(proof)).status, 200)

  const plan = (
    await gateway.send('POST', '/api/bitcoin/create-subscription', {
      body: { plan: 'individual', email: 'buyer@example.com', customerName: 'Buyer' }
    })
  ).json() as { lightningInvoice: string; amountSats: number }
  await gateway.pay(plan.lightningInvoice)

  t.same(await figures('boltgate_payments_total'), {
    'route l402': 1,
    'route payment': 1,
    'ping l402': 1,
    'payment invoice': 1,
    'storefront invoice': 1,
    'subscription invoice': 1
  })
  t.match(await figures('boltgate_satoshis_earned_total'), {
    'payment invoice': 1000,
    'subscription invoice': plan.amountSats,
    'storefront invoice': Number
  })
})
