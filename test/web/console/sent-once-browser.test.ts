import t from 'tap'
import { noBrowser, openBrowser, openPage, signInWithKey } from '../pay/browser.ts'
import { startGateway } from '../../support/gateway.ts'

/** Sends the form of the colour, whose response is not waited for; says whether the page lets it go. */
const SEND = `(() => {
  let isSent = false
  addEventListener('submit', event => { isSent = !event.defaultPrevented; event.preventDefault() }, { once: true })
  document.querySelector('main form:has([name=colour])').requestSubmit()
  return isSent
})()`

t.test('a form is sent once, and again where the browser leads back to its page', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const browser = await openBrowser(t)
  const { page, faults } = await openPage(t, browser)
  await signInWithKey(page, gateway.url, gateway.merchant.apiKey)
  await page.goto(`${gateway.url}/console/settings`)
  t.equal(await page.evaluate(SEND), true)
  t.equal(await page.evaluate(SEND), false, 'a second click sends nothing')
  const shown = (isPersisted: boolean) =>
    page.evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: ${isPersisted} }))`)
  await shown(false)
  t.equal(await page.evaluate(SEND), false)
  await shown(true)
  t.equal(await page.locator('main button[aria-disabled]').count(), 0)
  t.equal(await page.evaluate(SEND), true, 'unchanged, it can be sent')
  t.same(faults, [])
})
