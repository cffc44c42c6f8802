import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import t from 'tap'
import { noBrowser, openBrowser, openPage, picture, signInWithKey } from '../pay/browser.ts'
import { makeApi, makePayment } from './session.ts'
import { startGateway } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { isAuthentic, startReceiver } from '../../fakes/receiver.ts'
import { fillTraffic } from '../../accounts/traffic/fixture.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const PATIENCE = { timeout: 60_000 }
/** Bytes of a page with what it loads. */
const MOST = 60_000

/** Rules of axe that another color scheme or width can break, where all of them hold in the first. */
const LOOKS = { runOnly: ['color-contrast', 'scrollable-region-focusable'] }

/** What axe finds, as `rule: element`. */
async function faultsOf(page: Page, options: Readonly<Record<string, unknown>> = {}) {
  // The page's policy lets no script in that is written into it; this is run from outside, as the browser's own tools are.
  await page.evaluate(AXE)
  // What axe.run gives, as far as it is read.
  const found = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as {
    violations: Array<{ id: string; nodes: Array<{ html: string }> }>
  }
  return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`))
}

/**
 * What the Tab key does not come to, or where nothing shows that it has. Run in the page; radio buttons of a group are one
 * stop, what is not to be seen is none, and of a date the browser marks the part that is typed into.
 */
const STOPS = `globalThis.stops = [...document.querySelectorAll('a[href], button, input:not([type=hidden], [type=radio]), select, textarea, summary')]
  .filter(each => each.checkVisibility({ visibilityProperty: true }) && !each.disabled)`
const AT = `(() => {
  const at = document.activeElement
  const { outlineStyle, boxShadow } = getComputedStyle(at)
  return { stop: globalThis.stops.indexOf(at), isEnd: at === document.body, isSeen: at.type === 'date' || outlineStyle !== 'none' || boxShadow !== 'none' }
})()`

async function notByKeyboard(page: Page) {
  await page.evaluate(STOPS)
  const count = Number(await page.evaluate('globalThis.stops.length'))
  const [reached, unseen] = [new Set<number>(), new Set<number>()]
  // A scrolling table and a group of radio buttons are stops too.
  for (let presses = 0; presses < count + 20; presses++) {
    await page.keyboard.press('Tab')
    // What AT gives.
    const { stop, isEnd, isSeen } = (await page.evaluate(AT)) as { stop: number; isEnd: boolean; isSeen: boolean }
    if (isEnd && presses > 0) break
    if (stop >= 0) reached.add(stop)
    if (stop >= 0 && !isSeen) unseen.add(stop)
  }
  const missed = Array.from({ length: count }, (_, stop) => stop).filter(stop => !reached.has(stop) || unseen.has(stop))
  const named = missed.map(stop => page.evaluate(`globalThis.stops[${stop}].outerHTML.slice(0, 160)`))
  return (await Promise.all(named)).map(String)
}

t.test('the console in a browser', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const browser = await openBrowser(t)
  const signIn = (page: Page, key: string) => signInWithKey(page, gateway.url, key)

  await t.test('without a program: a further webhook endpoint is made, tried, paused and removed', async t => {
    const receiver = await startReceiver()
    t.teardown(() => receiver.close())
    const { page, faults } = await openPage(t, browser, { javaScriptEnabled: false })
    await signIn(page, gateway.merchant.apiKey)
    await page.goto(`${gateway.url}/console/webhooks`)
    await page.getByText('Add another endpoint').click()
    await page.getByLabel('Endpoint URL').fill(`${receiver.url}/ledger`)
    await page.getByLabel('payment.paid').check()
    await page.getByRole('button', { name: 'Add endpoint' }).click()
    const secret = (await page.locator('#secret').textContent()) ?? ''
    await page.getByRole('link', { name: 'I have saved it' }).click()
    await page.getByRole('button', { name: /^Send test event/ }).click()
    await page.getByRole('heading', { name: 'Test event delivered' }).waitFor(PATIENCE)
    const [sent] = receiver.received
    t.ok(sent !== undefined && isAuthentic(sent, secret, Date.now()))
    await makePayment(gateway, { orderId: 'told twice' }, true)
    await receiver.until(2)
    await page.goto(`${gateway.url}/console/webhooks`)
    t.ok(await page.getByRole('rowheader', { name: 'payment.paid' }).isVisible())
    await page.getByRole('link', { name: `${receiver.url}/ledger` }).click()
    t.ok(await page.getByLabel('payment.paid').isChecked())
    await page.getByText('Pause endpoint', { exact: true }).click()
    await page.getByRole('button', { name: 'Pause', exact: true }).click()
    t.ok(await page.getByText('paused', { exact: true }).isVisible())
    await page.getByText('Remove endpoint', { exact: true }).click()
    await page.getByRole('button', { name: 'Remove', exact: true }).click()
    t.ok(await page.getByText('No endpoints yet').isVisible())
    t.same(faults, [])
  })

  await t.test(
    'without a program: a plan is bought by card, and its card is changed on the page of the card',
    async t => {
      await gateway.database.sql`update merchants set plan_tier = 'free' where id = ${gateway.merchant.id}`
      const { page, faults } = await openPage(t, browser, { javaScriptEnabled: false })
      await signIn(page, gateway.merchant.apiKey)
      await page.goto(`${gateway.url}/console/plan`)
      await page.getByRole('button', { name: /Subscribe by card/ }).click()
      await page.waitForURL('**/billing/sandbox/**', PATIENCE)
      await page.getByRole('button', { name: 'Subscribe' }).click()
      await page.getByRole('link', { name: 'Continue' }).click()
      await page.waitForURL('**/console/plan', PATIENCE)
      for (let at = 0; at < 50 && !(await page.getByText('by card on').isVisible()); at++) await page.reload()
      t.ok(await page.getByText('by card on').isVisible(), 'the next payment')
      await page.getByRole('button', { name: 'Manage card, invoices and cancellation' }).click()
      await page.getByRole('heading', { name: 'Your subscription' }).waitFor(PATIENCE)
      await page.getByRole('link', { name: 'Go back' }).click()
      await page.waitForURL('**/console/plan', PATIENCE)
      t.same(faults, [])
    }
  )

  await t.test('the page of the card may be at another host: the policy lets the browser go there', async t => {
    const { page, faults } = await openPage(t, browser)
    await signIn(page, gateway.merchant.apiKey)
    await page.route('**/console/plan', async route => {
      if (route.request().method() !== 'POST') return await route.continue()
      const response = await route.fetch()
      const body = (await response.text()).replaceAll(
        /http:\/\/[^"]+\/billing\/sandbox\/[^"]+/g,
        'https://billing.example/card'
      )
      await route.fulfill({ response, body })
    })
    await page.route('https://billing.example/**', route => route.fulfill({ body: 'the page of the card' }))
    await page.goto(`${gateway.url}/console/plan`)
    await page.getByRole('button', { name: 'Manage card, invoices and cancellation' }).click()
    await page.waitForURL('https://billing.example/card', PATIENCE)
    t.same(faults, [])
  })

  await t.test('without a program: a store is opened, closed, and its order is given back', async t => {
    await gateway.database.sql`update merchants set refunds_enabled = true`
    const { page, faults } = await openPage(t, browser, { javaScriptEnabled: false })
    await signIn(page, gateway.merchant.apiKey)
    await page.goto(`${gateway.url}/console/store`)
    const slug = new URL(
      (await page.getByRole('link', { name: 'View store' }).getAttribute('href')) ?? '',
      page.url()
    ).pathname
      .split('/')
      .at(-1)
    const body = { items: [{ variantId: 10101, quantity: 1 }] }
    const headers = { 'x-buyer-location': 'US-CA-94107' }
    const response = await gateway.send('POST', `/api/storefront/${slug}/checkout`, { headers, body })
    const [, invoice = ''] = /invoice="([^"]+)"/.exec(String(response.headers['www-authenticate'])) ?? []
    await page.goto(`${gateway.url}/console/store`)
    t.ok(await page.locator('.badge', { hasText: 'unpaid' }).first().isVisible())
    await page.getByText('Close store', { exact: true }).click()
    await page.getByRole('button', { name: 'Close', exact: true }).click()
    t.ok(await page.getByText('The store is closed').isVisible())
    await page.getByRole('button', { name: 'Reopen' }).click()
    await page.getByLabel('Description in the directory').fill('Books <b>')
    await page.getByRole('button', { name: 'Save' }).first().click()
    t.equal(await page.getByLabel('Description in the directory').inputValue(), 'Books <b>')
    await gateway.pay(invoice)
    const giveBack = page.getByText('Refund order').first()
    for (let at = 0; at < 50 && !(await giveBack.isVisible()); at++) await page.reload()
    await giveBack.click()
    await page.getByLabel('Refund address', { exact: true }).fill('bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080')
    await page.getByRole('button', { name: /^Refund/ }).click()
    t.ok(await page.getByText('Refund created.').isVisible())
    t.same(faults, [])
  })

  await t.test(
    'every page of both consoles: axe finds nothing, all is reached by keyboard, 320 pixels are enough, light and dark, under 60 KB, no other host is called',
    async t => {
      for (let at = 1; at <= 3; at++)
        await makePayment(gateway, { orderId: `order ${at} <script>alert(1)</script>`, customerName: 'עברית 🦊' })
      const proxyId = await makeApi(gateway)
      const { invoiceId } = await makePayment(gateway)
      const { endpointId } = (
        await gateway.merchantSend('POST', '/api/merchant/webhooks/endpoints', {
          url: 'http://localhost:9900/hooks',
          events: ['payment.paid']
        })
      ).json() as { endpointId: string }
      await makePayment(gateway, { orderId: 'told' }, true)
      const deliveryId = await eventually('a webhook is written', async () => {
        const listed = await gateway.merchantSend('GET', '/api/merchant/webhooks/deliveries')
        return (listed.json() as { deliveries: Array<{ id: string }> }).deliveries[0]?.id ?? null
      })
      const ids: Readonly<Record<string, string>> = {
        invoiceId,
        proxyId,
        endpointId,
        deliveryId,
        merchantId: String(gateway.merchant.id),
        sessionId: '0'.repeat(64)
      }
      await fillTraffic(gateway.database, '* /demo/*')
      for (const [console, key] of [
        ['console', gateway.merchant.apiKey],
        ['operator', gateway.adminKey]
      ] as const) {
        const paths = gateway.operations
          .filter(({ method, path }) => method === 'GET' && new RegExp(`^/${console}(/|$)`).test(path))
          .map(({ path }) => path.replaceAll(/:(\w+)/g, (_whole, name: string) => ids[name] ?? '1'))
        for (const options of [
          { colorScheme: 'light' },
          { colorScheme: 'dark', viewport: { width: 320, height: 640 } }
        ] as const) {
          const { page, faults } = await openPage(t, browser, options)
          await signIn(page, key)
          for (const path of paths) {
            const loaded: Array<Promise<number>> = []
            const others: string[] = []
            const count = (response: { url(): string; body(): Promise<Buffer> }) => {
              if (!response.url().startsWith(gateway.url)) others.push(response.url())
              loaded.push(
                response.body().then(
                  body => body.byteLength,
                  () => 0
                )
              )
            }
            page.on('response', count)
            await page.goto(`${gateway.url}${path}`)
            page.off('response', count)
            const bytes = (await Promise.all(loaded)).reduce((sum, size) => sum + size, 0)
            const name = `${path} (${options.colorScheme})`
            t.same(await faultsOf(page, 'viewport' in options ? LOOKS : {}), [], `${name}: axe`)
            t.ok(bytes < MOST, `${name}: ${bytes} bytes`)
            t.same(others, [], `${name}: no other host is called`)
            if (!('viewport' in options)) t.same(await notByKeyboard(page), [], `${name}: by keyboard`)
            if ('viewport' in options)
              t.equal(await page.evaluate('document.documentElement.scrollWidth'), 320, `${name}: width`)
            if (path === '/console') await picture(page, `console-${options.colorScheme}`)
            if (path === '/operator' && !('viewport' in options)) await picture(page, 'operator')
            if (path === '/operator/routes' && !('viewport' in options)) await picture(page, 'operator-routes')
          }
          t.same(
            faults.filter(text => !text.includes('404')),
            []
          )
        }
      }
    }
  )

  await t.test('a list updates while it is open, and leaves rows in use alone', async t => {
    const { page, faults } = await openPage(t, browser)
    await signIn(page, gateway.merchant.apiKey)
    await page.goto(`${gateway.url}/console/payments`)
    const created = await makePayment(gateway, { orderId: 'while <b>looking' })
    const row = page.getByRole('row', { name: 'while <b>looking' })
    await row.waitFor(PATIENCE)
    t.notMatch(await row.textContent(), /UTC/, 'in the own time of the reader')
    await row.getByRole('link').focus()
    await gateway.pay(created.lightningInvoice)
    t.equal(await page.evaluate('document.activeElement.textContent'), 'while <b>looking')
    await row.getByRole('link').blur()
    await row.getByText('paid', { exact: true }).waitFor(PATIENCE)
    t.same(faults, [])
  })
})
