import t from 'tap'
import { LOW_CONTRAST, noBrowser, openBrowser, openPage } from '../web/pay/browser.ts'
import { startGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'

const PATIENCE = { timeout: 60_000 }

t.test(
  "a checkout of the sandbox in a browser, without a program and under the pages' policy",
  { skip: noBrowser },
  async t => {
    const gateway = await startGateway(t)
    const browser = await openBrowser(t)
    const open = async (path: string, body: object) =>
      (await gateway.merchantSend('POST', path, body)).json() as Record<string, string>

    for (const look of [
      { colorScheme: 'light' },
      { colorScheme: 'dark', viewport: { width: 360, height: 740 } }
    ] as const) {
      const { checkoutUrl = '' } = (
        await gateway.send('POST', '/api/billing/create-checkout-session', {
          body: { plan: 'individual', email: 'buyer@example.com' }
        })
      ).json() as Record<string, string>
      const { page, faults } = await openPage(t, browser, look)
      await page.goto(checkoutUrl)
      t.ok(await page.getByRole('heading', { name: 'Agentic Commerce', exact: true }).isVisible())
      t.same(await page.evaluate(LOW_CONTRAST), [], `${look.colorScheme}: every text can be read`)
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('heading', { name: 'Subscribed' }).waitFor(PATIENCE)
      t.equal(page.url(), checkoutUrl, 'reloading creates nothing again')
      await page.getByRole('link', { name: 'Continue' }).click()
      await page.getByRole('heading', { name: 'Thank you' }).waitFor(PATIENCE)
      t.same(faults, [])
    }

    await t.test('and the portal: canceling ends it', async t => {
      const { checkoutUrl = '' } = await open('/api/billing/create-checkout-session', {
        plan: 'individual',
        email: 'shop@example.com'
      })
      const { page, faults } = await openPage(t, browser)
      await page.goto(checkoutUrl)
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('heading', { name: 'Subscribed' }).waitFor(PATIENCE)
      // The account learns of its customer by a job.
      const portalUrl = await eventually(
        'the account has a customer',
        async () =>
          (await open('/api/billing/customer-portal', { returnUrl: `${gateway.url}/billing/done` }))['portalUrl'] ??
          null
      )
      await page.goto(portalUrl)
      await page.getByRole('button', { name: 'Cancel subscription now' }).click()
      await page.getByText('Agentic Commerce: canceled').waitFor(PATIENCE)
      t.equal(await page.getByRole('button').count(), 0)
      t.same(faults, [])
    })
  }
)
