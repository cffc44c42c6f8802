import t, { type Test as T } from 'tap'
import type { Database } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { startGateway, type TestGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'

interface Page {
  readonly payments: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly next: string | null
}

async function opened(t: T, database: Database) {
  const clock = new ManualClock()
  const gateway = await startGateway(t, { database, clock })
  const { apiKey } = (
    await gateway.adminSend('POST', '/api/admin/merchants', {
      name: 'other',
      email: 'other@example.com',
      primaryApiKey: 'sandbox-other'
    })
  ).json() as { apiKey: string }
  const list = async (query = '', key = gateway.merchant.apiKey, path = '/api/payments') => {
    const answer = await gateway.send('GET', `${path}${query}`, { headers: { 'x-api-key': key } })
    if (answer.status !== 200) throw new Error(`${query}: ${answer.status} ${answer.text}`)
    return answer.json() as Page
  }
  const create = async (body: object, key = gateway.merchant.apiKey) => {
    const answer = await gateway.send('POST', '/api/payments', {
      headers: { 'x-api-key': key },
      body: { amount: '0.00001', currency: 'BTC', ...body }
    })
    if (answer.status !== 201) throw new Error(answer.text)
    return (answer.json() as { lightningInvoice: string }).lightningInvoice
  }
  const orders = async (query = '', key = gateway.merchant.apiKey) =>
    (await list(query, key)).payments.map(({ orderId }) => orderId)
  return { gateway, clock, other: apiKey, list, create, orders }
}

const csv = (gateway: TestGateway, path: string, key: string) =>
  gateway.send('GET', path, { headers: { 'x-api-key': key, accept: 'text/csv' } })

await eachDatabase(
  t,
  'payments are found by status, date and text, page by page, each merchant’s its own',
  async (t, database) => {
    const { gateway, clock, other, list, create, orders } = await opened(t, database)
    t.same(await list(), { payments: [], next: null }, 'nothing at first')
    const begin = clock.now()
    const paid = await create({ orderId: 'a-1', description: '100% wool_socks', customerName: 'Ada <script>' })
    await create({ orderId: 'a-2', customerEmail: 'Grace@Example.com', description: 'مرحبا 🧦' })
    await create({ orderId: 'theirs', description: 'wool' }, other)
    await clock.advance(1000)
    await create({ orderId: 'a-3' })
    await gateway.pay(paid)

    t.same((await orders()).toSorted(), ['a-1', 'a-2', 'a-3'])
    t.same(await orders('', other), ['theirs'])
    t.same(await orders('?status=paid'), ['a-1'])
    t.same((await orders('?status=unpaid')).length, 2)
    for (const [text, expected] of Object.entries({
      WOOL: ['a-1'],
      '100%': ['a-1'],
      '0%w': [],
      l_s: ['a-1'],
      a_1: [],
      ada: ['a-1'],
      'grace@example': ['a-2'],
      '🧦': ['a-2'],
      '\\': [],
      "'; drop table payments; --": [],
      theirs: []
    }))
      t.same(await orders(`?text=${encodeURIComponent(text)}`), expected, text)
    const iso = (at: number) => new Date(at).toISOString()
    t.same(await orders(`?from=${iso(begin + 1000)}`), ['a-3'])
    t.same((await orders(`?to=${iso(begin + 1000)}`)).length, 2, 'the end is not among them')
    t.match((await list('?status=paid')).payments[0], { amountSats: 1000, receivedSats: 1000, status: /^paid$/ })

    const pages: unknown[] = []
    let next: string | null = ''
    while (next !== null) {
      const page: Page = await list(next === '' ? '?limit=1' : `?limit=1&after=${next}`)
      pages.push(...page.payments.map(({ orderId }) => orderId))
      next = page.next
    }
    t.same(pages, await orders(), 'pages of one are the list, ties of one moment too')
    const theirs = await list('', other)
    t.same(
      await orders(`?after=${Date.now() + 1e9}-${String(theirs.payments[0]?.['invoiceId'])}`),
      pages,
      "another's row as cursor reveals nothing of it"
    )
    t.equal((await list('?limit=100000')).payments.length, 3, 'out of range is clamped')

    await database.sql`update payments set expires_at = ${new Date(clock.now())}, status = case order_id when 'a-2' then 'expired' else status end
      where order_id in ('a-2', 'a-3')`
    t.same(await orders('?status=expired'), ['a-2'])
    t.same(await orders('?status=unpaid'), ['a-3'], 'its provider has not reported since it ended')

    for (const query of ['?after=x', '?from=yesterday', '?status=lost', '?limit=many'])
      t.equal((await gateway.merchantSend('GET', `/api/payments${query}`)).status, 400, query)

    const all = await list('', gateway.adminKey, '/api/admin/payments')
    t.equal(all.payments.length, 4)
    const [first] = (
      await list(
        `?merchantId=${String(all.payments.find(({ orderId }) => orderId === 'theirs')?.['merchantId'])}`,
        gateway.adminKey,
        '/api/admin/payments'
      )
    ).payments
    t.match(first, { orderId: 'theirs' })
  }
)

await eachDatabase(
  t,
  'a CSV has all that fit, in many pages, and nothing that a spreadsheet runs',
  async (t, database) => {
    const { gateway, other, create } = await opened(t, database)
    await create({ orderId: '=HYPERLINK("http://evil.example")', description: '@SUM(1)', customerName: 'a, "b"' })
    await database.sql`
    insert into payments (
      invoice_id, merchant_id, order_id, status, amount, currency, pay_token, provider_slot, provider_kind, charge_id, invoice,
      payment_hash, network, amount_sats, created_at, expires_at, updated_at)
    select (100000000000000 + i)::text, ${gateway.merchant.id}, 'o-' || i, 'expired', 0.00000001, 'BTC', 't' || i, 'primary', 'sandbox',
      'c' || i, 'lnbcrt1', lpad(i::text, 64, '0'), 'regtest', 1, ${new Date(1000)}, ${new Date(2000)}, ${new Date(2000)}
    from generate_series(1, 1200) as i`
    const answer = await csv(gateway, '/api/payments?limit=5', gateway.merchant.apiKey)
    t.equal(answer.status, 200)
    t.match(answer.headers, {
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': 'attachment; filename="payments.csv"',
      'cache-control': 'no-store'
    })
    const lines = answer.text.split('\r\n')
    t.match(lines[0], /^invoiceId,orderId,status,amount,currency,amountSats,/)
    t.match(lines[1], `,"'=HYPERLINK(""http://evil.example"")",unpaid,0.00001,BTC,1000,,"'@SUM(1)","a, ""b""",`)
    t.equal(lines.length, 1 + 1201 + 1)
    t.equal(new Set(lines.map(line => line.split(',')[0])).size, 1 + 1201 + 1, 'each once')
    t.ok(lines[2]?.includes(',0.00000001,BTC,'), 'a satoshi is written out')
    t.equal((await csv(gateway, '/api/payments', other)).text.split('\r\n').length, 2, "nothing of it is the other's")
    t.equal((await csv(gateway, '/api/payments?status=paid', gateway.merchant.apiKey)).text.split('\r\n').length, 2)
  }
)
