/** The days by which lists are filtered: the reader's own where the times are, UTC where the page says so. */
import t from 'tap'
import { noBrowser, openBrowser, openPage, signInWithKey } from '../pay/browser.ts'
import { sell } from '../../selling/sales/fixture.ts'
import { startGateway } from '../../support/gateway.ts'

/** 23:30 on the 10th in New York, and half past four on the 11th in UTC. */
const LATE = '2026-11-11T04:30:00Z'

t.test('lists are filtered by days', { skip: noBrowser }, async t => {
  const gateway = await startGateway(t)
  const { sql } = gateway.database
  await gateway.merchantSend('POST', '/api/payments', { orderId: 'late', amount: '0.00001', currency: 'BTC' })
  await sql`update payments set created_at = ${LATE}`
  await sell(gateway.database, Date.parse(LATE), { source: 'producer', merchantId: String(gateway.merchant.id) })
  const browser = await openBrowser(t)
  for (const [name, javaScriptEnabled, day, label] of [
    ["the reader's own, where its program shows the reader's times", true, '2026-11-10', 'From'],
    ['days in UTC, as the page says without its program', false, '2026-11-11', 'From (UTC)']
  ] as const)
    await t.test(name, async t => {
      const { page, faults } = await openPage(t, browser, { javaScriptEnabled, timezoneId: 'America/New_York' })
      await signInWithKey(page, gateway.url, gateway.merchant.apiKey)
      for (const list of ['payments', 'sales']) {
        await page.goto(`${gateway.url}/console/${list}`)
        const from = page.getByLabel(label, { exact: true })
        const rows = async (first: string, before: string) => {
          await from.fill(first)
          await page.getByLabel(label.replace('From', 'Before'), { exact: true }).fill(before)
          await Promise.all([page.waitForNavigation(), page.getByRole('button', { name: 'Show' }).click()])
          t.equal(await from.inputValue(), first, `${list} keep the day that was typed`)
          return await page.locator('table.rows tbody tr').count()
        }
        const next = `2026-11-${Number(day.slice(-2)) + 1}`
        t.equal(await rows(next, '2026-11-20'), 0, `${list} after it`)
        t.equal(await rows('2026-11-01', day), 0, `${list} before it`)
        t.equal(await rows(day, next), 1, `${list} of the day`)
        const csv = (await page.getByRole('link', { name: 'CSV' }).getAttribute('href')) ?? ''
        const { searchParams } = new URL(csv, page.url())
        t.equal(searchParams.get('from'), javaScriptEnabled ? `${day}T05:00:00.000Z` : day)
      }
      t.same(faults, [])
    })
})
