import t, { type Test as T } from 'tap'
import { noBrowser, openBrowser } from '../web/pay/browser.ts'
import type { Tab } from '../web/pay/firefox.ts'
import { visitHostilePages } from './hostile-pages.ts'

async function openChromium(t: T): Promise<Tab> {
  const page = await (await openBrowser(t)).newPage()
  return {
    async open(url) {
      await page.goto(url).catch((error: unknown) => {
        if (!/net::ERR_|Download is starting/.test(String(error))) throw error
      })
    },
    async run(expression) {
      try {
        return String(await page.evaluate(expression))
      } catch (error) {
        // The page of a download may still be replaced by the one before it.
        if (!String(error).includes('context was destroyed')) throw error
        await page.waitForLoadState()
        return String(await page.evaluate(expression))
      }
    }
  }
}

t.test('untrusted pages: none acts as the operator who visits it, in Chromium', { skip: noBrowser }, t =>
  visitHostilePages(t, openChromium)
)
