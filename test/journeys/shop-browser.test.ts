import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import t from 'tap'
import type { Log } from '../../src/platform/telemetry/log.ts'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { noBrowser, openBrowser, openPage } from '../web/pay/browser.ts'
import { eventually } from '../support/gateway-process.ts'
import { startGateway } from '../support/gateway.ts'
import { ManualClock } from '../support/manual-clock.ts'

type Json = Record<string, unknown>

/** The plain text of a mail as a mail program shows it. */
function plainText(eml: string) {
  const part = eml.split(/^--.*\r\n/m).find(text => /^content-type: text\/plain/im.test(text)) ?? eml
  const [head = '', ...rest] = part.split('\r\n\r\n')
  const body = rest.join('\r\n\r\n')
  if (/^content-transfer-encoding: base64/im.test(head)) return Buffer.from(body, 'base64').toString()
  if (!/^content-transfer-encoding: quoted-printable/im.test(head)) return body
  const bytes = body
    .replaceAll(/=\r\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

/** The first mail in the folder that holds `words`, as text. */
function mailAt(folder: string, words: string) {
  return eventually(`a mail says ${words}`, async () => {
    if (!existsSync(folder)) return null
    const texts = readdirSync(folder)
      .filter(name => name.endsWith('.eml'))
      .map(name => readFileSync(join(folder, name), 'utf8'))
    return texts.map(plainText).find(text => text.includes(words)) ?? null
  })
}

t.test(
  'by mail and claim page: an agent pays, its owner says on a phone where the order goes, and sees it fulfilled and shipped',
  { skip: noBrowser },
  async t => {
    const lines: string[] = []
    const write = (fields: object | string, message?: string) => {
      lines.push(inspect([fields, message], { depth: 10 }))
    }
    const log: Log = { debug: write, info: write, warn: write, error: write }
    const clock = new ManualClock(Date.now())
    const gateway = await startGateway(t, { clock, log })
    const jobs = new JobTable(gateway.database)
    const { page, faults } = await openPage(t, await openBrowser(t), {
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true
    })
    page.setDefaultTimeout(60_000)

    // The owner looks what there is, and gives the agent the address.
    await page.goto(`${gateway.url}/storefront/demo`)
    t.ok(await page.getByText('Coin mug', { exact: true }).isVisible())
    t.ok(await page.getByText('$26.00 · sold out').isVisible())
    const manifest = await page.locator('.field-text').textContent()
    t.equal((await gateway.send('GET', String(manifest))).status, 200)

    // The agent buys, and names the owner's address.
    const body = {
      items: [
        { variantId: 10101, quantity: 2 },
        { variantId: 10301, quantity: 1 }
      ],
      email: 'ada@example.org'
    }
    const response = await gateway.send('POST', '/api/storefront/demo/checkout', {
      headers: { 'x-buyer-location': 'US-CA-94110' },
      body
    })
    t.equal(response.status, 402, response.text)
    t.notMatch(
      response.text,
      /claimToken|claimPageUrl|\/claim\?/,
      'the 402 never contains a claim token or claim page URL'
    )
    const { invoice, orderId, totalUsd } = response.json() as { invoice: string; orderId: string; totalUsd: number }
    await gateway.pay(invoice)

    const text = await mailAt(join(gateway.data, 'mail'), orderId)
    t.match(text, 'Coin mug, Small')
    t.match(text, `$${totalUsd.toFixed(2)}`)
    const address =
      text.split(/\r?\n/).find(line => line.startsWith(`${gateway.url}/storefront/demo/claim?claimToken=`)) ?? ''
    t.ok(address, 'the claim URL is on a line of its own')
    const token = new URL(address).searchParams.get('claimToken') ?? ''

    await page.goto(address)
    t.same(
      await Promise.all(['#email', '#country', '#province', '#zip'].map(field => page.inputValue(field))),
      ['ada@example.org', 'US', 'CA', '94110'],
      'known fields are filled in'
    )
    for (const [field, value] of [
      ['firstName', 'Ada'],
      ['lastName', 'Lovelace'],
      ['address1', '1 Market St'],
      ['city', 'San Francisco']
    ] as const)
      await page.fill(`#${field}`, value)
    await page.getByRole('button', { name: 'Place order' }).tap()
    const placed = page.getByRole('heading', { name: / is placed$/ })
    await placed.waitFor()
    const number = /^Order (#\S+) is placed$/.exec((await placed.textContent()) ?? '')?.[1]
    t.ok(number, 'the order number is shown')
    t.equal(page.url(), address)

    const status = async () =>
      (await gateway.send('GET', `/api/storefront/demo/orders/${orderId}?claimToken=${token}`)).json() as Json
    t.match(await status(), { status: /^PaidWithDetails$/, storefrontOrderNumber: number, totalUsd })

    // The sandbox packs after a minute and sends after two; whether the gateway asks by then is up to it.
    for (const [milestone, heading, passes] of [
      ['Fulfilled', 'Your order is packed', 65_000],
      ['Shipped', 'Your order has shipped', 600_000]
    ] as const) {
      clock.advance(passes)
      await eventually(`the order is ${milestone}`, async () => {
        await jobs.bringForward('storefront-fulfilments')
        return (await status())['status'] === milestone ? true : null
      })
      await eventually(`the page says ${heading}`, async () => {
        // As when its reader comes back to it; otherwise it looks every few seconds.
        await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))')
        return (await page.getByRole('heading', { name: heading }).count()) === 1 ? true : null
      })
    }
    const { trackingNumber, trackingUrl } = await status()
    t.ok(trackingNumber)
    t.ok(await page.getByText(String(trackingNumber), { exact: true }).isVisible())
    if (trackingUrl !== null)
      t.equal(await page.getByRole('link', { name: 'Track package' }).getAttribute('href'), trackingUrl)
    t.equal(await page.locator('.step.done').count(), 4)
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390)
    t.same(faults, [], 'no console error, no Content-Security-Policy violation')

    const again = await gateway.send('POST', new URL(address).pathname + new URL(address).search, {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'email=x'
    })
    t.equal(again.status, 303, 'claimed once; the page shows it')
    t.equal(
      (await gateway.merchantSend('GET', '/api/merchant/storefront/orders')).text.split(String(number)).length,
      2,
      'one order'
    )
    await gateway.close()
    t.ok(
      lines.some(line => line.includes('/api/storefront/demo/checkout')),
      'the log was listened to'
    )
    t.same(
      lines.filter(line => line.includes(token)),
      [],
      'the token is in no line of the log'
    )
  }
)
