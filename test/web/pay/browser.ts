import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import decodeQrCode from 'jsqr'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { PNG } from 'pngjs'
import type { Test as T } from 'tap'
import { rootFolder } from '../../support/gateway.ts'

// The headless shell has no browser's own interface around its pages, and takes less than half the computing.
const CHROMIUM =
  process.env['CHROMIUM'] ?? ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find(existsSync) ?? ''

/** What to tell a reader of the results where there is no browser; false where there is one. */
export const noBrowser: string | false = existsSync(CHROMIUM)
  ? false
  : 'no Chromium in /usr/bin; set CHROMIUM to drive the pages in a browser'

/** A browser that calls only the test's own server. */
export async function openBrowser(t: T): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync'
    ]
  })
  t.teardown(() => browser.close())
  return browser
}

/** A page, and what went wrong on it. */
export interface WatchedPage {
  readonly page: Page
  /** Errors and warnings of the console, uncaught errors, and violations of the policy. */
  readonly faults: readonly string[]
}

/** A new page in a context of its own, closed with the test. */
export async function openPage(t: T, browser: Browser, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options })
  t.teardown(() => context.close())
  const faults: string[] = []
  const page = await context.newPage()
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`)
  })
  page.on('pageerror', error => {
    faults.push(`uncaught: ${error.message}`)
  })
  if (options.javaScriptEnabled !== false) {
    await page.exposeFunction('reportViolation', (text: string) => {
      faults.push(`policy: ${text}`)
    })
    // Runs in the page before its own program.
    await page.addInitScript(
      'addEventListener("securitypolicyviolation", event => { reportViolation(event.violatedDirective + " " + event.blockedURI) })'
    )
  }
  return { page, faults }
}

/** Signs in with a key, also in German and without JavaScript. */
export async function signInWithKey(page: Page, url: string, key: string): Promise<void> {
  await page.goto(`${url}/sign-in`)
  const field = page.getByLabel(/API key|API-Schlüssel/)
  await field.fill(key)
  await field.press('Enter')
  await page.waitForURL(/\/(console|operator)$/, { timeout: 60_000 })
}

/** What the QR code on the page says to a camera; null when it cannot be read. */
export async function readQrCode(page: Page): Promise<string | null> {
  const { width, height, data } = PNG.sync.read(await page.locator('.qr').screenshot())
  return decodeQrCode.default(new Uint8ClampedArray(data), width, height)?.data ?? null
}

/** Writes a picture for the documentation when `PICTURES` is set: its bytes differ between two runs. */
export async function picture(page: Page, name: string): Promise<void> {
  if ((process.env['PICTURES'] ?? '') === '') return
  const folder = join(rootFolder, 'docs/images')
  mkdirSync(folder, { recursive: true })
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: join(folder, `${name}.png`) })
}

/**
 * Runs on the page: the texts whose contrast with what lies under them is below 4.5 to 1, or 3 to 1 where they are
 * large (WCAG 2.2, 1.4.3). The colours of these pages have no transparency.
 */
export const LOW_CONTRAST = `(() => {
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const parts = text => text.match(/[\\d.]+/g).map(Number)
  const under = element => {
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor)
      if (colour.length === 3 || colour[3] === 1) return colour
    }
    throw new Error('nothing lies under it')
  }
  const low = []
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement
    if (texts.currentNode.data.trim() === '' || element.closest('.unseen') !== null) continue
    const style = getComputedStyle(element)
    const [a, b] = [light(parts(style.color)), light(under(element))].sort((x, y) => y - x)
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700)
    const contrast = (a + 0.05) / (b + 0.05)
    if (contrast < (large ? 3 : 4.5)) low.push(element.className + ' ' + contrast.toFixed(2))
  }
  return low
})()`
