import t, { type Test as T } from 'tap'
import { decodePaidKey, encodePaidKey } from '../../../src/lightning/l402/root-key.ts'
import { challengeOf, credentialOf, startGateway, paidFor } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { systemClock, type Clock } from '../../../src/platform/system/clock.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { buyKey, JSON_TYPE, narrowed, replies, routeYaml, startUpstream, STREAM_TYPE } from '../shop.ts'

const PATH = '/v1/chat/completions'
const USAGE = { prompt_tokens: 10, completion_tokens: 9, total_tokens: 19, input_tokens: 10, output_tokens: 9 }

/** Sells an API like OpenAI's with keys: 10 msat per token of input, 100 of output; each response costs 1,000 msat. */
async function openShop(
  t: T,
  { api = 'openai', clock, most = 10 }: { readonly api?: string; readonly clock?: Clock; readonly most?: number } = {}
) {
  const upstream = await startUpstream(t, replies({ usage: USAGE }))
  const meter = `{ unit: token, bundle: 10 sats, prices: { input: 10 msat, output: 100 msat }, usage: ${api}, estimate: { input: 10, else: 9 } }`
  const yaml = routeYaml(upstream.url, `keys: true\n    meter: ${meter}`)
  const options = {
    yaml: `payment: { maxOutstanding: { address: ${most} } }\n${yaml}`,
    ...(clock === undefined ? {} : { clock })
  }
  const gateway = await startGateway(t, options)
  /** Another process of the same database. */
  const other = async () => await startGateway(t, { ...options, data: gateway.data, database: gateway.database })
  const ask = (
    headers: Readonly<Record<string, string>>,
    body: object = { model: 'small' },
    path = PATH,
    at = gateway
  ) => at.send('POST', path, { headers, body })
  return { gateway, other, ask, ...holder(gateway), upstream, buy: (body?: object) => buyKey(gateway, body) }
}

/** What holders of keys ask of a gateway. */
function holder(gateway: Awaited<ReturnType<typeof startGateway>>) {
  return {
    standing: async (key: string) =>
      (await gateway.send('GET', '/l402/keys/self', { headers: { 'x-api-key': key } })).json() as Record<
        string,
        unknown
      >,
    topUp: (key: string, body: object) =>
      gateway.send('POST', '/l402/keys/self/top-ups', { body, headers: { 'x-api-key': key } }),
    /** Statuses of requests with a key. */
    statusOf: async (key: string, body: object = { model: 'small' }, path = PATH) =>
      (await gateway.send('POST', path, { headers: { 'x-api-key': key }, body })).status
  }
}

t.test('keys: one payment buys a key that ordinary clients send in any of three headers', async t => {
  const { ask, buy, standing, upstream, gateway } = await openShop(t)
  const { key, credential } = await buy({ amount: 20, label: 'laptop' })
  t.match(key, /^bg_[A-Za-z0-9_-]+$/)
  for (const headers of [
    { authorization: `Bearer ${key}` },
    { authorization: `bearer  ${key}` },
    { 'x-api-key': key },
    { 'api-key': key }
  ]) {
    const answer = await ask(headers)
    t.equal(answer.status, 200, answer.text)
    t.equal(answer.headers['x-charged-msat'] ?? '1000', '1000')
    t.notMatch(JSON.stringify(upstream.headers), key, 'the upstream never sees it')
  }
  t.equal((await ask({ authorization: credential })).status, 200, 'the L402 credential is the same balance')
  const { balanceMsat, depositedMsat, usage } = await standing(key)
  t.equal(depositedMsat, 20_000)
  t.equal(balanceMsat, 15_000)
  t.match(usage, [{ model: null, requests: 5, failed: 0, input: 50, output: 45, msat: 5000 }])
  const again = await gateway.send('POST', '/l402/keys', {
    body: { label: 'x' },
    headers: { authorization: credential }
  })
  t.match(again.json(), { key, label: 'x', balanceMsat: 15_000 }, 'the credential shows the key again')
  t.equal(again.headers['cache-control'], 'no-store')
  t.equal((await gateway.send('POST', '/l402/keys', { body: { amount: 0 } })).status, 400)
})

