/** A person buys in a shop with a wallet: catalog, cart, invoice, address. */
import t from 'tap'
import { startGateway } from '../support/gateway.ts'

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const CART = { v10101: '2', v10301: '1', country: 'US', state: 'ca', zip: '94110', email: 'ada@example.org' }

t.test('a person buys in the shop of the sandbox', async t => {
  const gateway = await startGateway(t)
  const send = (fields: Readonly<Record<string, string>>) =>
    gateway.send('POST', '/storefront/demo', { headers: FORM, body: String(new URLSearchParams(fields)) })

  await t.test('the page of the shop has a form, without a program', async t => {
    const { text, headers } = await gateway.send('GET', '/storefront/demo')
    t.match(text, /<form[^>]* method="post"/)
    t.match(text, / name="v10101"/)
    t.match(headers['content-security-policy'], /form-action 'self'/)
    t.equal(headers['x-robots-tag'], undefined, 'search engines may find a store that wants to be listed')
  })

  await t.test('a cart that cannot be ordered is reported on the page, which keeps its fields', async t => {
    for (const [change, words] of [
      [{ v10101: '0', v10301: '' }, 'Enter a quantity for at least one product.'],
      [{ v10101: '-1', v10301: '' }, 'Enter a quantity for at least one product.'],
      [{ v10101: '11' }, 'An order can have at most 10 items.'],
      [{ v10101: '10' }, 'at most 10 can be bought'],
      [{ v999: '1' }, 'The catalog has no variant 999.'],
      [{ country: '' }, 'Choose the country'],
      [{ country: 'XX' }, 'Choose the country'],
      [{ state: 'California' }, 'Enter your state as letters'],
      [{ email: 'ada@' }, 'Enter a complete email address']
    ] as const) {
      const answer = await send({ ...CART, ...change })
      t.equal(answer.status, 400, words)
      t.match(answer.text, words)
      t.match(answer.text, 'value="94110"')
    }
    const hostile = await send({ ...CART, country: '', zip: '"><script>alert(1)</script>' })
    t.notMatch(hostile.text, '<script>alert')
    t.equal((await gateway.send('POST', '/storefront/demo', { body: {} })).status, 415)
  })

  await t.test('the invoice waits on a page of its own, and paid it leads to the claim page', async t => {
    const bought = await send(CART)
    t.equal(bought.status, 303, bought.text)
    const page = new URL(String(bought.headers['location']), `${gateway.url}/storefront/demo`)
    t.match(page.pathname, /^\/storefront\/demo\/invoice$/)
    const path = page.pathname + page.search
    const waiting = await gateway.send('GET', path)
    t.equal(waiting.status, 200)
    t.match(waiting.headers['cache-control'], 'no-store')
    t.match(waiting.text, /<meta http-equiv="refresh" content="10"/)
    const invoice = /href="lightning:(lnbcrt[a-z0-9]+)"/.exec(waiting.text)?.[1] ?? ''
    t.match(waiting.text, '2 × ')
    await gateway.pay(invoice)
    const paid = await gateway.send('GET', path)
    t.equal(paid.status, 303)
    const claim = new URL(String(paid.headers['location']), page)
    t.match(claim.href, /\/storefront\/demo\/claim\?claimToken=[A-Za-z0-9_-]{43}$/)
    const claimPage = await gateway.send('GET', claim.pathname + claim.search)
    t.equal(claimPage.status, 200)
    t.match(claimPage.text, 'ada@example.org')
  })

  await t.test('an order opens to its own address alone', async t => {
    const location = String((await send({ ...CART, zip: '100\u000001' })).headers['location'])
    const order = new URL(location, gateway.url).searchParams.get('order') ?? ''
    const ask = (slug: string, value: string) =>
      gateway.send('GET', `/storefront/${slug}/invoice?${new URLSearchParams({ order: value })}`)
    t.equal((await ask('demo', order)).status, 200)
    const [{ payment_hash: paymentHash } = { payment_hash: '' }] = await gateway.database.sql<
      Array<{ payment_hash: string }>
    >`select payment_hash from storefront_orders limit 1`
    for (const [slug, value] of [
      ['demo', ''],
      ['demo', paymentHash],
      ['demo', `${order.slice(0, -2)}AA`],
      ['other', order]
    ] as const)
      t.equal((await ask(slug, value)).status, 404, value)
  })
})
