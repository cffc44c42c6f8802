/** A person buys in a shop with a wallet: catalog, cart, invoice, address. */
import t from 'tap'
import { defaultYaml, startGateway } from '../support/gateway.ts'

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const CART = { v10101: '2', v10301: '1', country: 'US', state: 'ca', zip: '94110', email: 'ada@example.org' }

t.test('a person buys in the shop of the sandbox, also where no other pages are served', async t => {
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [['storefront, pages ]', 'storefront ]']] }) })
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
    t.match(await gateway.send('POST', '/storefront/demo', { body: {} }), { status: 400, text: 'Enter a quantity' })
  })

  await t.test('the invoice waits on the pay page, which leads to the claim page once it is paid', async t => {
    const bought = await send({ ...CART, zip: '941\u000010' })
    t.equal(bought.status, 303, bought.text)
    const { pathname } = new URL(String(bought.headers['location']), `${gateway.url}/storefront/demo`)
    t.match(pathname, /^\/pay\/v1\./)
    const waiting = await gateway.send('GET', pathname)
    t.match(waiting, { status: 200, headers: { 'cache-control': 'no-store' } })
    for (const words of ['Sandbox shop', '2 × Coin mug, Small', '1 × Sticker pack', 'Shipping $4.90', 'Pay in sandbox'])
      t.match(waiting.text, words)
    t.match((await gateway.send('GET', `${pathname}/status`)).json(), { status: 'unpaid' })
    const style = /href="[./]*(\/assets\/[^"]+\.css)"/.exec(waiting.text)?.[1] ?? ''
    t.equal((await gateway.send('GET', style)).status, 200)
    const invoice = /href="lightning:(lnbcrt[a-z0-9]+)"/.exec(waiting.text)?.[1] ?? ''
    await gateway.pay(invoice)
    t.match((await gateway.send('GET', `${pathname}/status`)).json(), { status: 'paid' })
    const paid = await gateway.send('GET', pathname)
    const claim = /id="continue" href="([^"]+)"/.exec(paid.text)?.[1] ?? ''
    t.match(claim, /\/storefront\/demo\/claim\?claimToken=[A-Za-z0-9_-]{43}$/)
    t.match(await gateway.send('GET', claim), { status: 200, text: 'ada@example.org' })
    const [{ payment_hash: paymentHash } = { payment_hash: '' }] = await gateway.database.sql<
      Array<{ payment_hash: string }>
    >`select payment_hash from storefront_orders limit 1`
    for (const token of [
      paymentHash,
      Buffer.from(paymentHash, 'hex').toString('base64url'),
      `${pathname.slice(5, -2)}AA`
    ])
      t.equal((await gateway.send('GET', `/pay/${token}`)).status, 404, 'it opens to its own address alone')
  })
})
