import t from 'tap'
import { startGateway } from '../../support/gateway.ts'
import { asPerson, makeApi, sessionOf, wasOf } from './session.ts'

const HOSTILE = `"><script>alert(1)</script></form><form method="post"> \u202e ${'W'.repeat(120)}`

await t.test('an operator sees a merchant, changes what an operator may, and views the console read-only', async t => {
  const gateway = await startGateway(t)
  const { id } = gateway.merchant
  const cookie = await sessionOf(gateway, gateway.adminKey)
  const page = async (path: string, form?: Readonly<Record<string, string>>) =>
    await asPerson(gateway, cookie, path, form)
  const home = `/operator/merchants/${id}`
  t.equal(
    (
      await gateway.adminSend('PUT', `/api/admin/merchants/${id}`, {
        name: HOSTILE,
        webhookSecret: 'SECRET-of-the-webhook-0123456789'
      })
    ).status,
    200
  )
  t.equal(
    (await gateway.merchantSend('PUT', '/api/merchant/primary-key', { primaryApiKey: 'SECRET-provider-key' })).status <
      300,
    true
  )
  const proxyId = await makeApi(gateway, { name: HOSTILE.slice(0, 90), targetBaseUrl: 'https://example.com/v1' })
  const other = (
    await gateway.adminSend('POST', '/api/admin/merchants', { name: 'Other', email: 'other@example.com' })
  ).json() as {
    merchantId: number
    apiKey: string
  }

  await t.test('the page of a merchant has its traffic, use, features and guided steps', async t => {
    const { text } = await page(home)
    for (const words of [
      /View as this merchant/,
      /402 responses/,
      /Webhook endpoints/,
      /1 of \d/,
      /Members/,
      /Refunds/,
      /Recent|Latest/,
      /Notify the merchant/,
      /Hand over the new key/,
      /Suspend/
    ])
      t.match(text, words)
    t.notMatch(text, /<script>alert|SECRET|NaN|undefined/)
    t.ok(text.length < 60_000, `${text.length} bytes`)
    const was = wasOf(text, 'features')
    t.match(was, /refundsEnabled: true, multiCurrencyEnabled: true/)
    const features = { do: 'features', was, feature: 'refundsEnabled' }
    t.equal((await page(home, features)).status, 303)
    t.match((await gateway.adminSend('GET', `/api/admin/merchants/${id}`)).json(), {
      features: { refundsEnabled: true, multiCurrencyEnabled: false, l402Enabled: false }
    })
    t.equal((await page(home, features)).status, 422, 'the second of two tabs gets a conflict')
    t.equal(
      (
        await page(`/operator/merchants/${other.merchantId}`, {
          do: 'account',
          was: 'Other <other@example.com>',
          name: 'Another',
          email: 'other@example.com'
        })
      ).status,
      303
    )
    t.match((await gateway.adminSend('GET', `/api/admin/merchants/${other.merchantId}`)).json(), { name: 'Another' })
  })
  await gateway.adminSend('PUT', `/api/admin/merchants/${id}`, {
    planTier: 'individual',
    features: { refundsEnabled: true }
  })

  await t.test('each page of the merchant is shown without what changes something', async t => {
    const paths = gateway.operations
      .filter(({ method, path }) => method === 'GET' && /^\/console(\/|$)/.test(path))
      .map(({ path }) => path.replace('/console', ''))
    t.ok(paths.length > 18, paths.join(' '))
    for (const path of paths) {
      const isPersonal = path === '/signed-in' || path === '/settings/passkeys'
      const { headers, status, text } = await page(
        `${home}/as${path.replace(':proxyId', proxyId).replaceAll(/:\w+/g, '1')}`
      )
      if (isPersonal || (path.includes(':') && !path.includes(':proxyId'))) {
        t.equal(status, 404, path)
        continue
      }
      t.equal(status, 200, path)
      t.equal(headers['cache-control'], 'no-store')
      t.match(text, /It is read-only/)
      const main = text.slice(text.indexOf('<main'))
      t.notMatch(main, /method="post"|danger-zone|download=|data-live|<script|SECRET|NaN|undefined/, path)
      for (const [, href = ''] of main.matchAll(/href="((?:\.\.?\/)+(?:console)[^"]*)"/g))
        t.fail(`${path} leads to ${href}`)
    }
    t.match((await page(`${home}/as/apis/${proxyId}`)).text, /&lt;script>alert/)
    t.match((await page(`${home}/as/sales?state=spent&text=x`)).text, /value="x"/, 'filters work')
  })

  await t.test('nothing is written through it, by any method or form', async t => {
    const before = (await gateway.merchantSend('GET', '/api/merchant/settings')).text
    for (const path of ['as', 'as/settings', 'as/keys', 'as/members', 'as/payments', `as/apis/${proxyId}`])
      for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
        const answer = await gateway.send(method, `${home}/${path}`, {
          headers: { cookie, 'sec-fetch-site': 'same-origin', 'content-type': 'application/x-www-form-urlencoded' },
          body: 'do=colour&colour=%23112233&was='
        })
        t.ok([403, 404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`)
      }
    t.equal((await gateway.merchantSend('GET', '/api/merchant/settings')).text, before)
    const own = { cookie, 'sec-fetch-site': 'same-origin' }
    t.equal((await gateway.send('GET', '/api/merchant/me', { headers: own })).status, 401, 'the session is no merchant')
  })

  await t.test('it is for operators, and shows the one account', async t => {
    const payment = await gateway.merchantSend('POST', '/api/payments', {
      orderId: 'order-of-the-first',
      amount: 1,
      currency: 'USD'
    })
    t.equal(payment.status < 300, true, payment.text)
    const { invoiceId } = payment.json() as { invoiceId: string }
    t.match((await page(`${home}/as/payments/${invoiceId}`)).text, /order-of-the-first/)
    for (const path of [`payments/${invoiceId}`, `apis/${proxyId}`, `payments/..%2f..%2f..%2fadmin%2fmerchants`])
      t.equal((await page(`/operator/merchants/${other.merchantId}/as/${path}`)).status, 404, path)
    const merchant = await sessionOf(gateway, other.apiKey)
    t.equal((await asPerson(gateway, merchant, `${home}/as`)).status, 303)
    t.equal((await gateway.adminSend('GET', `${home}/as`)).status, 303)
    for (const unknown of ['999999', '0', '1e3', 'x', '%00', `${id}%20or%201=1`])
      t.equal((await page(`/operator/merchants/${unknown}/as`)).status, 404, unknown)
  })

  await t.test('each view is in the audit log, also of the merchant', async t => {
    await page(`${home}/as/members`)
    const entry = { operation: 'viewAsMerchant', by: { kind: 'admin' }, target: { page: 'members' }, status: 200 }
    const own = (await gateway.merchantSend('GET', '/api/merchant/audit?limit=1')).json()
    t.match(own, { entries: [entry] })
    t.match((await page('/operator/changes')).text, /Viewed the console as this merchant <code>members<\/code>/)
    await gateway.database.sql`alter table audit rename to audit_away`
    t.not((await page(`${home}/as/members`)).status, 200, 'without an entry it is not shown')
    await gateway.database.sql`alter table audit_away rename to audit`
  })
})
