/**
 * @getalby/lightning-tools as published, against a running gateway. It pays with whatever wallet it is given; ours is
 * the sandbox.
 */
import {
  fetch402,
  fetchWithL402,
  fetchWithMpp,
  Fetch402InterruptedError,
  type PaidResponse
} from '@getalby/lightning-tools/402'
import t from 'tap'
import { eachDoor, openShop, sandboxWallet } from './setting.ts'

/**
 * What its users set to be offered Payment first; without it the L402 line comes first, which `fetchWithMpp` does not
 * read past.
 */
const WANTS_PAYMENT = { 'accept-payment': 'lightning/charge' }

const shop = await openShop(t)
const { gateway, upstream } = shop
const offers = [
  { path: shop.quote, price: 10, methods: ['GET'] },
  { path: shop.operated, price: 7, methods: ['GET', 'POST'] },
  { path: shop.proxied, price: 5, methods: ['GET', 'POST'] }
]
const clients = [
  { name: 'fetchWithL402', call: fetchWithL402, headers: {}, scheme: 'L402' },
  { name: 'fetchWithMpp', call: fetchWithMpp, headers: WANTS_PAYMENT, scheme: 'Payment' },
  { name: 'fetch402', call: fetch402, headers: {}, scheme: 'L402' },
  { name: 'fetch402 that prefers Payment', call: fetch402, headers: WANTS_PAYMENT, scheme: 'Payment' }
]

// A client changes the object it is given, so each call gets its own.
const requestOf = (method: string, headers: Record<string, string>, body: string) =>
  method === 'POST'
    ? { method, headers: { ...headers, 'content-type': 'application/json' }, body }
    : { method, headers: { ...headers } }

function paymentOf(response: PaidResponse) {
  if (response.payment === undefined) throw new Error(`nothing was paid: ${response.status}`)
  return response.payment
}

for (const { name, call, headers, scheme } of clients) {
  await t.test(`${name} buys at an operator's routes and a merchant's proxy`, async t => {
    await eachDoor(t, gateway, async (t, door) => {
      for (const { path, price, methods } of offers) {
        for (const method of methods) {
          const wallet = sandboxWallet(gateway)
          const body = `{"for":"${name} ${door.name}"}`
          const response = await call(door.url + path, requestOf(method, headers, body), { wallet })
          const what = `${method} ${path}`
          t.equal(response.status, 200, what)
          t.equal(wallet.paid.length, 1, `${what} is paid once`)
          const payment = paymentOf(response)
          t.equal(payment.amountSat, price, `${what} costs what the route says`)
          t.ok(payment.credentials.value.startsWith(`${scheme} `), `${what} is paid by ${scheme}`)
          t.equal(response.headers.has('payment-receipt'), scheme === 'Payment', `${what}: a receipt for Payment`)
          t.equal(response.headers.get('cache-control'), 'private')
          const answer = (await response.json()) as { body?: string }
          if (path === shop.quote) continue
          t.match(
            upstream.received.at(-1),
            { method, authorization: null, body: method === 'POST' ? body : '' },
            `${what} reaches the upstream without its credential`
          )
          t.equal(answer.body, method === 'POST' ? body : '')
        }
      }
      if (door.name !== 'direct') return
      // A second one is Node's own: its pool opens it when a request follows at the very moment that another ends.
      const { opened, ended } = door.connections()
      t.ok(opened <= 2, `${opened} connections for all of them`)
      t.equal(ended, 0, 'the gateway ends none')
    })
  })
}

t.test('fetchWithMpp treats a 402 that begins with L402 as a foreign one and pays nothing', async t => {
  const wallet = sandboxWallet(gateway)
  const response = await fetchWithMpp(gateway.url + shop.quote, {}, { wallet })
  t.equal(response.status, 402)
  t.same(wallet.paid, [])
  await response.text()
})

t.test('a classic token is valid again, a modern one is not, and neither is paid for twice', async t => {
  for (const { call, headers, status } of [
    { call: fetchWithL402, headers: {}, status: 200 },
    { call: fetchWithMpp, headers: WANTS_PAYMENT, status: 402 }
  ]) {
    for (const path of [shop.operated, shop.proxied]) {
      const wallet = sandboxWallet(gateway)
      const first = await call(gateway.url + path, { headers: { ...headers } }, { wallet })
      t.equal(first.status, 200)
      await first.text()
      const before = upstream.received.length
      const again = await call(
        gateway.url + path,
        { headers: { ...headers } },
        { wallet, credentials: paymentOf(first).credentials }
      )
      t.equal(again.status, status)
      t.equal(upstream.received.length, before + (status === 200 ? 1 : 0), 'a refusal stays here')
      t.equal(wallet.paid.length, 1)
      await again.text()
    }
  }
})

