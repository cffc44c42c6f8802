import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test as T } from 'tap'
import { LOW_CONTRAST, noBrowser, openBrowser, openPage } from '../web/pay/browser.ts'
import { BODY, openShop, serveShop } from './fixture.ts'
import { MUG } from './test-platform.ts'

/** What a buyer fills in; the rest is known. */
const GOOD = {
  email: 'ada@example.org',
  firstName: 'Ada',
  lastName: 'Lovelace',
  country: 'US',
  address1: '1 Market St',
  city: 'San Francisco',
  province: 'CA',
  zip: '94110'
}
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } as const

/** A page that is waited for as long as a busy machine takes. */
async function patientPage(t: T, browser: Browser, options: BrowserContextOptions = {}) {
  const watched = await openPage(t, browser, options)
  watched.page.setDefaultTimeout(60_000)
  return watched
}

/** What a browser says of itself about a page that came with an error's status, which is what the test asked for. */
function expected(text: string) {
  return /status of (?:400|404|502|503) /.test(text)
}

/** Fills in what a reader would; the country is chosen. */
async function fill(page: Page, more: Readonly<Record<string, string>> = {}) {
  for (const [field, value] of Object.entries({ ...GOOD, ...more })) {
    if (field === 'country') await page.selectOption('#country', value)
    else await page.fill(`#${field}`, value)
  }
}

/**
 * Runs on the page: what a finger cannot hit well, smaller than 44 by 44 pixels. Links inside a sentence are as tall as
 * its lines (WCAG 2.2, 2.5.8).
 */
const SMALL_TARGETS = `[...document.querySelectorAll('a, button, input:not([type=hidden]), select')]
  .filter(element => element.closest('p:not(.links)') === null)
  .map(element => [element.id || element.textContent, element.getBoundingClientRect()])
  .filter(([, { width, height }]) => width < 44 || height < 44).map(([name, { width, height }]) => name + ' ' + width + ' by ' + height)`

/** Runs on the page: fields without a name, or that point at an explanation which is not there. */
const UNNAMED = `[...document.querySelectorAll('input:not([type=hidden]), select')]
  .filter(element => element.labels.length !== 1 || (element.getAttribute('aria-describedby') !== null && document.getElementById(element.getAttribute('aria-describedby')) === null))
  .map(element => element.id)`

