import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { main } from '../../src/app/main.ts'
import { openTestDatabase, temporaryFolder } from '../support/database.ts'
import { buy, challengeOf, credentialOf, defaultYaml, type TestGateway, use } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { countingUpstream, openShop, shopYaml } from './shop.ts'

const hashOf = async (gateway: TestGateway, authorization: string) =>
  ((await use(gateway, '/api/l402/status', authorization)).json() as { paymentHash: string }).paymentHash

/** One of each: a token that was used, one that was not, a Payment credential, and a legacy one that was used. */
async function wallet(gateway: TestGateway, path: string) {
  const used = await buy(gateway, path)
  const unpaid = challengeOf(await gateway.send('GET', path), 'payment')
  const legacy = `Payment method="lightning", preimage="${await gateway.pay(unpaid.parameters.get('invoice') ?? '')}"`
  for (const credential of [used, legacy])
    if ((await use(gateway, path, credential)).status !== 200) throw new Error('what was bought is served')
  return { used, unused: await buy(gateway, path), modern: await buy(gateway, path, 'payment'), legacy }
}

/** A shop on a clock of the test's own, which a test moves between what it sells before and after. */
async function open(t: Parameters<typeof openShop>[0]) {
  const clock = new ManualClock()
  return { ...(await openShop(t, { clock })), clock }
}

t.test(
  'credentials issued for a proxy until now are refused in every scheme, used or not; later ones are valid',
  async t => {
    const { gateway, proxy, clock, upstream } = await open(t)
    const [mine, other] = [await proxy(), await proxy()]
    const path = `${mine.path}/a`
    const before = await wallet(gateway, path)
    const elsewhere = await buy(gateway, `${other.path}/a`)
    const revoked = await gateway.merchantSend('DELETE', `/api/proxy/${mine.id}/tokens`)
    t.equal(revoked.status, 200, revoked.text)
    t.same(revoked.json(), { issuedUntil: new Date(clock.now()).toISOString() })
    const sold = upstream.hits.length
    for (const name of ['used', 'unused'] as const) {
      const answer = await use(gateway, path, before[name])
      t.match(
        { status: answer.status, body: answer.json() },
        {
          status: 401,
          body: { error: 'Unauthorized', message: 'Invalid L402 credential', detail: 'The token has been revoked' }
        },
        name
      )
      t.match((await use(gateway, '/api/l402/status', before[name])).json(), {
        authenticated: false,
        message: 'The token has been revoked'
      })
    }
    const modern = await use(gateway, path, before.modern)
    t.match(
      { status: modern.status, body: modern.json() },
      { status: 402, body: { type: /verification-failed$/, detail: 'The challenge has been revoked' } }
    )
    t.equal((await use(gateway, path, before.legacy)).status, 402)
    t.equal(upstream.hits.length, sold)
    t.equal((await use(gateway, `${other.path}/a`, elsewhere)).status, 200, "another proxy's are as they were")
    clock.advance(1)
    const after = await wallet(gateway, path)
    for (const [name, credential] of Object.entries(after))
      t.equal((await use(gateway, path, credential)).status, 200, name)
    t.match((await use(gateway, '/api/l402/status', after.unused)).json(), {
      authenticated: true
    })
    clock.advance(1)
    t.equal((await gateway.merchantSend('DELETE', `/api/proxy/${mine.id}/tokens`)).status, 200)
    t.equal((await use(gateway, path, after.used)).status, 401, 'and those again')
  }
)

t.test('a revoked token that was never used is not recorded as paid', async t => {
  const { gateway, proxy } = await open(t)
  const mine = await proxy()
  const token = await buy(gateway, `${mine.path}/a`)
  const paymentHash = await hashOf(gateway, token)
  await gateway.merchantSend('DELETE', '/api/merchant/tokens')
  t.equal((await use(gateway, `${mine.path}/a`, token)).status, 401)
  const [row] = await gateway.database.sql<
    { scheme: string | null }[]
  >`select scheme from challenges where payment_hash = ${paymentHash}`
  t.equal(row?.scheme, null)
})