t.test('keys: a holder of the preimage makes the key without the gateway', async t => {
  const { ask, statusOf, gateway } = await openShop(t)
  const challenge = challengeOf(await ask({}), 'l402')
  const preimage = await gateway.pay(challenge.parameters.get('invoice') ?? '')
  const macaroon = Buffer.from(challenge.parameters.get('macaroon') ?? '', 'base64')
  const key = encodePaidKey(Buffer.from(preimage, 'hex'), macaroon)
  t.equal((await ask({ authorization: `Bearer ${key}` })).status, 200)
  const unpaid = challengeOf(await ask({}), 'l402')
  for (const proof of [Buffer.alloc(32), Buffer.from(preimage, 'hex')]) {
    const forged = encodePaidKey(proof, Buffer.from(unpaid.parameters.get('macaroon') ?? '', 'base64'))
    t.equal(await statusOf(forged), 401, 'the macaroon of a 402 alone is no key')
  }
})

t.test('keys: a changed key, another credential beside it, or a route without keys pays nothing', async t => {
  const { ask, buy, statusOf, upstream, gateway } = await openShop(t)
  const { key, credential } = await buy()
  const other = (await buy()).key
  const before = upstream.requests.length
  for (const at of [10, 60, key.length - 3]) {
    const changed = key.slice(0, at) + (key[at] === 'A' ? 'B' : 'A') + key.slice(at + 1)
    t.equal((await ask({ authorization: `Bearer ${changed}` })).status, 401, `character ${at}`)
  }
  for (const cut of [key.slice(0, 160), `${key}!`]) t.not(await statusOf(cut), 200)
  t.equal((await ask({ authorization: credential, 'x-api-key': key })).status, 400, 'an L402 credential beside it')
  t.equal((await ask({ authorization: `Bearer ${other}`, 'x-api-key': key })).status, 400, 'two keys')
  t.equal((await ask({ 'payment-authorization': 'Payment e30', 'api-key': key })).status, 400, 'a Payment credential')
  for (const name of ['x-api-key', 'api-key'])
    t.equal((await ask({ [name]: credential })).status, 402, 'a field for keys that is passed on holds no credential')
  t.equal(upstream.requests.length, before)
  t.equal((await ask({ authorization: `Bearer ${key}`, 'x-api-key': key })).status, 200, 'the same key twice is one')
  t.equal(
    (await ask({ authorization: 'Bearer sk-other', 'x-api-key': key })).status,
    200,
    "the upstream's own key may be beside it"
  )
  t.equal(upstream.headers.authorization, 'Bearer sk-other')
  t.equal(
    (await gateway.send('GET', '/l402/keys/self', { headers: { 'x-api-key': `bg_${'A'.repeat(200)}` } })).status,
    401
  )
  t.equal((await gateway.send('GET', '/l402/keys/self')).status, 401)
})

t.test('keys: a holder narrows a key offline by budget, model, path and time, and cannot widen it', async t => {
  const clock = new ManualClock(Date.UTC(2026, 10, 27, 23, 59, 58))
  const { ask, buy, standing, statusOf, gateway } = await openShop(t, { clock })
  const { key } = await buy()
  const budget = narrowed(key, 'budget_msat=2500')
  t.equal(await statusOf(budget), 200)
  t.equal(await statusOf(narrowed(budget, 'budget_msat=9000')), 200, 'a wider one below counts for both')
  const over = await ask({ 'x-api-key': budget })
  t.equal(over.status, 403)
  t.match(over.json(), { error: { type: 'insufficient_quota', message: /500 of 2500 millisatoshis left/ } })
  t.equal(await statusOf(narrowed(budget, 'label=other')), 403, 'a label below it is the same budget')
  t.equal(await statusOf(narrowed(key, 'label=other', 'budget_msat=2500')), 200, 'another label is another')
  t.equal(await statusOf(key), 200, 'and the key itself pays on')
  t.equal((await standing(key)).balanceMsat, 6_000, 'budgets are no money')

  for (const authorization of [
    `Bearer ${budget}`,
    `Payment method="lightning", preimage="${decodePaidKey(budget)?.proof}"`
  ]) {
    const again = await gateway.send('POST', '/l402/keys', { headers: { authorization } })
    const shown = again.status === 201 ? (again.json() as { key: string }).key : null
    t.ok(shown === null || shown === budget, 'it gives no wider key out')
  }

  const daily = narrowed(key, 'budget_msat=1000/day')
  t.equal(await statusOf(daily), 200)
  t.equal((await ask({ 'x-api-key': daily, connection: 'close' })).status, 403)
  clock.advance(3_000)
  t.equal(await statusOf(daily), 200, 'another day')
  const monthly = narrowed(key, 'budget_msat=1000/month')
  t.equal(await statusOf(monthly), 200)
  t.equal(await statusOf(monthly), 403, 'the same month')

  const small = narrowed(key, 'model=small,tiny')
  t.equal(await statusOf(small, { model: 'large' }), 403)
  t.equal(await statusOf(small, {}), 403, 'no model at all')
  t.equal(await statusOf(narrowed(small, 'model=large'), { model: 'large' }), 403)
  t.equal(await statusOf(small), 200)
  t.equal(await statusOf(narrowed(key, 'path=/v1/embeddings')), 403)
  t.equal((await ask({ 'x-api-key': narrowed(key, `expires=${Math.floor(clock.now() / 1000) - 1}`) })).status, 403)
  for (const caveat of ['budget_msat=0', 'budget_msat=-1', 'budget_msat=5/week', 'budget_msat=1e3', 'wide=1'])
    t.equal(await statusOf(narrowed(key, caveat)), 401, caveat)
  t.equal((await gateway.send('GET', '/l402/test/ping', { headers: { 'x-api-key': key } })).status, 402, 'no key there')
})

