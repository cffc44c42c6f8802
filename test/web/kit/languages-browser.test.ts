/** What a reader with a German browser sees of the pay page and of the console, and how another language is chosen. */
import t from 'tap'
import { startGateway } from '../../support/gateway.ts'
import { noBrowser, openBrowser, openPage, signInWithKey } from '../pay/browser.ts'

const PATIENCE = { timeout: 60_000 }
/** Runs in the page. */
const OVERFLOW = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'

t.test('pages in a German browser', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const browser = await openBrowser(t)
  const german = { locale: 'de-DE', viewport: { width: 320, height: 800 } }

  await t.test('pay page: German until paid, and English by a link', async t => {
    const created = await gateway.merchantSend('POST', '/api/payments', {
      orderId: 'a-1',
      amount: '0.00012345',
      currency: 'BTC'
    })
    const { payUrl, lightningInvoice } = created.json() as { payUrl: string; lightningInvoice: string }
    const { page, faults } = await openPage(t, browser, german)
    await page.goto(payUrl)
    t.equal(await page.locator('html').getAttribute('lang'), 'de')
    t.match(await page.title(), /^0,00012345\sBTC bezahlen · /)
    t.ok(await page.getByText('12.345\u00a0sats').isVisible())
    t.equal(await page.evaluate(OVERFLOW), 0)
    await page.getByRole('button', { name: 'Kopieren: Lightning-Rechnung' }).click()
    await page.getByRole('button', { name: 'Kopieren: Lightning-Rechnung' }).waitFor(PATIENCE)
    await gateway.pay(lightningInvoice)
    await page.getByRole('heading', { name: 'Bezahlt', exact: true }).waitFor(PATIENCE)
    await page.getByRole('link', { name: 'English' }).click()
    await page.getByRole('heading', { name: 'Paid', exact: true }).waitFor(PATIENCE)
    await page.goto(payUrl)
    t.equal(await page.locator('html').getAttribute('lang'), 'en', 'the choice is kept')
    t.same(faults, [])
  })

  await t.test('console: German labels, and names as they were typed', async t => {
    await gateway.merchantSend('POST', '/api/proxy', {
      name: 'Payments',
      targetBaseUrl: 'https://api.example.com',
      defaultPriceSats: 1
    })
    const { page, faults } = await openPage(t, browser, german)
    await signInWithKey(page, gateway.url, gateway.merchant.apiKey)
    await page.getByRole('heading', { name: 'Übersicht' }).waitFor(PATIENCE)
    for (const path of ['', '/payments', '/apis', '/settings', '/keys', '/webhooks', '/till']) {
      await page.goto(`${gateway.url}/console${path}`)
      t.equal(await page.evaluate(OVERFLOW), 0, path)
    }
    await page.goto(`${gateway.url}/console/apis`)
    await page.getByRole('link', { name: 'Payments', exact: true }).click()
    await page.getByRole('heading', { name: 'Payments', exact: true }).waitFor(PATIENCE)
    t.same(faults, [])
  })
})
