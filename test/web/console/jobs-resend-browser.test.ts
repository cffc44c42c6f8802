import t from 'tap'
import { isAuthentic, startReceiver } from '../../fakes/receiver.ts'
import { noBrowser, openBrowser, openPage } from '../pay/browser.ts'
import { eventually } from '../../support/gateway-process.ts'
import { startGateway } from '../../support/gateway.ts'

type Json = Record<string, unknown>
const LIST = '/api/merchant/webhooks/deliveries'
const SECRET = 'a secret that the merchant chose'

await t.test(
  'a permanently failed webhook is shown on /jobs with its reason, sent again manually there, and arrives',
  { skip: noBrowser },
  async t => {
    const gateway = await startGateway(t)
    const endpoint = await startReceiver({ answer: () => ({ status: 500, body: 'the shop is closed' }) })
    t.teardown(() => endpoint.close())
    const send = async (method: string, path: string, status: number, body?: object) => {
      const answer = await gateway.merchantSend(method, path, body)
      if (answer.status !== status) throw new Error(`${answer.status} instead of ${status}: ${answer.text}`)
      return answer.json() as Json
    }
    const delivery = async () => ((await send('GET', LIST, 200))['deliveries'] as Json[])[0] ?? {}
    const until = async (status: string, attempts: number) =>
      await eventually(`it is ${status} after ${attempts} attempts`, async () => {
        const row = await delivery()
        return row['status'] === status && row['attempts'] === attempts ? row : null
      })

    await send('PUT', '/api/merchant/webhook-url', 200, { webhookUrl: `${endpoint.url}/hooks`, webhookSecret: SECRET })
    const payment = await send('POST', '/api/payments', 201, { orderId: 'order-1', amount: 0.00002, currency: 'BTC' })
    await gateway.pay(String(payment['lightningInvoice']))
    const { id } = await until('pending', 1)
    // The schedule takes a quarter of an hour; a resend brings its next attempt forward and leaves its number as it is.
    for (let attempt = 2; attempt <= 6; attempt++) {
      await send('POST', `${LIST}/${String(id)}/resend`, 202)
      await until(attempt === 6 ? 'failed' : 'pending', attempt)
    }
    t.equal((await delivery())['nextAttemptAt'], null, 'after the retries the event is marked permanently failed')

    const { page, faults } = await openPage(t, await openBrowser(t))
    await page.goto(`${gateway.url}/jobs?adminKey=${encodeURIComponent(gateway.adminKey)}`)
    t.equal(page.url(), `${gateway.url}/jobs`, 'the key is removed from the address')
    const failed = page.locator('tr', { has: page.getByRole('button', { name: /^Retry/ }) })
    await eventually('the page has it', async () => {
      await page.reload()
      return (await failed.count()) === 1 ? true : null
    })
    t.equal(
      await failed.locator('.error').textContent(),
      `payment.paid to merchant ${gateway.merchant.id}, attempt 6: The endpoint answered 500.`
    )
    t.match(await failed.textContent(), String(id), 'the delivery that the merchant sees in its history')

    endpoint.answer(() => ({ status: 200 }))
    await failed.getByRole('button', { name: /^Retry/ }).click()
    await endpoint.until(7)
    const [first] = endpoint.received
    const last = endpoint.received[6]
    t.ok(last !== undefined && isAuthentic(last, SECRET, Date.now()), 'signed again')
    t.equal(last?.text, first?.text, 'the same bytes')
    t.equal((JSON.parse(last?.text ?? '{}') as Json)['status'], 'paid')
    const row = await until('delivered', 7)
    t.equal(row['responseStatus'], 200)
    t.equal(row['error'], null)
    await eventually('the page says that it is done', async () => {
      await page.goto(`${gateway.url}/jobs?queue=webhooks&state=done`)
      return (await page
        .locator('tr', { hasText: 'done' })
        .filter({ hasText: String(id) })
        .filter({ hasText: '"attempt":6' })
        .count()) === 1
        ? true
        : null
    })
    await page.goto(`${gateway.url}/jobs`)
    t.ok(await page.getByText('No failed jobs.').isVisible())
    t.same(faults, [])
  }
)
