/** What people come to the consoles for, from signing in to the end, on two kinds of screen; with pictures for the docs. */
import { fetchWithL402 } from '@getalby/lightning-tools/402'
import type { BrowserContextOptions, Page } from 'playwright-core'
import t from 'tap'
import { noBrowser, openBrowser, openPage, picture, signInWithKey } from '../pay/browser.ts'
import { countingUpstream } from '../../security/shop.ts'
import { mailedLinks } from '../sign-in/mails.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'

const PATIENCE = { timeout: 60_000 }
const SCREENS = [
  ['desktop', { colorScheme: 'light' }],
  ['phone without JavaScript', { viewport: { width: 360, height: 740 }, colorScheme: 'dark', javaScriptEnabled: false }]
] as const
const ADDRESS = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'

t.test('journeys through the consoles', { skip: noBrowser }, async t => {
  // On both screens at one address.
  const policies = ['magic-link', 'payment-create', 'write', 'admin', 'global', 'read']
    .map(name => `  ${name}: { limit: 10000, window: 1m }`)
    .join('\n')
  const gateway = await startGateway(t, { yaml: defaultYaml({ policies }) })
  await gateway.database.sql`update merchants set refunds_enabled = true`
  const upstream = await countingUpstream(t)
  const browser = await openBrowser(t)
  const open = async (options: BrowserContextOptions) => (await openPage(t, browser, options)).page
  const withKey = (page: Page, key: string) => signInWithKey(page, gateway.url, key)
  let key = gateway.merchant.apiKey
  const paid = async (orderId: string) => {
    const headers = { 'x-api-key': key }
    const body = { orderId, amount: '0.00002', currency: 'BTC' }
    const created = await gateway.send('POST', '/api/payments', { headers, body })
    const { invoiceId, lightningInvoice } = created.json() as { invoiceId: string; lightningInvoice: string }
    await gateway.pay(lightningInvoice)
    await gateway.send('POST', `/api/payments/${invoiceId}/sync`, { headers })
    return invoiceId
  }
  /** Gives a paid order back, by the form of its page. */
  const refund = async (page: Page, orderId: string) => {
    await page.goto(`${gateway.url}/console/payments?text=${orderId}`)
    await page.getByRole('link', { name: orderId }).click()
    await page.getByText('Refund payment').click()
    await page.getByLabel('Lightning address, Lightning invoice or Bitcoin address').fill(ADDRESS)
    await page.getByRole('button', { name: 'Refund', exact: true }).click()
    await page.getByText('Refund created.').waitFor(PATIENCE)
  }

  for (const [index, [name, options]] of SCREENS.entries()) {
    const id = `screen-${index}`
    await t.test(
      `an API is made and sells to a third-party client; it appears, is given back and exported: ${name}`,
      async t => {
        const page = await open(options)
        await withKey(page, key)
        await page.goto(`${gateway.url}/console/apis`)
        await page.getByLabel('1. Name').fill(`Weather ${name}`)
        await page.getByLabel('2. Address of your API').fill(upstream.origin)
        await page.getByLabel('3. Satoshis per request').fill('21')
        await page.getByRole('button', { name: 'Add API' }).click()
        await page.getByText('Created.').waitFor(PATIENCE)
        if (index === 0) await picture(page, 'console-api-desktop')
        const address = (await page.locator('#url').textContent()) ?? ''
        const response = await fetchWithL402(
          `${address}${id}`,
          {},
          {
            wallet: { payInvoice: async ({ invoice }) => ({ preimage: await gateway.pay(invoice) }) }
          }
        )
        t.equal(await response.text(), 'sold')
        await page.goto(`${gateway.url}/console/sales`)
        t.ok(await page.getByText('21 sats').first().isVisible())
        const orderId = `order-${id}`
        const invoiceId = await paid(orderId)
        await refund(page, orderId)
        if (index === 1) await picture(page, 'console-refund-phone')
        await page.goto(`${gateway.url}/console/payments`)
        const csv = await page.request.get(
          new URL((await page.getByRole('link', { name: 'CSV' }).getAttribute('href')) ?? '', page.url()).href
        )
        t.match(csv.headers()['content-type'], 'text/csv')
        t.match(await csv.text(), invoiceId)
        t.equal(
          await page.evaluate('document.documentElement.scrollWidth').catch(() => 0),
          'viewport' in options ? 360 : 1280
        )
      }
    )

    await t.test(`a key that is lost is replaced through the mail; the old one is refused: ${name}`, async t => {
      const page = await open(options)
      const lost = key
      const me = await gateway.send('GET', '/api/merchant/me', { headers: { 'x-api-key': lost } })
      const { email } = me.json() as { email: string }
      await page.goto(`${gateway.url}/sign-in?next=console/keys`)
      await page.getByLabel('Email').fill(email)
      await page.getByRole('button', { name: 'Email me a link' }).click()
      const link = (await mailedLinks(gateway.data, email, index + 1))[index] ?? ''
      await page.goto(link)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.waitForURL('**/console/keys', PATIENCE)
      await page.locator('summary', { hasText: 'Replace' }).first().click()
      await page
        .getByRole('button', { name: /^Replace/ })
        .first()
        .click()
      await page.getByRole('heading', { name: 'Your new API key' }).waitFor(PATIENCE)
      key = (await page.locator('#key').textContent()) ?? ''
      if (index === 1) await picture(page, 'console-key-phone')
      const statusOf = async (apiKey: string) =>
        (await gateway.send('GET', '/api/merchant/me', { headers: { 'x-api-key': apiKey } })).status
      t.equal(await statusOf(key), 200)
      t.equal(await statusOf(lost), 401)
      t.equal((await page.request.get(`${gateway.url}/api/merchant/me`)).status(), 200, 'the person stays signed in')

      await t.test('and the operator resolves a refund whose answer was lost', async t => {
        const orderId = `stuck-${id}`
        const invoiceId = await paid(orderId)
        await refund(page, orderId)
        // What is left of a refund whose answer was lost an hour ago, at a provider that cannot be asked for it.
        await gateway.database.sql`
        update refunds set status = 'pending', provider_refund_id = null, transaction_hash = null, processed_at = null,
          created_at = now() - interval '1 hour', next_check_at = now() + interval '1 hour'
        where invoice_id = ${invoiceId}`
        const operator = await open(options)
        await withKey(operator, gateway.adminKey)
        await operator.goto(`${gateway.url}/operator/refunds`)
        await operator.locator('table a').first().click()
        await operator.getByLabel('Outcome').selectOption('not-sent')
        await operator.getByLabel('Settled by').fill('Ada')
        await operator.getByLabel('Evidence').fill("The provider's own list has no such payout.")
        if (index === 0) await picture(operator, 'operator-refund')
        await operator.getByRole('button', { name: 'Settle' }).click()
        await operator.getByText('Saved.').waitFor(PATIENCE)
        await refund(page, orderId)
        const states = await gateway.database.sql<Array<{ status: string }>>`
        select status from refunds where invoice_id = ${invoiceId} order by created_at`
        t.same(
          states.map(({ status }) => status === 'failed'),
          [true, false],
          'and the merchant gives the money back after all'
        )
      })
    })
  }
})
