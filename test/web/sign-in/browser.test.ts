import t from 'tap'
import { noBrowser, openBrowser, openPage, readQrCode } from '../pay/browser.ts'
import { startGateway } from '../../support/gateway.ts'
import { mailedLinks } from './mails.ts'

const EMAIL = 'buyer@example.com'
const PATIENCE = { timeout: 60_000 }

t.test('a plan bought on its pay page, approved, and signed in to, in a browser', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const browser = await openBrowser(t)
  const admin = { 'x-api-key': gateway.adminKey }

  await t.test(
    'the pay page of a plan shows the invoice, turns to paid automatically, and polls where it cannot listen',
    async t => {
      for (const listens of [true, false]) {
        const answer = await gateway.send('POST', '/api/bitcoin/create-subscription', {
          body: { plan: 'individual', email: EMAIL, customerName: 'Buyer' }
        })
        const { payUrl, lightningInvoice } = answer.json() as { payUrl: string; lightningInvoice: string }
        const { page, faults } = await openPage(t, browser, listens ? {} : { viewport: { width: 360, height: 740 } })
        if (!listens) await page.route('**/events', route => route.abort())
        const followed = page.waitForResponse(listens ? /\/pay\/[^/]+\/events$/ : /\/pay\/[^/]+\/status$/)
        await page.goto(payUrl)
        t.equal(await page.title(), 'Pay $49.00 · boltgate')
        t.ok(await page.getByText('Agentic Commerce, one month').isVisible())
        t.equal(((await readQrCode(page)) ?? '').toLowerCase(), `lightning:${lightningInvoice}`)
        t.equal((await followed).status(), 200)
        await gateway.pay(lightningInvoice)
        await page.getByRole('heading', { name: 'Paid', exact: true }).waitFor(PATIENCE)
        t.same(
          faults.filter(text => !text.includes('net::ERR_FAILED')),
          []
        )
      }
    }
  )

  const pending = (await gateway.send('GET', '/api/admin/pending-subscriptions', { headers: admin })).json() as Array<{
    id: number
  }>
  t.equal(pending.length, 1, 'two months of one subscription')
  const approved = await gateway.send('POST', `/api/admin/pending-subscriptions/${pending[0]?.id ?? 0}/approve`, {
    headers: admin
  })
  t.equal(approved.status, 200)
  const [link = ''] = await mailedLinks(gateway.data, EMAIL, 1)

  await t.test('the mailed link signs in with one button; the account is shown until signing out', async t => {
    const { page, faults } = await openPage(t, browser, { javaScriptEnabled: false })
    await page.goto(link)
    await page.goto(link)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL('**/console?welcome', PATIENCE)
    await page.goto(`${gateway.url}/sign-in/account`)
    for (const text of ['Buyer', EMAIL, 'Agentic Commerce', 'active'])
      t.ok(await page.getByText(text, { exact: true }).first().isVisible(), text)
    const [cookie] = await page.context().cookies()
    t.match(cookie, { name: 'boltgate-session', httpOnly: true, sameSite: 'Lax', path: '/' })
    await page.goto(`${gateway.url}/sign-in/account`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'You are not signed in' }).waitFor(PATIENCE)
    t.same(await page.context().cookies(), [])
    t.same(
      faults.filter(text => !text.includes('401')),
      []
    )
  })

  await t.test('the link is used up, and another can be requested, on a phone', async t => {
    const { page, faults } = await openPage(t, browser, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' })
    await page.goto(link)
    await page.getByRole('link', { name: 'Get a new link' }).click()
    await page.getByLabel('Email').fill(EMAIL)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Check your email' }).waitFor(PATIENCE)
    const links = await mailedLinks(gateway.data, EMAIL, 2)
    await page.goto(links.at(-1) ?? '')
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL('**/console?welcome', PATIENCE)
    await page.goto(`${gateway.url}/sign-in/account`)
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, 'nothing is cut off')
    t.same(
      await page.evaluate('fetch("/api/auth/session").then(answer => answer.status, () => "refused")'),
      'refused',
      'no program runs on these pages'
    )
    t.same(
      faults.filter(text => !text.includes('404') && !/Content.Security.Policy|Refused to connect/i.test(text)),
      []
    )
  })
})
