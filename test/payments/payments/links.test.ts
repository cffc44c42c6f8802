/** Payment links: made by a merchant, paid by anonymous clients on a public page. */
import { eventually } from '../../support/gateway-process.ts'
import t from 'tap'
import { defaultYaml, startGateway, type TestGateway } from '../../support/gateway.ts'

interface Link {
  readonly linkId: string
  readonly url: string
}

async function made(gateway: TestGateway, body: object) {
  const answer = await gateway.merchantSend('POST', '/api/merchant/payment-links', body)
  if (answer.status !== 201) throw new Error(answer.text)
  // By the operation's own schema.
  return answer.json() as Link
}

const sent = (gateway: TestGateway, { linkId }: Link, form: Record<string, string>, client = '192.0.2.1') =>
  gateway.send('POST', `/pay/to/${linkId}`, {
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'x-forwarded-for': client },
    body: String(new URLSearchParams(form))
  })

const behindProxy = defaultYaml({ replace: [['server:\n', 'server:\n  trustedProxies: [ 127.0.0.1 ]\n']] })

const kept = async ({ database }: TestGateway) =>
  await database.sql<Array<{ amount: string; currency: string; description: string | null }>>`
    select amount, currency, description from payments order by created_at`

t.test('payment links: each payer gets a payment, and a form sent twice makes one', async t => {
  const gateway = await startGateway(t)
  const link = await made(gateway, { amount: '0.00002500', currency: 'BTC', description: 'Tea <b>' })
  t.equal(link.url, `${gateway.url}/pay/to/${link.linkId}`)
  const page = await gateway.send('GET', `/pay/to/${link.linkId}`)
  t.equal(page.status, 200)
  t.match(page.text, /Tea &lt;b>/)
  t.notMatch(page.text, /name="amount"/)
  const key = /name="key" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
  const [one, same] = await Promise.all([sent(gateway, link, { key }), sent(gateway, link, { key, amount: '1' })])
  t.same([one.status, same.status], [303, 303], one.text.slice(0, 600))
  t.equal(one.headers['location'], same.headers['location'])
  const other = await sent(gateway, link, { key: 'other' })
  t.not(other.headers['location'], one.headers['location'])
  const tea = { amount: '0.000025', currency: 'BTC', description: 'Tea <b>' }
  t.same([...(await kept(gateway))], [tea, tea])
  const payPage = await gateway.send('GET', `/pay/to/${String(one.headers['location'])}`.replace('to/../', ''))
  t.match(payPage.text, /Waiting for payment/)
  const list = (await gateway.merchantSend('GET', '/api/payments')).json() as { payments: Array<{ metadata: object }> }
  t.match(list.payments[0]?.metadata, { paymentLink: link.linkId })
})

t.test('payment links: an open amount takes what can be paid, and says what is wrong with the rest', async t => {
  const gateway = await startGateway(t)
  const bitcoin = await made(gateway, { currency: 'BTC' })
  const dollars = await made(gateway, { currency: 'USD' })
  t.match((await gateway.send('GET', `/pay/to/${bitcoin.linkId}`)).text, /Amount in satoshis/)
  for (const amount of ['', '0', '-5', 'NaN', '1e9', '1e-9', '0.5', '9'.repeat(20), '2100000000000001', '<script>']) {
    const refused = await sent(gateway, bitcoin, { key: 'one', amount })
    t.equal(refused.status, 422, amount)
    t.match(refused.text, /role="alert"/, amount)
    t.notMatch(refused.text, /<script>/)
  }
  for (const amount of ['', '0', '0.00', '-5', 'NaN', '1e9', '1e-9', '1.234', 'Infinity', '0x10'])
    t.equal((await sent(gateway, dollars, { key: 'one', amount })).status, 422, amount)
  t.equal((await kept(gateway)).length, 0)
  t.equal((await sent(gateway, bitcoin, { key: 'one', amount: '2500' })).status, 303)
  t.equal((await sent(gateway, dollars, { key: 'two', amount: '2.50' })).status, 303)
  t.match([...(await kept(gateway))], [{ amount: '0.000025' }, { amount: '2.5', currency: 'USD' }])
})