t.test(
  'a Payment credential buys only the body it was issued for, though the client does not echo the digest',
  async t => {
    for (const path of [shop.operated, shop.proxied]) {
      const wallet = sandboxWallet(gateway)
      upstream.dieNext(1)
      const failed = await fetchWithMpp(gateway.url + path, requestOf('POST', WANTS_PAYMENT, '{"a":1}'), { wallet })
      t.equal(failed.status, 502)
      await failed.text()
      const { credentials } = paymentOf(failed)
      const before = upstream.received.length
      const other = await fetchWithMpp(gateway.url + path, requestOf('POST', WANTS_PAYMENT, '{"a":2}'), {
        wallet,
        credentials
      })
      t.equal(other.status, 402, 'another body')
      t.match(await other.json(), { type: 'https://paymentauth.org/problems/verification-failed' })
      t.equal(upstream.received.length, before)
      const same = await fetchWithMpp(gateway.url + path, requestOf('POST', WANTS_PAYMENT, '{"a":1}'), {
        wallet,
        credentials
      })
      t.equal(same.status, 200, 'the body that was paid for')
      await same.text()
    }
  }
)

t.test(
  'an upstream that dies before its first byte costs nothing: the same credential works at the next attempt',
  async t => {
    for (const { call, headers } of [
      { call: fetchWithL402, headers: {} },
      { call: fetchWithMpp, headers: WANTS_PAYMENT }
    ]) {
      for (const path of [shop.operated, shop.proxied]) {
        for (const method of ['GET', 'POST']) {
          const wallet = sandboxWallet(gateway)
          upstream.dieNext(1)
          const failed = await call(gateway.url + path, requestOf(method, headers, '{}'), { wallet })
          t.equal(failed.status, 502, `${method} ${path}`)
          t.notOk(failed.headers.has('payment-receipt'), 'nothing was delivered')
          await failed.text()
          const retried = await call(gateway.url + path, requestOf(method, headers, '{}'), {
            wallet,
            credentials: paymentOf(failed).credentials
          })
          t.equal(retried.status, 200, `${method} ${path}`)
          t.equal(wallet.paid.length, 1, 'one payment')
          await retried.text()
        }
      }
    }
  }
)

t.test('a payment whose answer got lost is resumed with the preimage', async t => {
  for (const { call, headers } of [
    { call: fetchWithL402, headers: {} },
    { call: fetchWithMpp, headers: WANTS_PAYMENT }
  ]) {
    let preimage = ''
    const losing = {
      async payInvoice({ invoice }: { invoice: string }) {
        preimage = await gateway.pay(invoice)
        throw new Error('the wallet timed out')
      }
    }
    const lost: unknown = await call(gateway.url + shop.proxied, { headers: { ...headers } }, { wallet: losing }).catch(
      (error: unknown) => error
    )
    if (!(lost instanceof Fetch402InterruptedError)) throw new Error(`expected an interruption, got ${String(lost)}`)
    t.equal(lost.amountSat, 5)
    const wallet = sandboxWallet(gateway)
    const resumed = await call(
      gateway.url + shop.proxied,
      { headers: { ...headers } },
      { wallet, resume: { pendingPayment: lost.pendingPayment, preimage } }
    )
    t.equal(resumed.status, 200)
    t.same(wallet.paid, [])
    await resumed.text()
  }
})

t.test('a client with a limit reads our price and pays no more than it may', async t => {
  const wallet = sandboxWallet(gateway)
  await t.rejects(fetch402(gateway.url + shop.quote, {}, { wallet, maxAmount: 9 }), 'ten satoshis are too much')
  t.same(wallet.paid, [])
  const response = await fetch402(gateway.url + shop.quote, {}, { wallet, maxAmount: 10 })
  t.equal(response.status, 200)
  await response.text()
})

t.test('ten concurrent calls pay ten invoices and all succeed', async t => {
  const wallet = sandboxWallet(gateway)
  const answers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      // A query of its own: challenges that other tests left unpaid count towards the ten that one address may hold
      // (decision 122).
      const response = await fetchWithMpp(
        `${gateway.url}${shop.proxied}?at=once`,
        { headers: { ...WANTS_PAYMENT } },
        { wallet }
      )
      await response.text()
      return response.status
    })
  )
  t.same(
    answers,
    Array.from({ length: 10 }, () => 200)
  )
  t.equal(new Set(wallet.paid).size, 10)
})