t.test('the pages of a store in a browser', { skip: noBrowser }, async t => {
  const shop = await openShop(t)
  const { platform, clock } = shop
  const url = await serveShop(t, shop)
  const path = `/storefront/${shop.integration.slug}`
  const browser = await openBrowser(t)
  const bought = async (body: object = { ...BODY, email: GOOD.email }) => {
    const { orderId, claimToken } = await shop.paid(body)
    return { orderId, path: `${path}/claim?claimToken=${claimToken}` }
  }
  /** The shop says how far the order is. */
  const progress = async (orderId: string, seen: Parameters<typeof platform.progress.set>[1]) => {
    platform.progress.set((await shop.orders.get(orderId))?.platformOrderId ?? '', seen)
    clock.advance(3_600_000)
    await shop.storefront.fulfilments.poll()
  }

  for (const javaScriptEnabled of [true, false]) {
    t.test(`an order is claimed and followed ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async t => {
      const order = await bought()
      const { page, faults } = await patientPage(t, browser, { ...PHONE, javaScriptEnabled })
      await page.goto(url + order.path)
      t.equal(await page.title(), 'Shipping address · Corner shop')
      t.equal(await page.inputValue('#email'), 'ada@example.org')
      await page.fill('#address1', '1 Market St')
      await page.getByRole('button', { name: 'Place order' }).click()
      const problems = page.getByRole('alert')
      await problems.waitFor()
      t.match(await problems.textContent(), /^\s*Check 3 fields/)
      t.equal(await page.inputValue('#address1'), '1 Market St', 'the fields keep their values')
      t.equal(page.url(), url + order.path)
      await problems.getByRole('link', { name: 'Enter a value for “First name”.' }).click()
      t.equal(
        await page.evaluate('document.querySelector(":target").id'),
        'firstName',
        'the summary leads to the field'
      )
      await fill(page)
      await page.getByRole('button', { name: 'Place order' }).click()
      await page.getByRole('heading', { name: / is placed$/ }).waitFor()
      t.equal(page.url(), url + order.path, 'on the same address')
      await progress(order.orderId, {
        isShipped: true,
        tracking: { number: '1Z999', carrier: 'UPS', url: 'https://track.example/1Z999' }
      })
      if (javaScriptEnabled) {
        // As when the reader comes back to it; otherwise it looks every few seconds.
        await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))')
      } else {
        t.equal(await page.locator('meta[http-equiv=refresh]').getAttribute('content'), '30', 'it polls automatically')
        await page.reload()
      }
      await page.getByRole('heading', { name: 'Your order has shipped' }).waitFor()
      t.equal(
        await page.getByRole('link', { name: 'Track package' }).getAttribute('href'),
        'https://track.example/1Z999'
      )
      t.equal(await page.locator('.step.done').count(), 4)
      t.same(
        faults.filter(text => !expected(text)),
        [],
        'no console error, no Content-Security-Policy violation'
      )
    })
  }

  t.test('with JavaScript the labels change as the country changes', async t => {
    const { page, faults } = await patientPage(t, browser)
    await page.goto(url + (await bought()).path)
    const seen = async () =>
      await page.evaluate(
        '[...document.querySelectorAll("label[for=province], label[for=zip]")].map(label => label.innerText)'
      )
    for (const [country, ...labels] of [
      ['US', 'State', 'ZIP code'],
      ['CA', 'Province or territory', 'Postal code'],
      ['GB', 'County (optional)', 'Postcode'],
      ['AE', 'Emirate (optional)', 'Postal code (optional)'],
      ['AU', 'State or territory', 'Postcode'],
      ['DE', 'State or region (optional)', 'Postal code']
    ] as const) {
      await page.selectOption('#country', country)
      t.same(await seen(), labels, country)
    }
    t.equal(await page.evaluate('document.getElementById("province").required'), false)
    t.same(faults, [])
  })

  t.test('a double press sends the form once', async t => {
    const { page, faults } = await patientPage(t, browser)
    const posts: string[] = []
    page.on('request', request => {
      if (request.method() === 'POST') posts.push(request.url())
    })
    const { promise, resolve } = Promise.withResolvers<undefined>()
    platform.gates.set('createOrder', promise)
    const before = platform.made.length
    await page.goto(url + (await bought()).path)
    await fill(page)
    // In one go: once the browser is on its way to the answer, the page is not asked any more.
    const said = await page.evaluate(`(() => {
      const [form] = document.forms
      const button = form.querySelector('button')
      for (let press = 0; press < 2; press++) form.requestSubmit(button)
      return [button.textContent, button.getAttribute('aria-disabled'), document.getElementById('announcement').textContent]
    })()`)
    t.same(said, ['Placing your order…', 'true', 'Placing your order…'])
    resolve(undefined)
    await page.getByRole('heading', { name: / is placed$/ }).waitFor()
    platform.gates.clear()
    t.equal(posts.length, 1)
    t.equal(platform.made.length, before + 1)
    t.same(faults, [])
  })

  t.test('when the store fails, the same can be sent again by one press', async t => {
    const { page, faults } = await patientPage(t, browser, PHONE)
    platform.faults.set('createOrder', 'throttled')
    await page.goto(url + (await bought()).path)
    await fill(page)
    await page.getByRole('button', { name: 'Place order' }).click()
    await page.getByText('Your order could not be placed.').waitFor()
    platform.faults.clear()
    await page.fill('#address1', '2 Market St')
    await page.getByRole('button', { name: 'Place order' }).click()
    await page.getByRole('heading', { name: / is placed$/ }).waitFor()
    t.match(platform.made.at(-1), { shippingAddress: { address1: '2 Market St', city: 'San Francisco' } })
    t.same(
      faults.filter(text => !expected(text)),
      []
    )
  })

  t.test('with the keyboard alone', async t => {
    const { page, faults } = await patientPage(t, browser)
    await page.goto(url + (await bought()).path)
    await page.keyboard.press('Tab')
    const order: string[] = []
    for (let press = 0; press < 11; press++) {
      order.push(await page.evaluate('document.activeElement.id || document.activeElement.textContent'))
      await page.keyboard.press('Tab')
    }
    t.same(order, [
      'email',
      'firstName',
      'lastName',
      'country',
      'address1',
      'address2',
      'city',
      'province',
      'zip',
      'phone',
      'Place order'
    ])
    await page.locator('form button').focus()
    await page.keyboard.press('Enter')
    await page.locator('#problems').waitFor()
    t.equal(await page.evaluate('document.activeElement.id'), 'problems', 'the summary is read first')
    t.same(
      faults.filter(text => !expected(text)),
      []
    )
  })

  t.test('nothing is cut off, fingers hit everything, and words can be read in both schemes', async t => {
    const long = { variantId: 77, title: 'Ł'.repeat(255), priceCents: 99_999_999, available: true }
    platform.goods = {
      storeName: 'W'.repeat(100),
      products: [
        ...platform.goods.products,
        {
          productId: 9,
          title: 'W'.repeat(255),
          description: 'Ł'.repeat(2000),
          imageUrl: 'https://cdn.example/a.png',
          variants: [long]
        }
      ]
    }
    shop.storefront.catalogs.invalidate(shop.integration.id)
    const odd = await bought({ items: [77, MUG].map(variantId => ({ variantId, quantity: 1 })), email: GOOD.email })
    const pages = [odd.path, `${path}/claim`, path]
    for (const seen of [
      {},
      { isFulfilled: true },
      { isShipped: true, tracking: { number: '1Z'.repeat(40), carrier: 'Carrier', url: 'https://track.example/' } }
    ]) {
      const { orderId, path } = await bought()
      await shop.page(new URL(path, url).searchParams.get('claimToken') ?? '', GOOD)
      await progress(orderId, seen)
      pages.push(path)
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const screen of [PHONE, { viewport: { width: 1280, height: 860 } }]) {
        const { page, faults } = await patientPage(t, browser, { ...screen, colorScheme, reducedMotion: 'reduce' })
        await page.route('https://cdn.example/**', route =>
          route.fulfill({
            contentType: 'image/svg+xml',
            body: '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="3"/>'
          })
        )
        const look = async (name: string) => {
          const { width } = screen.viewport
          // On a busy machine a page can be there before its styles are.
          await page.waitForLoadState('load')
          t.equal(
            await page.evaluate('document.documentElement.scrollWidth'),
            width,
            `${name}, ${width}: no horizontal scroll`
          )
          t.same(await page.evaluate(LOW_CONTRAST), [], `${name}, ${colorScheme}: WCAG AA`)
          t.same(await page.evaluate(SMALL_TARGETS), [], `${name}: tap targets`)
          t.same(await page.evaluate(UNNAMED), [], `${name}: every field has a label`)
          t.equal(await page.evaluate('document.getAnimations().length'), 0, 'reduced motion is respected')
        }
        for (const path of pages) {
          await page.goto(url + path)
          await look(path)
        }
        await page.goto(url + (pages[0] ?? ''))
        await page.fill('#email', 'x'.repeat(254))
        await page.getByRole('button', { name: 'Place order' }).click()
        await page.locator('#problems').waitFor()
        await look('with errors')
        t.same(
          faults.filter(text => !expected(text)),
          []
        )
      }
    }
  })
})