t.test('payment links: an account without multi_currency makes none in euros, which no one could pay', async t => {
  const gateway = await startGateway(t)
  await gateway.database.sql`update merchants set plan_tier = 'free', multi_currency_enabled = false`
  for (const currency of ['EUR', 'GBP']) {
    const refused = await gateway.merchantSend('POST', '/api/merchant/payment-links', { currency })
    t.equal(refused.status, 403)
    t.match(refused.json(), { error: 'Feature not available', feature: 'multi_currency' })
  }
  t.equal((await gateway.merchantSend('POST', '/api/merchant/payment-links', { currency: 'USD' })).status, 201)
})

t.test('payment links: one client makes 10 open invoices while others still pay, and all together 200', async t => {
  const gateway = await startGateway(t, { yaml: behindProxy })
  const link = await made(gateway, { currency: 'USD', amount: 1 })
  const copied = (from: number, to: number) => gateway.database.sql`
    insert into payments select (jsonb_populate_record(null::payments, to_jsonb(p) || jsonb_build_object('invoice_id', (100000000000000 + n)::text,
      'order_id', p.order_id || n, 'pay_token', 'token' || n, 'payment_hash', lpad(n::text, 64, '0'), 'charge_id', 'c' || n, 'idempotency_key', null, 'idempotency_fingerprint', null, 'idempotency_operation', null))).*
    from (select * from payments order by created_at limit 1) p, generate_series(${from}::int, ${to}::int) n`
  t.equal((await sent(gateway, link, { key: 'first' })).status, 303)
  await copied(1, 8)
  const many = await Promise.all(['a', 'b', 'c', 'd'].map(key => sent(gateway, link, { key })))
  t.ok(many.filter(({ status }) => status === 303).length <= 1, 'of concurrent ones none is one too many')
  await eventually('refused requests release their reservations', async () => {
    const held = await gateway.database.sql`select from payment_reservations`
    return held.length === 0 ? true : null
  })
  if (!many.some(({ status }) => status === 303)) t.equal((await sent(gateway, link, { key: 'tenth' })).status, 303)
  const refused = await sent(gateway, link, { key: 'last' })
  t.equal(refused.status, 503)
  t.match(refused.text, /Try again in a few minutes/)
  t.equal((await sent(gateway, link, { key: 'e' }, '192.0.2.2')).status, 303)
  await copied(9, 197)
  t.equal((await sent(gateway, link, { key: 'f' }, '192.0.2.3')).status, 503)
  await gateway.database.sql`update payments set status = 'paid'`
  t.equal((await sent(gateway, link, { key: 'last' })).status, 303)
})

t.test('payment links: removed ones, and those of accounts that may not take payments, are gone', async t => {
  const gateway = await startGateway(t)
  const link = await made(gateway, { currency: 'USD', amount: 1 })
  const page = async () => (await gateway.send('GET', `/pay/to/${link.linkId}`)).status
  await gateway.database.sql`update merchants set is_active = false`
  t.equal(await page(), 404)
  t.equal((await sent(gateway, link, { key: 'a' })).status, 404)
  await gateway.database.sql`update merchants set is_active = true`
  t.equal(await page(), 200)
  const remove = () => gateway.merchantSend('DELETE', `/api/merchant/payment-links/${link.linkId}`)
  t.same([(await remove()).status, (await remove()).status, await page()], [204, 404, 404])
  t.same((await gateway.merchantSend('GET', '/api/merchant/payment-links')).json(), [])
  for (const id of ['x', '%00', '..%2f', 'a'.repeat(22)])
    t.equal((await gateway.send('GET', `/pay/to/${id}`)).status, 404)
  for (const amount of [0, '0', -1, '1e9', 'NaN', 1e-9])
    t.equal(
      (await gateway.merchantSend('POST', '/api/merchant/payment-links', { currency: 'USD', amount })).status,
      400,
      String(amount)
    )
})
