/** Lists hold what anonymous clients and merchants type: names of 200 characters, right-to-left text, emoji, addresses. */
import t from 'tap'
import { sell } from '../../selling/sales/fixture.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { noBrowser, openBrowser, openPage, signInWithKey } from '../pay/browser.ts'

const NAMES = [
  'W'.repeat(200),
  'A name of many words whose author was paid for by the letter '.repeat(4).slice(0, 200),
  'شركة الاختبار المحدودة للتجارة العامة '.repeat(5).slice(0, 180),
  '👩‍👩‍👧‍👦'.repeat(18),
  '<b onclick="x">&amp;</b>'
]
const MERCHANT =
  '/payments /sales /apis /keys /webhooks /settings /changes /till /search?text=order /customers /refunds /tokens /members /store'.split(
    ' '
  )
const OPERATOR =
  '/merchants /merchants/1 /sales /routes /jobs /sessions /changes /health /refunds /subscriptions /orders /providers /configuration'.split(
    ' '
  )

/** Runs in the page. */
const MEASURE = `(() => {
  const faults = []
  const textOf = element => element.textContent.trim().slice(0, 40)
  const linesOf = element => {
    const range = document.createRange()
    range.selectNodeContents(element)
    return new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top))).size
  }
  const isSeen = element => element.getBoundingClientRect().height > 1
  for (const whole of document.querySelectorAll('main time, main .badge, table.rows thead th'))
    if (isSeen(whole) && linesOf(whole) > 1) faults.push('wraps: ' + textOf(whole))
  for (const cell of document.querySelectorAll('table.rows tbody :is(th, td):not(:has(form, details))')) {
    const { height } = cell.getBoundingClientRect()
    if (height > 130) faults.push(Math.round(height) + ' px: ' + textOf(cell))
  }
  const { clientWidth, scrollWidth } = document.documentElement
  if (scrollWidth > clientWidth) faults.push('the page is ' + scrollWidth + ' px wide')
  return faults
})()`

t.test('lists with hostile text', { skip: noBrowser }, async t => {
  const policies = ['write', 'admin', 'global', 'read', 'payment-create']
    .map(name => `  ${name}: { limit: 10000, window: 1m }`)
    .join('\n')
  const gateway = await startGateway(t, { yaml: defaultYaml({ policies }) })
  const { merchant, adminKey } = gateway
  const made = async (method: string, path: string, body: object, key = merchant.apiKey) => {
    const answer = await gateway.send(method, path, { headers: { 'x-api-key': key }, body })
    if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`)
  }
  for (const [at, name] of NAMES.entries()) {
    const short = [...name].slice(0, 60).join('')
    await made('POST', '/api/payments', {
      orderId: `${'order-'.repeat(15)}${at}`,
      amount: '0.00002',
      currency: 'BTC',
      customerName: name.slice(0, 200),
      description: name
    })
    await made('POST', '/api/proxy', {
      name: short,
      targetBaseUrl: `https://api.example.com/${'v'.repeat(120)}/${at}`,
      defaultPriceSats: 21_000_000
    })
    await made('POST', '/api/merchant/payment-links', { currency: 'USD', description: name })
    await made('POST', '/api/merchant/members', { email: `${'e'.repeat(60)}${at}@example.com`, role: 'viewer' })
    if (at < 4)
      await made('POST', '/api/merchant/webhooks/endpoints', { url: `https://example.com/${'w'.repeat(150)}/${at}` })
    await made('POST', '/api/merchant/keys', { name: short, scopes: ['read'] })
    await made('POST', '/api/admin/merchants', { name: short, email: `${'m'.repeat(60)}${at}@example.com` }, adminKey)
    await sell(gateway.database, Date.now(), {
      source: 'producer',
      merchantId: String(merchant.id),
      description: name
    })
  }
  const browser = await openBrowser(t)
  for (const [who, key, home, pages, locale] of [
    ['merchant', merchant.apiKey, 'console', MERCHANT, 'en-US'],
    ['merchant in German', merchant.apiKey, 'console', MERCHANT, 'de-DE'],
    ['operator', adminKey, 'operator', OPERATOR, 'en-US'],
    ['operator in German', adminKey, 'operator', OPERATOR, 'de-DE']
  ] as const) {
    const { page } = await openPage(t, browser, { locale })
    await signInWithKey(page, gateway.url, key)
    for (const path of ['', ...pages])
      await t.test(`${who}: /${home}${path}`, async t => {
        await page.goto(`${gateway.url}/${home}${path}`)
        for (const width of [1280, 768, 320]) {
          await page.setViewportSize({ width, height: 860 })
          t.same(await page.evaluate(MEASURE), [], `at ${width} px`)
        }
      })
  }
})