t.test('keys: the holder of a narrowed key behind the same address has no wider token of its purchase', async t => {
  const { statusOf, gateway } = await openShop(t, { most: 1 })
  const order = async (): Promise<ReturnType<typeof challengeOf>> =>
    challengeOf(await gateway.send('POST', '/l402/keys', { body: {} }), 'l402')
  // Eve asks first, so that Bob could be handed the invoice of her request.
  const eve = await order()
  const bob = await order()
  const authorization = credentialOf(bob, await gateway.pay(bob.parameters.get('invoice') ?? ''))
  const bought = await gateway.send('POST', '/l402/keys', { body: {}, headers: { authorization } })
  const lent = narrowed((bought.json() as { key: string }).key, 'model=small')
  t.equal(await statusOf(lent), 200)
  const proof = Buffer.from(decodePaidKey(lent)?.proof ?? '', 'hex')
  const wider = encodePaidKey(proof, Buffer.from(eve.parameters.get('macaroon') ?? '', 'base64'))
  t.equal(await statusOf(wider, { model: 'large' }), 401)
})

t.test('keys: a key narrowed to models is held to the model in a path, whatever the body says', async t => {
  const { ask, buy, upstream } = await openShop(t, { api: 'gemini' })
  const small = { 'x-api-key': narrowed((await buy()).key, 'model=small') }
  const at = async (model: string, body: object): Promise<number> =>
    (await ask(small, body, `/v1/models/${model}:generateContent`)).status
  for (const model of ['large', 'small:large', 'Small', 'sm%61ller']) {
    t.equal(await at(model, { model: 'small' }), 403, model)
    t.equal(await at(model, {}), 403, model)
  }
  t.equal(upstream.requests.length, 0)
  t.equal(await at('small', {}), 200)
  t.equal(await at('sm%61ll', { model: 'large' }), 200, 'which reads no model in the body')
})

t.test('keys: a narrowed key shows no requests of other holders', async t => {
  const { ask, buy, standing, gateway } = await openShop(t)
  const { key, credential } = await buy()
  await ask({ 'x-api-key': key })
  for (const caveat of ['label=bob', 'budget_msat=5000', 'model=small', 'path=/v1/embeddings']) {
    const { balanceMsat, usage, requests } = await standing(narrowed(key, caveat))
    t.same({ balanceMsat, usage, requests }, { balanceMsat: 9000, usage: [], requests: [] }, caveat)
  }
  t.match(await standing(key), { usage: [{ requests: 1 }], requests: [{}] }, 'the buyer sees them')
  const shown = await gateway.send('GET', '/l402/keys/self', { headers: { authorization: credential } })
  t.match(shown.json(), { requests: [{}] }, 'by the credential of the payment too')
})

