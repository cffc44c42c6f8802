import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { stopwatch } from '../../support/passing-time.ts'
import { LOW_CONTRAST, noBrowser, openBrowser, openPage, picture, readQrCode } from './browser.ts'
import { INVOICE, PageWorld, servePages } from './page-server.ts'

const skip = noBrowser
const LIGHT = { colorScheme: 'light' } as const

/** A place where merchants' pages would be; it answers so that a redirect ends somewhere. */
const SHOP = 'https://shop.example/thanks'

/** What the tests of the real gateway read of a created payment. */
interface Created {
  readonly invoiceId: string
  readonly lightningInvoice: string
  readonly payUrl: string
}

t.test('on the gateway', { skip }, async t => {
  const gateway = await startGateway(t, { yaml: defaultYaml() })
  const browser = await openBrowser(t)
  let count = 0
  const create = async (more: object = {}) => {
    const answer = await gateway.merchantSend('POST', '/api/payments', {
      orderId: `order-${++count}`,
      amount: 0.00018342,
      currency: 'BTC',
      description: 'Two flat whites and a slice of carrot cake',
      ...more
    })
    if (answer.status !== 201) throw new Error(answer.text)
    // What the operation's own schema promises.
    return answer.json() as Created
  }

  t.test('the QR code decodes to the invoice', async t => {
    const payment = await create()
    for (const options of [
      LIGHT,
      { colorScheme: 'dark' },
      { viewport: { width: 360, height: 740 } },
      { colorScheme: 'dark', forcedColors: 'active' },
      { colorScheme: 'light', forcedColors: 'active' }
    ] as const) {
      const { page, faults } = await openPage(t, browser, options)
      await page.goto(payment.payUrl)
      if (options === LIGHT) await picture(page, 'pay-light')
      const read = (await readQrCode(page)) ?? ''
      t.match(read, /^LIGHTNING:LNBCRT[0-9A-Z]+$/, 'alphanumeric, which keeps the code coarse')
      t.equal(read.slice('lightning:'.length).toLowerCase(), payment.lightningInvoice)
      t.equal(
        await page.getByRole('link', { name: 'Open in wallet' }).getAttribute('href'),
        `lightning:${payment.lightningInvoice}`
      )
      t.same(faults, [])
    }
  })

  t.test('paying through the sandbox turns the page to paid in under two seconds', async t => {
    const payment = await create()
    const { page, faults } = await openPage(t, browser)
    const events = page.waitForResponse(/\/events$/)
    await page.goto(payment.payUrl)
    t.equal(await page.title(), 'Pay 0.00018342\u00a0BTC · First merchant')
    const loads: string[] = []
    page.on('load', () => {
      loads.push(page.url())
    })
    t.equal((await events).headers()['content-type'], 'text/event-stream')
    const took = stopwatch(t)
    await gateway.pay(payment.lightningInvoice)
    await page.getByRole('heading', { name: 'Paid', exact: true }).waitFor()
    t.ok(took() < 2000, `it took ${took()} ms`)
    t.equal(await page.title(), 'Paid · First merchant')
    t.match(await page.locator('#announcement').textContent(), /^Paid\. Thank you\./)
    t.same(loads, [], 'without a reload')
    t.same(faults, [], 'no console error, no Content-Security-Policy violation')
  })

  t.test('once paid, the browser continues to successUrl', async t => {
    const payment = await create({ successUrl: `${SHOP}?order=7` })
    const { page, faults } = await openPage(t, browser)
    await page.route('https://shop.example/**', route =>
      route.fulfill({ contentType: 'text/html', body: '<title>Thanks</title>' })
    )
    await page.goto(payment.payUrl)
    await gateway.pay(payment.lightningInvoice)
    const link = page.getByRole('link', { name: 'Back to First merchant' })
    await link.waitFor()
    t.equal(await link.getAttribute('href'), `${SHOP}?order=7`)
    await page.waitForURL(`${SHOP}?order=7`)
    t.equal(await page.evaluate('document.referrer'), '', 'the shop does not learn the address of the page')
    t.same(faults, [])
  })

  t.test('everything but the live status works without JavaScript', async t => {
    const payment = await create()
    const { page } = await openPage(t, browser, { javaScriptEnabled: false })
    await page.goto(payment.payUrl)
    for (const text of [
      'First merchant',
      '0.00018342\u00a0BTC',
      '18,342\u00a0sats',
      'Two flat whites and a slice of carrot cake',
      'Waiting for payment',
      payment.lightningInvoice
    ]) {
      t.ok(await page.getByText(text).first().isVisible(), text)
    }
    t.match(await page.locator('time').textContent(), /^until \d\d:\d\d UTC$/)
    t.equal(
      await page.locator('button:not(form button)').filter({ visible: true }).count(),
      0,
      'no button that does nothing'
    )
    t.same(
      await page.locator('form button').allTextContents(),
      ['Pay in sandbox'],
      'what a form sends needs no program'
    )
    t.match(await readQrCode(page), /^LIGHTNING:LNBCRT/)
    await gateway.pay(payment.lightningInvoice)
    await page.reload()
    t.ok(await page.getByRole('heading', { name: 'Paid', exact: true }).isVisible())
  })
})

