/** A person with a phone buys in a shop: the cart, the invoice, and the page that asks for the address. */
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { noBrowser, openBrowser, openPage } from '../web/pay/browser.ts'

t.test('buying in a browser', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const { page, faults } = await openPage(t, await openBrowser(t), { viewport: { width: 320, height: 740 } })
  await page.goto(`${gateway.url}/storefront/demo`)
  await page.getByLabel('Quantity of Coin mug, Small').fill('2')
  await page.getByLabel('Country').selectOption('US')
  await page.getByLabel('Postal code').fill('94110')
  await page.getByLabel(/^State/).fill('CA')
  await page.getByRole('button', { name: 'Show total' }).click()
  await page.waitForURL(/\/pay\//)
  t.match(await page.getByRole('heading', { level: 1 }).textContent(), /^Pay \$\d+\.\d\d$/)
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 320)
  await gateway.pay((await page.locator('.field-text').first().textContent()) ?? '')
  await page.waitForURL(/\/claim\?/, { timeout: 60_000 })
  t.same(faults, [], 'its program and style run under its policy')
})
