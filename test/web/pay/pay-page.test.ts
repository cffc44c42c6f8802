import t from 'tap'
import type { Payment } from '../../../src/payments/payments/schema.ts'
import { INVOICE, PageWorld } from './page-server.ts'

async function pageOf(world: PageWorld, more: Partial<Payment> = {}) {
  return (await world.get(`/pay/${world.add(more).payToken}`)).text
}

t.test(
  'the page authorizes viewing that invoice: amount, description, merchant name, BOLT11, and nothing else of it',
  async t => {
    const page = await pageOf(new PageWorld())
    t.match(page, '€12.50')
    t.match(page, '18,342\u00a0sats')
    t.match(page, 'Two flat whites and a slice of carrot cake')
    t.match(page, 'Corner Coffee')
    t.match(page, `>${INVOICE}</code>`)
    t.match(page, `href="lightning:${INVOICE}"`)
    for (const secret of ['payer@example.com', 'order-1', 'seven-and-twenty', 'charge-1']) t.notMatch(page, secret)
  }
)

t.test("amounts are written exactly, in the payment's currency", async t => {
  const world = new PageWorld()
  t.match(await pageOf(world, { amount: '90071992547409931.25', currency: 'USD' }), '$90,071,992,547,409,931.25')
  t.match(await pageOf(world, { amount: '0.005', currency: 'GBP' }), '£0.005')
  t.match(
    await pageOf(world, { amount: '0.00000001', currency: 'BTC', amountSats: 1 }),
    /0\.00000001\u00a0BTC.*>1\u00a0sat</
  )
})

t.test('texts of a merchant never become markup', async t => {
  const world = new PageWorld()
  const hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)>\'&lt;</title></main><!--'
  world.merchants.set(7, { name: hostile })
  for (const status of ['unpaid', 'processing', 'underpaid', 'paid', 'expired', 'refunded'] as const) {
    const page = await pageOf(world, {
      merchantId: 7,
      description: hostile,
      orderId: hostile,
      customerName: hostile,
      metadata: { [hostile]: hostile },
      status,
      successUrl: `https://shop.example/?q=${hostile}`
    })
    t.notMatch(page, '<script>', status)
    t.notMatch(page, '<img', status)
    t.notMatch(page, '<!--', status)
    t.equal(page.split('</title>').length, 2, status)
    t.equal(page.split('</main>').length, 2, status)
    t.match(page, '&lt;script>alert(1)&lt;/script>', status)
  }
})

t.test('the name of a merchant cannot change the text direction around it', async t => {
  const world = new PageWorld()
  world.merchants.set(7, { name: '\u202eevil\u2069 \u2066קפה' })
  const page = await pageOf(world, { merchantId: 7, status: 'expired', description: 'שתי כוסות קפה' })
  t.notMatch(page, '\u202e')
  t.match(page, 'ask \u2068evil קפה\u2069 for a new one')
  t.match(page, '<p class="description" dir="auto">שתי כוסות קפה</p>')
})

t.test('each state says in its title, heading and words what it is', async t => {
  const world = new PageWorld()
  const cases = [
    [{ status: 'unpaid' }, 'Pay €12.50 · Corner Coffee', 'Waiting for payment'],
    [{ status: 'processing' }, 'Confirming… · Corner Coffee', 'Payment detected'],
    [
      { status: 'underpaid', receivedSats: 10_000 },
      'Underpaid · Corner Coffee',
      '10,000\u00a0sats of 18,342\u00a0sats received.'
    ],
    [{ status: 'underpaid' }, 'Underpaid · Corner Coffee', 'Only part of the amount was received.'],
    [{ status: 'paid', paidAt: Date.parse('2026-11-21T09:05:00Z') }, 'Paid · Corner Coffee', 'Nov 21, 2026, 09:05 UTC'],
    [{ status: 'expired' }, 'Expired · Corner Coffee', 'This invoice has expired'],
    [{ status: 'refunded' }, 'Refunded · Corner Coffee', 'has refunded this payment']
  ] as const
  for (const [more, title, words] of cases) {
    const page = await pageOf(world, more)
    t.match(page, `<title>${title}</title>`)
    t.match(page, words)
    t.match(page, `data-status="${more.status}"`)
    t.equal(page.includes('class="qr"'), more.status === 'unpaid', 'only what can be paid has a code to pay')
    t.equal(page.includes(INVOICE), more.status === 'unpaid')
  }
})

t.test('without a program in the browser the page polls automatically until nothing changes any more', async t => {
  const world = new PageWorld()
  for (const status of ['unpaid', 'processing', 'underpaid'] as const) {
    t.match(
      await pageOf(world, { status }),
      '<noscript><meta http-equiv="refresh" content="10"/></noscript></head>',
      status
    )
  }
  for (const status of ['paid', 'expired', 'refunded'] as const)
    t.notMatch(await pageOf(world, { status }), 'http-equiv', status)
  t.match(await pageOf(world), '<time datetime="2026-11-21T01:00:00.000Z" data-left="3600000">until 01:00 UTC</time>')
})

t.test('successUrl: redirect after payment, and not before', async t => {
  const world = new PageWorld()
  const successUrl = 'https://shop.example/thanks?order=1&a=b'
  const paid = await pageOf(world, { status: 'paid', successUrl })
  t.match(
    paid,
    '<noscript><meta http-equiv="refresh" content="3; url=https://shop.example/thanks?order=1&amp;a=b"/></noscript>'
  )
  t.match(paid, 'href="https://shop.example/thanks?order=1&amp;a=b"')
  for (const status of ['unpaid', 'processing', 'underpaid', 'expired', 'refunded'] as const)
    t.notMatch(await pageOf(world, { status, successUrl }), 'thanks', status)
})