t.test('keys: many requests spend no more than a budget', async t => {
  const { buy, standing, statusOf, gateway } = await openShop(t)
  const { key } = await buy({ amount: 1000 })
  const budget = narrowed(key, 'budget_msat=5000')
  const statuses = await Promise.all(Array.from({ length: 40 }, async () => await statusOf(budget)))
  t.ok(statuses.every(status => status === 200 || status === 403))
  t.ok(statuses.filter(status => status === 200).length <= 5, 'five requests of 1,000 millisatoshis')
  t.ok(statuses.includes(200))
  t.match(await standing(key), { reservedMsat: 0, depositedMsat: 1_000_000 }, 'the refused amount is free again')
  const spent = (await buy({ amount: 1 })).key
  t.equal(await statusOf(spent), 200)
  t.equal(await statusOf(narrowed(spent, 'label=row', 'budget_msat=7777')), 402)
  const rows = await gateway.database.sql`select from balances where kind = 'budget' and deposited_msat = 7777`
  t.equal(rows.length, 0, 'a key without money makes no rows')
})

t.test('keys: two gateways spend no more than a budget of a day or month, which end at midnight UTC', async t => {
  let ahead = Date.parse('2027-02-28T23:58:00Z') - Date.now()
  const clock: Clock = { ...systemClock, now: () => Date.now() + ahead }
  const { ask, buy, gateway, other } = await openShop(t, { clock })
  const gateways = [gateway, await other()]
  const { key } = await buy({ amount: 1000 })
  const served = async (period: string) => {
    const budget = narrowed(key, `label=${period}`, `budget_msat=3000/${period}`)
    let count = 0
    // What one gateway holds comes back after a while.
    for (let round = 0; round < 6; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, at) => ask({ 'x-api-key': budget }, undefined, undefined, gateways[at % 2]))
      )
      const statuses = answers.map(({ status }) => status)
      t.ok(
        statuses.every(status => status === 200 || status === 403),
        statuses.join()
      )
      count += statuses.filter(status => status === 200).length
    }
    return count
  }
  const periods = ['day', 'month']
  for (const period of periods) t.equal(await served(period), 3, `a ${period}`)
  ahead += 120_000
  for (const period of periods) t.equal(await served(period), 3, `another ${period}`)
})

for (const api of ['openai', 'anthropic'])
  t.test(`keys: a used-up key says so as ${api} does, and a top-up is in its balance when it is paid`, async t => {
    const { ask, buy, standing, topUp, statusOf, gateway } = await openShop(t, { api })
    const { key } = await buy({ amount: 1 })
    t.equal(await statusOf(key), 200)
    const usedUp = await ask({ 'x-api-key': key })
    t.equal(usedUp.status, 402)
    const { error, type } = usedUp.json() as { error: { type: string; message: string }; type?: string }
    t.equal(error.type, 'insufficient_quota')
    t.match(error.message, /used up.*\/l402\/keys/)
    t.equal(type, api === 'anthropic' ? 'error' : undefined)
    t.ok(usedUp.headers['www-authenticate'], 'with its challenges')
    t.match((await ask({ 'x-api-key': `${key.slice(0, -2)}AA` })).json(), { error: { type: 'authentication_error' } })
    t.match((await ask({})).json(), { error: 'Payment Required' }, "others get the contract's body")
    const cut = (await ask({ 'x-api-key': key.slice(0, 200) })).json()
    t.match(cut, { error: { message: /copy the whole of it/ } }, 'a key that was copied in part')

    const asked = await topUp(key, { amount: 2 })
    t.equal(asked.status, 201, asked.text)
    const { invoice, amountSats } = asked.json() as { invoice: string; amountSats: number }
    t.equal(amountSats, 2)
    t.equal((await standing(key)).balanceMsat, 0, 'not before it is paid')
    const preimage = await gateway.pay(invoice)
    for (let times = 0; times < 2; times++) {
      const shown = await topUp(key, { amount: 2, preimage })
      t.match(shown.json(), { depositedMsat: 3000, balanceMsat: 2000 }, 'once, however often it is shown')
    }
    t.equal(await statusOf(key), 200)
    const other = (await buy()).key
    const stolen = await topUp(other, { amount: 2, preimage })
    t.equal(stolen.status, 404, 'not of another key')
  })