t.test(
  'an invoice that was handed out before is not handed out again after its proxy, or it alone, was revoked',
  async t => {
    const clock = new ManualClock()
    const upstream = await countingUpstream(t)
    const { gateway, proxy } = await openShop(t, {
      clock,
      upstream,
      yaml: shopYaml(upstream.origin, {
        replace: [['mode: development', 'payment: { maxOutstanding: { address: 1 } }\nmode: development']]
      })
    })
    const mine = await proxy()
    const ask = async () =>
      ((await gateway.send('GET', `${mine.path}/a`)).json() as { l402: { payment_hash: string } }).l402.payment_hash
    const first = await ask()
    t.equal(await ask(), first, 'decision 122')
    t.equal((await gateway.merchantSend('DELETE', `/api/merchant/tokens/${first}`)).status, 204)
    const second = await ask()
    t.not(second, first)
    clock.advance(1)
    await gateway.merchantSend('DELETE', `/api/proxy/${mine.id}/tokens`)
    clock.advance(1)
    t.not(await ask(), second)
  }
)

t.test("all of a merchant's: every proxy and every resource of its own, and nothing of other accounts", async t => {
  const shop = await open(t)
  const { gateway, clock } = shop
  const [a, b, outsider] = [
    await shop.proxy(),
    await shop.proxy(),
    await shop.proxy({}, (await shop.otherMerchant()).apiKey)
  ]
  const tokens = [
    await buy(gateway, `${a.path}/x`),
    await buy(gateway, `${b.path}/x`),
    await buy(gateway, `${outsider.path}/x`),
    await buy(gateway, '/paid/x')
  ]
  const produce = async (key?: string) => {
    const made = (
      await gateway.merchantSend('POST', '/api/l402/challenges', {
        resource: '/r',
        priceSats: 5,
        ...(key === undefined ? {} : { idempotencyKey: key })
      })
    ).json() as Record<'macaroon' | 'invoice' | 'mppChallenge' | 'paymentHash', string>
    const preimage = await gateway.pay(made.invoice)
    const payment = challengeOf(
      { status: 402, headers: { 'www-authenticate': made.mppChallenge }, text: '', json: () => null },
      'payment'
    )
    const classic = (
      await gateway.merchantSend('POST', '/api/l402/challenges/verify', { macaroon: made.macaroon, preimage })
    ).json()
    return { ...made, preimage, classic, credential: credentialOf(payment, preimage).slice('Payment '.length) }
  }
  const [used, unused, bound] = [await produce(), await produce(), await produce('key')]
  t.match(used.classic, { valid: true })
  t.match((await gateway.adminSend('DELETE', `/api/admin/merchants/${gateway.merchant.id}/tokens`)).json(), {
    issuedUntil: String
  })
  const statuses = []
  for (const [index, path] of [`${a.path}/x`, `${b.path}/x`, `${outsider.path}/x`, '/paid/x'].entries())
    statuses.push((await use(gateway, path, tokens[index] ?? '')).status)
  t.same(statuses, [401, 401, 200, 200])
  t.match(
    (
      await gateway.merchantSend('POST', '/api/l402/challenges/verify', {
        macaroon: used.macaroon,
        preimage: used.preimage
      })
    ).json(),
    { valid: false, error: 'The token has been revoked' }
  )
  t.match(
    (
      await gateway.merchantSend('POST', '/api/l402/challenges/verify-credential', { credential: unused.credential })
    ).json(),
    { valid: false, consumed: false }
  )
  clock.advance(1)
  t.not(
    (await produce('key')).paymentHash,
    bound.paymentHash,
    'an idempotency key gives no challenge that buys nothing'
  )
  t.match((await produce()).classic, { valid: true })
})

