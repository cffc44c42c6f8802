import t from 'tap'
import { asPerson, sessionOf } from '../web/console/session.ts'
import { JobTable } from '../../src/platform/jobs/table.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { mailedLinks } from '../web/sign-in/mails.ts'

interface Created extends Readonly<
  Record<'subscriptionId' | 'invoiceId' | 'lightningInvoice' | 'paymentHash' | 'payUrl' | 'expiresAt', string>
> {
  readonly amountSats: number
}

t.test('plans in bitcoin and checkout sessions on the gateway', async t => {
  const policies = ['global', 'read', 'write', 'payment-create', 'admin', 'checkout-create']
    .map(name => `  ${name}: { limit: 100000, window: 1m }`)
    .join('\n')
  const gateway = await startGateway(t, { yaml: defaultYaml({ policies }) })
  const create = (body: object, apiKey?: string) =>
    gateway.send('POST', '/api/bitcoin/create-subscription', {
      headers: apiKey === undefined ? {} : { 'x-api-key': apiKey },
      body
    })
  const bought = async (body: object, apiKey?: string) => {
    const answer = await create(body, apiKey)
    if (answer.status !== 201) throw new Error(answer.text)
    // What the operation's own schema promises.
    return answer.json() as Created
  }

  await t.test(
    'POST /api/bitcoin/create-subscription, paid, without an account: pending, approved, active',
    async t => {
      const email = 'new.producer@example.com'
      const made = await bought({ plan: 'individual', email, customerName: 'New Producer' })
      t.same(
        Object.keys(made).sort(),
        ['amountSats', 'expiresAt', 'invoiceId', 'lightningInvoice', 'paymentHash', 'payUrl', 'subscriptionId'].sort()
      )
      const page = await gateway.send('GET', made.payUrl)
      t.equal(page.status, 200)
      for (const text of [
        '$49.00',
        '49,000\u00a0sats',
        'Agentic Commerce, one month',
        made.lightningInvoice,
        'boltgate',
        `data-status-address="${made.payUrl.slice(-43)}/status"`
      ])
        t.ok(page.text.includes(text), text)
      t.same((await gateway.send('GET', `${made.payUrl}/status`)).json(), { status: 'unpaid' })
      await gateway.pay(made.lightningInvoice)
      t.same((await gateway.send('GET', `${made.payUrl}/status`)).json(), { status: 'paid' })
      t.match((await gateway.send('GET', `${made.payUrl}/events`)).text, /event: status\ndata: \{"status":"paid"\}/)
      const pending = (await gateway.adminSend('GET', '/api/admin/pending-subscriptions')).json() as Array<{
        id: number
        email: string
        billingSubscriptionId: string
      }>
      const mine = pending.filter(row => row.email === email)
      t.match(mine, [
        {
          billingSubscriptionId: made.subscriptionId,
          planTier: 'individual',
          subscriptionStatus: 'active',
          customerName: 'New Producer'
        }
      ])
      const approved = await gateway.adminSend(
        'POST',
        `/api/admin/pending-subscriptions/${mine[0]?.id ?? 0}/approve`,
        {}
      )
      const { merchantId, apiKey } = approved.json() as { merchantId: number; apiKey: string }
      t.match((await gateway.send('GET', '/api/merchant/me', { headers: { 'x-api-key': apiKey } })).json(), {
        planTier: 'individual',
        subscriptionStatus: /^active$/
      })
      const [row] = await gateway.database
        .sql`select merchant_id from bitcoin_subscriptions where id = ${made.subscriptionId}`
      t.equal(row?.['merchant_id'], merchantId, 'renewed for the account from here on')
      const links = await mailedLinks(gateway.data, email, 1)
      t.equal(links.length, 1)
      t.notOk(links[0]?.includes(apiKey), 'the mail has a link, never the key (decision 155)')
      t.equal((await gateway.send('POST', new URL(links[0] ?? '').pathname)).status, 303, 'which signs in')
    }
  )

  await t.test("POST /api/bitcoin/create-subscription with a merchant's key: that account", async t => {
    const { merchantId, apiKey } = (
      await gateway.adminSend('POST', '/api/admin/merchants', { name: 'Free', email: 'free@example.com' })
    ).json() as { merchantId: number; apiKey: string }
    const made = await bought({ plan: 'individual', email: 'bookkeeper@example.com' }, apiKey)
    await gateway.pay(made.lightningInvoice)
    t.match((await gateway.adminSend('GET', `/api/admin/merchants/${merchantId}`)).json(), {
      planTier: 'individual',
      subscriptionStatus: /^active$/,
      billingSubscriptionId: made.subscriptionId,
      billingCustomerId: null
    })
    const next = await bought({ plan: 'individual', email: 'bookkeeper@example.com' }, apiKey)
    await gateway.database.sql`
      update bitcoin_invoices set created_at = created_at - interval '1 month', expires_at = expires_at - interval '1 month'
      where invoice_id = ${made.invoiceId}`
    const listed = await gateway.send('GET', '/api/merchant/subscription/invoices', {
      headers: { 'x-api-key': apiKey }
    })
    const own = { description: 'Agentic Commerce, one month', priceUsd: 49, amountSats: 49_000 }
    t.match((listed.json() as { invoices: unknown }).invoices, [
      { ...own, invoiceId: next.invoiceId, status: 'unpaid', paidAt: null, payUrl: next.payUrl },
      { ...own, invoiceId: made.invoiceId, status: 'paid', paidAt: /^2/, payUrl: made.payUrl }
    ])
    t.equal((listed.json() as { invoices: unknown[] }).invoices.length, 2)
    const others = await gateway.merchantSend('GET', '/api/merchant/subscription/invoices')
    t.same(others.json(), { invoices: [] }, 'other accounts do not see them')
    await gateway.database.sql`
      update bitcoin_invoices set expires_at = now() - interval '16 minutes' where invoice_id = ${next.invoiceId}`
    const plan = await asPerson(gateway, await sessionOf(gateway, apiKey), '/console/plan')
    t.match(
      plan.text,
      new RegExp(`<a href="[^"]*/pay/[^"]{43}">${next.invoiceId}</a>.*expired.*${made.invoiceId}`, 's')
    )
    t.match(plan.text, /\$49\.00 \(49,000 sats\)/)
  })

  await t.test('the page of a plan opens by its token alone', async t => {
    const made = await bought({ plan: 'individual', email: 'private@example.com' })
    for (const name of [made.invoiceId, made.subscriptionId, 'A'.repeat(43)]) {
      for (const path of [`/pay/${name}`, `/pay/${name}/status`, `/pay/${name}/events`])
        t.equal((await gateway.send('GET', path)).status, 404, path)
    }
    t.equal(
      (await gateway.send('GET', `/api/payments/${made.invoiceId}/status`)).status,
      404,
      "it is no merchant's payment"
    )
  })

  await t.test('decision 168: POST /api/checkout/sessions is create payment with the address of its page', async t => {
    const body = {
      orderId: 'session-1',
      amount: '12.50',
      currency: 'USD',
      description: 'A book',
      successUrl: 'https://shop.example.com/thanks'
    }
    const answer = await gateway.merchantSend('POST', '/api/checkout/sessions', body)
    t.equal(answer.status, 201)
    const session = answer.json() as Readonly<Record<string, string>>
    t.same(Object.keys(session).sort(), ['checkoutUrl', 'expiresAt', 'invoiceId', 'sessionId', 'status'])
    t.match(session, { status: /^unpaid$/, invoiceId: /^\d{15}$/ })
    const payment = (await gateway.merchantSend('GET', `/api/payments/${session['invoiceId']}`)).json() as Readonly<
      Record<string, string>
    >
    t.match(payment, { orderId: 'session-1', payUrl: session['checkoutUrl'], expiresAt: session['expiresAt'] })
    t.match((await gateway.send('GET', session['checkoutUrl'] ?? '')).text, /\$12\.50/)
    await gateway.pay(payment['lightningInvoice'] ?? '')
    t.same((await gateway.send('GET', `/api/payments/${session['invoiceId']}/status`)).json(), { status: 'paid' })
  })

  await t.test('the job creates renewals, and its mail leads to a page', async t => {
    const { merchantId, apiKey } = (
      await gateway.adminSend('POST', '/api/admin/merchants', { name: 'Renewing', email: 'renewing@example.com' })
    ).json() as { merchantId: number; apiKey: string }
    const made = await bought({ plan: 'individual', email: 'renewing@example.com' }, apiKey)
    await gateway.pay(made.lightningInvoice)
    const end = new Date(Date.now() + 5 * 86_400_000)
    await gateway.database
      .sql`update bitcoin_subscriptions set current_period_end = ${end} where id = ${made.subscriptionId}`
    await gateway.database.sql`update merchants set current_period_end = ${end} where id = ${merchantId}`
    const [renewal] = await eventually('a renewal', async () => {
      // Its next run is minutes away.
      await new JobTable(gateway.database).bringForward('plan-renewals')
      const rows = await gateway.database.sql<
        { pay_token: string; expires_at: Date }[]
      >`select pay_token, expires_at from bitcoin_invoices where subscription_id = ${made.subscriptionId} and paid_at is null`
      return rows.length > 0 ? rows : null
    })
    t.ok((renewal?.expires_at.getTime() ?? 0) > end.getTime() - 60_000, 'payable until the end')
    t.equal((await gateway.send('GET', `/pay/${renewal?.pay_token ?? ''}`)).status, 200)
  })
})