t.test('in every state', { skip }, async t => {
  const world = new PageWorld()
  const browser = await openBrowser(t)
  const url = await servePages(t, world)

  t.test('the page changes automatically: processing, underpaid, paid', async t => {
    const payment = world.add()
    const { page, faults } = await openPage(t, browser)
    await page.goto(`${url}/pay/${payment.payToken}`)
    for (const [status, heading] of [
      ['processing', 'Payment detected'],
      ['underpaid', 'Payment incomplete'],
      ['paid', 'Paid']
    ] as const) {
      world.change(payment, { status, receivedSats: 10_000 })
      await page.getByRole('heading', { name: heading, exact: true }).waitFor()
    }
    t.same(faults, [])
  })

  t.test('at its end it is checked, and expires once that is recorded', async t => {
    const payment = world.add({ expiresAt: world.clock.now() + 3_000 })
    const { page, faults } = await openPage(t, browser)
    await page.goto(`${url}/pay/${payment.payToken}`)
    t.match(await page.locator('time').textContent(), /^0:\d\d$/)
    await listening(t, world)
    world.clock.advance(3_000)
    await page.getByRole('heading', { name: 'Checking your payment' }).waitFor()
    t.equal(await page.locator('.qr').count(), 0, 'nothing is left to pay')
    world.change(payment, { status: 'expired' })
    await page.getByRole('heading', { name: 'This invoice has expired' }).waitFor()
    t.equal(await page.title(), 'Expired · Corner Coffee')
    t.same(faults, [])
  })

  t.test('it polls while it cannot listen', async t => {
    const payment = world.add()
    const { page, faults } = await openPage(t, browser)
    await page.route('**/events', route => route.abort())
    const polled = page.waitForResponse(`${url}/pay/${payment.payToken}/status`)
    await page.goto(`${url}/pay/${payment.payToken}`)
    t.same(await (await polled).json(), { status: 'unpaid' })
    world.change(payment, { status: 'paid' })
    await page.getByRole('heading', { name: 'Paid', exact: true }).waitFor()
    t.same(
      faults.filter(text => !text.includes('net::ERR_FAILED')),
      [],
      'nothing but the failure that the test makes'
    )
  })

  t.test('the invoice can be copied, with the keyboard alone', async t => {
    const payment = world.add()
    const { page, faults } = await openPage(t, browser, { permissions: ['clipboard-read', 'clipboard-write'] })
    await page.goto(`${url}/pay/${payment.payToken}`)
    const names: string[] = []
    for (let press = 0; press < 3; press++) {
      await page.keyboard.press('Tab')
      names.push(
        await page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.className')
      )
    }
    t.same(names, ['button', 'field-text', 'Copy: Lightning invoice'])
    await page.keyboard.press('Enter')
    await page.locator('#announcement', { hasText: 'Copied' }).waitFor()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), INVOICE)
    t.same(faults, [])
  })

  t.test('nothing is cut off on a phone of 360 pixels, and words can be read in both schemes', async t => {
    world.merchants.set(8, { name: 'Ł'.repeat(200) })
    const payments = [
      world.add({ kind: 'sandbox', onchainAddress: 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq' }),
      world.add({ merchantId: 8, amount: '1234567.89', description: 'W'.repeat(500) }),
      ...(['processing', 'underpaid', 'paid', 'expired', 'refunded'] as const).map(status =>
        world.add({ status, merchantId: 8 })
      )
    ]
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await openPage(t, browser, {
        colorScheme,
        viewport: { width: 360, height: 740 },
        reducedMotion: 'reduce'
      })
      for (const payment of payments) {
        await page.goto(`${url}/pay/${payment.payToken}`)
        t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, payment.status)
        t.same(await page.evaluate(LOW_CONTRAST), [], `${colorScheme}, ${payment.status}: WCAG AA`)
        t.equal(await page.evaluate('document.getAnimations().length'), 0, 'reduced motion is respected')
      }
    }
  })
})

/** Waits until a page listens to its payment's events. */
async function listening(t: T, world: PageWorld) {
  const deadline = performance.now() + 10_000
  while (world.listeners === 0) {
    if (performance.now() > deadline) t.fail('no page listens')
    await setImmediate()
  }
}