t.test('successUrl of any other scheme is never written', async t => {
  const world = new PageWorld()
  for (const successUrl of [
    'javascript:alert(1)',
    ' javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    '//evil.example',
    'nonsense',
    ''
  ]) {
    const page = await pageOf(world, { status: 'paid', successUrl })
    t.notMatch(page, 'id="continue"', successUrl)
    t.notMatch(page, 'http-equiv', successUrl)
  }
})

t.test('a demo invoice says that it confirms itself, and does so by the clock', async t => {
  const world = new PageWorld()
  const demo = world.add({ kind: 'demo', amount: '0', amountSats: null, confirmsAt: world.clock.now() + 5000 })
  const page = (await world.get(`/pay/${demo.payToken}`)).text
  t.match(page, 'This is a demo.')
  t.match(page, '€0.00')
  t.notMatch(page, 'href="lightning:')
  t.notMatch(page, 'class="satoshis"')
  world.clock.advance(5000)
  t.match((await world.get(`/pay/${demo.payToken}`)).text, 'No money was moved.')
})

t.test('pay page: past its end an invoice cannot be paid, and reads expired once that is recorded', async t => {
  const world = new PageWorld()
  const payment = world.add()
  world.clock.advance(3_599_999)
  t.match((await world.get(`/pay/${payment.payToken}`)).text, 'data-status="unpaid"')
  world.clock.advance(1)
  const { text } = await world.get(`/pay/${payment.payToken}`)
  t.match(text, 'data-status="unpaid"')
  t.match(text, 'Checking your payment')
  t.notMatch(text, INVOICE, 'nothing to pay is shown')
  world.change(payment, { status: 'expired' })
  t.match((await world.get(`/pay/${payment.payToken}`)).text, 'data-status="expired"')
})

t.test('an on-chain fallback is offered where the provider supplies one', async t => {
  const world = new PageWorld()
  const page = await pageOf(world, { onchainAddress: 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq' })
  t.match(page, `href="bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq?amount=0.00018342&amp;lightning=${INVOICE}"`)
  t.match(page, '>bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq</code>')
  t.notMatch(await pageOf(world, { onchainAddress: 'bc1q?amount=21' }), 'bitcoin:', 'an invalid address is not offered')
})

t.test('in development an invoice of the sandbox says how it is paid, and no other does', async t => {
  const command =
    `curl http://127.0.0.1:8080/sandbox/pay -H 'Content-Type: application/json' -d '{"invoice":"${INVOICE}"}'`.replaceAll(
      '"',
      '&quot;'
    )
  const hinting = new PageWorld({ sandbox: true })
  const page = await pageOf(hinting, { kind: 'sandbox' })
  t.match(page, command)
  t.notMatch(await pageOf(hinting, { kind: 'lnd' }), 'sandbox/pay')
  t.notMatch(await pageOf(hinting, { kind: 'sandbox', status: 'expired' }), 'sandbox/pay')
  t.notMatch(await pageOf(new PageWorld(), { kind: 'sandbox' }), 'sandbox/pay')
})

t.test(
  "an unpaid payment leads back to the merchant's site and names itself, without the address of success",
  async t => {
    const world = new PageWorld()
    const successUrl = 'https://shop.example:8443/thanks?order=1'
    for (const status of ['processing', 'underpaid', 'expired', 'refunded'] as const) {
      const payment = world.add({ status, successUrl })
      const { text } = await world.get(`/pay/${payment.payToken}`)
      t.match(text, 'href="https://shop.example:8443/"', status)
      t.match(text, `<span class="reference">${payment.invoiceId}</span>`, status)
    }
    t.notMatch(
      await pageOf(world, { status: 'unpaid', successUrl }),
      'shop.example',
      'while it can be paid, no link leaves the page'
    )
    t.notMatch(
      await pageOf(world, { status: 'expired', successUrl: 'javascript:alert(1)' }),
      'Back to',
      'no other scheme'
    )
  }
)

t.test('once a part has arrived on-chain, the page requests the rest, and no longer shows the invoice', async t => {
  const world = new PageWorld()
  const onchainAddress = 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq'
  const page = await pageOf(world, { status: 'underpaid', receivedSats: 10_000, onchainAddress })
  t.match(page, `href="bitcoin:${onchainAddress}?amount=0.00008342"`)
  t.match(page, 'class="qr"')
  t.match(page, 'Pay the remaining 8,342\u00a0sats to the same Bitcoin address.')
  t.notMatch(page, INVOICE)
  t.notMatch(
    await pageOf(world, { status: 'underpaid', receivedSats: 10_000 }),
    'class="qr"',
    'a Lightning invoice takes no rest'
  )
})

t.test('a description that scrolls can be reached by the keyboard', async t => {
  const world = new PageWorld()
  t.notMatch(await pageOf(world, { description: null }), 'class="description"')
  t.match(await pageOf(world, { description: 'x'.repeat(500) }), /class="description" dir="auto" tabindex="0"/)
  t.notMatch(await pageOf(world, { description: 'Coffee' }), /class="description"[^>]*tabindex/)
})
