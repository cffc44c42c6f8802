import { createServer } from 'node:http'
import { PNG } from 'pngjs'
import type { BrowserContextOptions } from 'playwright-core'
import t from 'tap'
import { gatewayYaml } from '../../../src/app/cli/init-file.ts'
import { startGateway } from '../../support/gateway.ts'
import { LOW_CONTRAST, noBrowser, openBrowser, openPage, picture, readQrCode } from './browser.ts'
import { serve } from '../../support/serve.ts'

const skip = noBrowser
const PHONE = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true } as const
/** A 402 is an error to a browser's console, whatever its page says. */
const less402 = (faults: readonly string[]) => faults.filter(text => !text.includes('402'))

t.test('a person buys from a 402 with a wallet alone', { skip }, async t => {
  const image = PNG.sync.write(Object.assign(new PNG({ width: 2, height: 2 }), { data: Buffer.alloc(16, 200) }))
  const site = createServer((request, response) => {
    const path = request.url ?? ''
    if (path.endsWith('.zip'))
      response
        .writeHead(200, {
          'content-type': 'application/zip',
          'content-disposition': 'attachment; filename="notes.zip"'
        })
        .end('PK the notes')
    else if (path.endsWith('.png')) response.writeHead(200, { 'content-type': 'image/png' }).end(image)
    else response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('<h1>The whole article</h1>')
  })
  const upstream = `http://127.0.0.1:${await serve(t, site)}`
  const yaml = gatewayYaml({
    sell: 'api',
    upstream,
    path: '/files/*',
    price: '210 sats',
    provider: 'sandbox',
    production: false
  })
  const gateway = await startGateway(t, {
    yaml: `${yaml}\nserver: { listen: "127.0.0.1:0" }\ndata: "\${BOLTGATE_DATA}"\npolicies: { global: { limit: 100000, window: 1m } }\n`
  })
  const browser = await openBrowser(t)

  for (const [name, options] of [
    ['on a desk, in light', { colorScheme: 'light', locale: 'en-US' }],
    ['on a phone of 320 pixels, in the dark', { ...PHONE, colorScheme: 'dark', locale: 'en-GB' }]
  ] satisfies ReadonlyArray<readonly [string, BrowserContextOptions]>) {
    t.test(`a file, ${name}`, async t => {
      const { page, faults } = await openPage(t, browser, options)
      const hosts = new Set<string>()
      page.on('request', request => hosts.add(new URL(request.url()).host))
      const answer = await page.goto(`${gateway.url}/files/notes.zip`)
      t.equal(answer?.status(), 402)
      await page.getByRole('button', { name: 'Pay in sandbox' }).waitFor()
      t.match(await page.locator('h1').textContent(), '210\u00a0sats')
      const invoice = (await page.getByRole('link', { name: 'Open in wallet' }).getAttribute('href')) ?? ''
      t.equal((await readQrCode(page))?.toLowerCase(), invoice)
      t.same(await page.evaluate(LOW_CONTRAST), [])
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing is cut off')
      if (name.startsWith('on a desk')) await picture(page, 'paywall')
      const began = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Pay in sandbox' }).click()
      await page.getByRole('heading', { name: 'Paid' }).waitFor()
      t.equal((await began).suggestedFilename(), 'notes.zip')
      await page.locator('#what-now', { hasText: 'Files are in your downloads' }).waitFor()
      t.same(await page.evaluate(LOW_CONTRAST), [])
      t.same([...hosts], [new URL(gateway.url).host], 'no other host')
      t.equal(await page.evaluate('document.cookie'), '', 'no program reads the pass')
      t.same(less402(faults), [])
    })
  }

  t.test('an image and an article open instead of the page, also when a link of another site led here', async t => {
    const { page, faults } = await openPage(t, browser)
    await page.route('http://elsewhere.example/', route =>
      route.fulfill({ contentType: 'text/html', body: `<a href="${gateway.url}/files/article?part=1&b">Read</a>` })
    )
    await page.goto('http://elsewhere.example/')
    await page.getByRole('link', { name: 'Read' }).click()
    const link = page.getByRole('link', { name: 'Open in wallet' })
    await gateway.send('POST', '/sandbox/pay', {
      body: { invoice: (await link.getAttribute('href'))?.slice(10) ?? '' }
    })
    await page.getByRole('heading', { name: 'The whole article' }).waitFor()
    t.equal(page.url(), `${gateway.url}/files/article?part=1&b`, 'nothing is in the address')
    await page.goto(`${gateway.url}/files/cat.png`)
    await page.getByRole('button', { name: 'Pay in sandbox' }).click()
    await page.locator('img').waitFor()
    t.same(less402(faults), [])
  })

  t.test('without a program: the reader says that it is paid', async t => {
    const { page } = await openPage(t, browser, { javaScriptEnabled: false, colorScheme: 'dark' })
    await page.goto(`${gateway.url}/files/plain?x=%20y`)
    t.equal(await page.locator('button').filter({ visible: true }).count(), 0, 'no button that does nothing')
    t.match(await readQrCode(page), /^LIGHTNING:LNBCRT/)
    const link = page.getByRole('link', { name: 'Open in wallet' })
    const invoice = (await link.getAttribute('href'))?.slice(10) ?? ''
    await page.getByRole('link', { name: 'I have paid' }).click()
    await page.getByText('Payment not received yet.').waitFor()
    t.equal((await link.getAttribute('href'))?.slice(10), invoice)
    await gateway.pay(invoice)
    await page.getByRole('link', { name: 'I have paid' }).click()
    await page.getByRole('heading', { name: 'The whole article' }).waitFor()
    t.equal(page.url(), `${gateway.url}/files/plain?x=%20y`)
  })

  t.test('with the keyboard alone, and by a wallet of the browser', async t => {
    const { page, faults } = await openPage(t, browser, { reducedMotion: 'reduce', forcedColors: 'active' })
    await page.addInitScript(`window.webln = { enable: async () => {}, sendPayment: async invoice => {
      const paid = await fetch('/sandbox/pay', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ invoice }) })
      return paid.json()
    } }`)
    await page.goto(`${gateway.url}/files/keys`)
    await page.getByRole('button', { name: 'Pay with browser wallet' }).waitFor()
    const names: string[] = []
    for (let press = 0; press < 5; press++) {
      await page.keyboard.press('Tab')
      names.push(
        await page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent')
      )
    }
    t.equal(names[0], 'Open in wallet')
    t.equal(names[1], 'Pay with browser wallet')
    t.match(names[2], /^lnbcrt/)
    t.same(names.slice(3), ['Copy: Lightning invoice', 'I have paid'])
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'The whole article' }).waitFor()
    t.same(less402(faults), [])
  })

  t.test('the front page names it, light and dark, on a phone and on a desk', async t => {
    for (const options of [{ colorScheme: 'light' }, { ...PHONE, colorScheme: 'dark' }] as const) {
      const { page, faults } = await openPage(t, browser, options)
      await page.goto(`${gateway.url}/`)
      t.ok(await page.getByText('210 sats').isVisible())
      t.same(await page.evaluate(LOW_CONTRAST), [])
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
      if (options.colorScheme === 'light') await picture(page, 'home')
      t.same(faults, [])
    }
  })
})
