/**
 * A buyer's whole way over the sandbox shop of the default deployment, with @getalby/lightning-tools as published as
 * the paying client.
 */
import { fetch402, fetchWithL402, fetchWithMpp } from '@getalby/lightning-tools/402'
import t from 'tap'
import { startGateway, type TestGateway } from '../support/gateway.ts'

const ADDRESS = {
  firstName: 'Ada',
  lastName: 'Lovelace',
  address1: '12 Analytical Way',
  city: 'San Francisco',
  province: 'CA',
  zip: '94103',
  country: 'United States'
}
const SHOP = '/api/storefront/demo'
/** What its users set to be offered Payment first. */
const WANTS_PAYMENT = { 'accept-payment': 'lightning/charge' }

type Json = Record<string, unknown>

function walletOf(gateway: TestGateway) {
  const paid: string[] = []
  return {
    paid,
    payInvoice: async ({ invoice }: { invoice: string }) => {
      paid.push(invoice)
      return { preimage: await gateway.pay(invoice) }
    }
  }
}

const gateway = await startGateway(t)

for (const { name, call, headers } of [
  { name: 'fetchWithL402', call: fetchWithL402, headers: {} },
  { name: 'fetchWithMpp', call: fetchWithMpp, headers: WANTS_PAYMENT },
  { name: 'fetch402', call: fetch402, headers: {} }
]) {
  await t.test(`${name}: catalog, 402, payment, 200, claim, order status`, async t => {
    const catalog = await gateway.send('GET', `${SHOP}/catalog`)
    t.equal(catalog.status, 200)
    // The answer was held against openapi.json.
    const { products, shipping } = catalog.json() as {
      products: Array<{ variants: Array<{ variantId: number; priceUsd: number; available: boolean }> }>
      shipping: { domesticUsd: number }
    }
    const [first, second] = products.flatMap(product => product.variants).filter(variant => variant.available)
    if (first === undefined || second === undefined) throw new Error('the sandbox shop sells nothing')
    const cart = {
      items: [
        { variantId: first.variantId, quantity: 1 },
        { variantId: second.variantId, quantity: 1 }
      ],
      email: 'ada@example.com'
    }
    const request = { 'x-buyer-location': 'US-CA-94103', 'content-type': 'application/json' }

    const answer = await gateway.send('POST', `${SHOP}/checkout`, { headers: request, body: cart })
    t.equal(answer.status, 402)
    t.match(answer.json(), {
      subtotalUsd: Number((first.priceUsd + second.priceUsd).toFixed(2)),
      shippingUsd: shipping.domesticUsd
    })

    const wallet = walletOf(gateway)
    const response = await call(
      `${gateway.url}${SHOP}/checkout`,
      { method: 'POST', headers: { ...request, ...headers }, body: JSON.stringify(cart) },
      { wallet }
    )
    t.equal(response.status, 200)
    t.equal(wallet.paid.length, 1, 'paid once')
    const paid = (await response.json()) as Json
    t.match(paid, { status: /^PaidAwaitingDetails$/, storefrontOrderNumber: null })
    const page = new URL(String(paid['claimPageUrl']))
    const claimToken = page.searchParams.get('claimToken') ?? ''
    t.match(page.pathname, /^\/storefront\/demo\/claim$/)

    const status = async () =>
      (await gateway.send('GET', `${SHOP}/orders/${String(paid['orderId'])}?claimToken=${claimToken}`)).json() as Json
    t.match(await status(), { status: /^PaidAwaitingDetails$/, paidSats: Number })
    const claimed = await gateway.send('POST', `${SHOP}/claim`, {
      body: { claimToken, email: 'ada@example.com', shippingAddress: ADDRESS }
    })
    t.equal(claimed.status, 200, claimed.text)
    t.match(claimed.json(), { status: /^PaidWithDetails$/, storefrontOrderNumber: /^#\d+$/ })
    t.match(await status(), { status: /^PaidWithDetails$/, storefrontOrderNumber: /^#\d+$/, trackingNumber: null })
    t.equal((await gateway.send('GET', page.pathname + page.search)).status, 200, 'the claim page shows it too')
    t.equal(
      (
        await gateway.send('POST', `${SHOP}/claim`, {
          body: { claimToken, email: 'ada@example.com', shippingAddress: ADDRESS }
        })
      ).status,
      400
    )
  })
}

t.test('the merchant sees what was sold', async t => {
  const orders = (
    await gateway.merchantSend('GET', '/api/merchant/storefront/orders?status=PaidWithDetails')
  ).json() as Json[]
  t.equal(orders.length, 3)
  const stats = (await gateway.merchantSend('GET', '/api/merchant/storefront/stats')).json() as { total: Json }
  t.match(stats.total, { totalCheckouts: 6, paidOrders: 3, conversionRate: 0.5 })
})

t.test("a claim by credential alone, with the client's own header", async t => {
  const wallet = walletOf(gateway)
  const body = JSON.stringify({ items: [{ variantId: 10301, quantity: 3 }] })
  const response = await fetchWithL402(
    `${gateway.url}${SHOP}/checkout`,
    { method: 'POST', headers: { 'x-buyer-location': 'SG--018956', 'content-type': 'application/json' }, body },
    { wallet }
  )
  const authorization = response.payment?.credentials.value ?? ''
  t.match(authorization, /^L402 /)
  const claimed = await gateway.send('POST', `${SHOP}/claim`, {
    headers: { authorization },
    body: { email: 'ada@example.com', shippingAddress: { ...ADDRESS, country: 'SG' } }
  })
  t.equal(claimed.status, 200, claimed.text)
})