t.test('merchants revoke their own alone; unknown ones are 404; a repetition is idempotent', async t => {
  const shop = await open(t)
  const { gateway } = shop
  const outsider = await shop.otherMerchant()
  const mine = await shop.proxy()
  const token = await buy(gateway, `${mine.path}/a`)
  const paymentHash = await hashOf(gateway, token)
  const operators = await hashOf(gateway, await buy(gateway, '/paid/x'))
  const as = (apiKey: string, path: string) => gateway.send('DELETE', path, { headers: { 'x-api-key': apiKey } })
  for (const path of [
    `/api/merchant/tokens/${paymentHash}`,
    `/api/proxy/${mine.id}/tokens`,
    `/api/merchant/tokens/${operators}`
  ])
    t.equal((await as(outsider.apiKey, path)).status, 404, path)
  t.equal(
    (await as(gateway.merchant.apiKey, `/api/merchant/tokens/${operators}`)).status,
    404,
    "the operator's own belong to no account"
  )
  t.equal((await use(gateway, `${mine.path}/a`, token)).status, 200, 'no call had an effect')
  for (const path of [
    `/api/admin/tokens/${'0'.repeat(64)}`,
    '/api/admin/tokens/x',
    '/api/admin/proxies/none-000000/tokens',
    '/api/admin/proxies/%00/tokens',
    '/api/admin/merchants/999999/tokens',
    '/api/admin/merchants/x/tokens'
  ])
    t.equal((await gateway.adminSend('DELETE', path)).status, 404, path)
  for (let time = 0; time < 2; time++)
    t.equal((await as(gateway.merchant.apiKey, `/api/merchant/tokens/${paymentHash}`)).status, 204)
  t.equal((await use(gateway, `${mine.path}/a`, token)).status, 401)
  // A leaked token must be stoppable by an account whose subscription has ended.
  await gateway.database
    .sql`update merchants set subscription_status = 'canceled', plan_tier = 'individual' where id = ${gateway.merchant.id}`
  t.equal((await as(gateway.merchant.apiKey, '/api/merchant/tokens')).status, 200)
  t.equal((await as(gateway.merchant.apiKey, `/api/proxy/${mine.id}/tokens`)).status, 200)
})

t.test('a revocation counts on every node within 5 seconds, also where its announcement is lost', async t => {
  const database = await openTestDatabase(t, { migrations: [] })
  const upstream = await countingUpstream(t)
  const clock = new ManualClock()
  const master = randomBytes(32).toString('hex')
  const [here, there] = [
    await openShop(t, { database, upstream, master }),
    await openShop(t, { database, upstream, master, clock })
  ]
  const [first, second] = [await buy(here.gateway, '/paid/a'), await buy(here.gateway, '/paid/a')]
  for (const token of [first, second]) t.equal((await use(there.gateway, '/paid/a', token)).status, 200, 'known there')
  t.equal(
    (await here.gateway.adminSend('DELETE', `/api/admin/tokens/${await hashOf(here.gateway, first)}`)).status,
    204
  )
  await eventually('announced', async () => (await use(there.gateway, '/paid/a', first)).status === 401)
  await database.sql`insert into revocations (kind, id, revoked_at) values ('payment', ${await hashOf(here.gateway, second)}, now())`
  t.equal((await use(there.gateway, '/paid/a', second)).status, 200)
  clock.advance(4_500)
  await eventually('read again', async () => (await use(there.gateway, '/paid/a', second)).status === 401)
})

t.test('boltgate revoke takes a hash, a credential, a proxy or a merchant', async t => {
  const { gateway, proxy } = await openShop(t)
  const mine = await proxy()
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, defaultYaml().replace('"${BOLTGATE_DATA:-./data}"', JSON.stringify(gateway.data)))
  const run = async (...args: string[]) => {
    const lines: string[] = []
    const code = await main(['revoke', ...args, '--url', gateway.url, '--config', file], {
      print: line => {
        lines.push(line)
      },
      complain: line => {
        lines.push(line)
      }
    })
    return { code, text: lines.join('\n') }
  }
  for (const [what, buyOne] of [
    ['its hash', async (token: string) => hashOf(gateway, token)],
    ['its text', async (token: string) => token]
  ] as const) {
    const token = await buy(gateway, '/paid/x')
    t.equal((await use(gateway, '/paid/x', token)).status, 200)
    t.match(await run(await buyOne(token)), { code: 0, text: /^Revoked: every credential/ })
    t.equal((await use(gateway, '/paid/x', token)).status, 401, what)
  }
  const modern = await buy(gateway, '/paid/x', 'payment')
  t.equal((await run(modern)).code, 0)
  t.equal((await use(gateway, '/paid/x', modern)).status, 402)
  const token = await buy(gateway, `${mine.path}/a`)
  t.match(await run('--proxy', mine.id), { code: 0, text: /^Revoked: everything issued until \d{4}-/ })
  t.equal((await use(gateway, `${mine.path}/a`, token)).status, 401)
  t.equal((await run('--merchant', String(gateway.merchant.id))).code, 0)
  t.match(await run('--merchant', '99999'), { code: 1, text: /404/ })
  for (const args of [
    [],
    ['x'],
    ['--proxy', 'a', '--merchant', '1'],
    ['a'.repeat(64), 'b'.repeat(64)],
    ['L402 AAAA:00']
  ])
    t.equal((await run(...args)).code, 2, args.join(' '))
})