t.test('keys: a person buys one in a browser, whose wallet shows no preimage', async t => {
  const { statusOf, gateway } = await openShop(t)
  const html = { accept: 'text/html' }
  const link = 'href="/l402/keys"'
  t.match((await gateway.send('GET', '/v1/x', { headers: html })).text, link, 'the page of a 402 leads there')
  const form = await gateway.send('GET', '/l402/keys', { headers: html })
  t.equal(form.status, 200)
  t.match(form.text, /name="amount"[^>]*value="10"/)
  const address = '/l402/keys?order=7f&amount=2'
  const page = await gateway.send('GET', address, { headers: html })
  t.equal(page.status, 402)
  t.notMatch(page.text, link)
  const cookie = String(page.headers['set-cookie']).split(';')[0] ?? ''
  t.match(String(page.headers['set-cookie']), /Path=\/l402\/keys; .*HttpOnly/)
  t.equal((await gateway.send('GET', address, { headers: { ...html, cookie } })).status, 402, 'not before it is paid')
  await gateway.pay(challengeOf(page, 'l402').parameters.get('invoice') ?? '')
  const bought = await gateway.send('GET', address, { headers: { ...html, cookie } })
  t.equal(bought.status, 200)
  t.equal(bought.headers['cache-control'], 'no-store')
  const key = /bg_[\w-]{150,}/.exec(bought.text)?.[0] ?? ''
  t.match(bought.text, `OPENAI_BASE_URL=${gateway.url}/v1 OPENAI_API_KEY=${key}`)
  t.equal(await statusOf(key), 200)
  t.equal((await gateway.send('GET', address, { headers: html })).status, 402, 'another browser pays for itself')
  t.equal(
    (await gateway.send('GET', '/l402/keys?order=8&amount=2', { headers: { ...html, cookie } })).status,
    402,
    'another order'
  )
})

t.test('keys: on a route with sessions alone each response or event takes the price of a unit', async t => {
  const { url } = await startUpstream(t, (request, response) => {
    const events = Number(new URL(request.url ?? '', 'http://x').searchParams.get('events') ?? 0)
    response.writeHead(events > 0 ? 200 : 201, events > 0 ? STREAM_TYPE : JSON_TYPE)
    response.end(events > 0 ? Array.from({ length: events }, (_, at) => `data: ${at}\n\n`).join('') : '{}')
  })
  const route = 'price: 2 sats\n    sessions: { deposit: 12 sats, unit: word }\n    keys: true'
  const gateway = await startGateway(t, { yaml: routeYaml(url, route) })
  const unpaid = await gateway.send('GET', '/v1/x')
  t.equal(challengeOf(unpaid, 'l402').parameters.has('invoice'), true)
  t.match(unpaid.headers['www-authenticate'], [/^L402/, /^Payment .*intent="charge"/, /^Payment .*intent="session"/])
  const once = await paidFor(gateway, unpaid)
  t.equal((await gateway.send('GET', '/v1/x', { headers: { authorization: once } })).status, 201, 'one request as ever')

  const { key, credential: authorization } = await buyKey(gateway)
  const ask = (target: string, with_ = key) => gateway.send('GET', target, { headers: { 'x-api-key': with_ } })
  const standing = () => holder(gateway).standing(key)
  t.match(await standing(), { balanceMsat: 12_000 }, 'the deposit')
  // A response is settled behind its last byte.
  const settled = (msat: number) =>
    eventually(`${msat} msat left`, async () => ((await standing())['balanceMsat'] === msat ? true : null), 10_000)
  t.equal((await ask('/v1/x')).status, 201)
  t.match(await standing(), { unit: 'word', balanceMsat: 10_000 })
  t.match((await ask('/v1/x?events=3')).text, 'data: 2')
  await settled(4_000)
  t.equal((await ask('/v1/x', narrowed(key, 'budget_msat=1000'))).status, 403, 'less than a unit')
  t.notMatch((await ask('/v1/x?events=9')).text, 'data: 3', 'the stream ends with the balance')
  const usedUp = await ask('/v1/x')
  t.equal(usedUp.status, 402)
  t.match(usedUp.text, 'used up')
  await settled(0)
  t.equal(
    (await gateway.send('GET', '/v1/x', { headers: { authorization: once } })).status,
    201,
    'tokens are as they were'
  )
  t.equal((await gateway.send('GET', '/v1/x', { headers: { authorization } })).status, 401, 'a balance is no token')
  const [macaroon = '', preimage = ''] = once.slice('L402 '.length).split(':')
  const made = encodePaidKey(Buffer.from(preimage, 'hex'), Buffer.from(macaroon, 'base64'))
  t.equal((await ask('/v1/x', made)).status, 401, 'and a token is no key')
})
