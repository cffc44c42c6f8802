import t from 'tap'
import { startFakeLnd } from '../../fakes/lnd.ts'
import { routeYaml, startUpstream } from '../shop.ts'
import { openShop, receiptOf, returnInvoice, token, type Shop } from './fixture.ts'

/** Makes the provider of a session one that is not configured, and back, with the next attempt due. */
async function away({ gateway }: Shop, isAway: boolean) {
  await gateway.database.sql`
    update sessions set provider_kind = ${isAway ? 'gone' : 'sandbox'}, refund_check_at = null`
}

async function payouts({ gateway }: Shop) {
  const [row] = await gateway.database.sql<{ count: number }[]>`select count(*)::int as count from sandbox_payouts`
  return row?.count ?? 0
}

/** A session whose return invoice is good for a day. */
const opened = (shop: Shop) => shop.open({ invoice: returnInvoice({ expirySeconds: 86_400 }) })

t.test('closing again returns the refund as it is now', async t => {
  const shop = await openShop(t)
  const { id, close } = await opened(shop)
  await away(shop, true)
  for (let time = 0; time < 2; time++) t.same(await shop.refund(close), [98, 'failed'])
  await away(shop, false)
  const now = await shop.get(close)
  t.same(now.json(), { status: 'closed', refundSats: 98, refundStatus: 'succeeded' })
  t.match(receiptOf(now), { reference: id, refundSats: 98, refundStatus: 'succeeded' })
  t.same((await shop.get(close)).json(), now.json())
  t.equal(await payouts(shop), 1)
})

t.test('the client of a session that was closed for it learns of its refund; other challenges are refused', async t => {
  const shop = await openShop(t)
  const { id, close, closeBy } = await opened(shop)
  const admin = await shop.gateway.adminSend('POST', `/api/admin/sessions/${id}/close`)
  t.equal(admin.status, 200)
  t.match(admin.json(), { depositedMsat: 100_000, spentMsat: 2_000, balanceMsat: 0 })
  t.same(await shop.refund(close), [98, 'succeeded'])
  t.equal(await shop.problem(closeBy((await shop.ask()).challenge)), 'session-closed')
})

t.test(
  'a client names another invoice for a refund that was not sent, by the challenge that opened its session',
  async t => {
    const shop = await openShop(t)
    const { id, invoice, close, closeBy } = await opened(shop)
    await away(shop, true)
    t.same(await shop.refund(close), [98, 'failed'])
    const other = returnInvoice()
    const fresh = (await shop.ask()).challenge
    t.equal(await shop.problem(closeBy(fresh, { returnInvoice: other })), 'session-closed')
    const second = await opened(shop)
    for (const [named, problem] of [
      [returnInvoice({ amountMsat: 1_000n }), 'invalid-return-invoice'],
      [returnInvoice({ network: 'mainnet' }), 'invalid-return-invoice'],
      [second.invoice, 'invalid-return-invoice'],
      [1, 'malformed-credential']
    ] as const)
      t.equal(await shop.problem(closeBy(undefined, { returnInvoice: named })), problem)
    t.match(await shop.store.find(id), { returnInvoice: invoice })
    await away(shop, false)
    t.same(await shop.refund(closeBy(undefined, { returnInvoice: other })), [98, 'succeeded'])
    t.match(await shop.store.find(id), { returnInvoice: other, refundStatus: 'confirmed' })
    const late = closeBy(undefined, { returnInvoice: returnInvoice() })
    t.same(await shop.refund(late), [98, 'succeeded'], 'the sent refund stays where it went')
    t.match(await shop.store.find(id), { returnInvoice: other })
    t.equal(await payouts(shop), 1)
  }
)

t.test('only the challenge that opened a session may name another invoice while it is open', async t => {
  const shop = await openShop(t)
  const { id, closeBy } = await opened(shop)
  const fresh = (await shop.ask()).challenge
  t.equal(await shop.problem(closeBy(fresh, { returnInvoice: returnInvoice() })), 'invalid-return-invoice')
  t.match(await shop.store.find(id), { closedAt: null })
  const other = returnInvoice()
  t.same(await shop.refund(closeBy(undefined, { returnInvoice: other })), [98, 'succeeded'])
  t.match(await shop.store.find(id), { returnInvoice: other })
})

t.test('an open that the upstream failed is not replayed, and is served by its repetition', async t => {
  const shop = await openShop(t, 'price: 49 sats\n    sessions: { deposit: 98 sats }')
  const answerWell = shop.upstream.answer
  shop.upstream.answer = (_request, response) => {
    response.statusCode = 500
    response.end('broken')
  }
  const { id, open, answer, bearer, close } = await opened(shop)
  t.equal(answer.status, 500)
  shop.upstream.answer = answerWell
  for (const served of [2, 3]) t.match(await shop.get(bearer), { text: `{"served":${served}}` })
  t.equal(await shop.problem(open), 'insufficient-balance')
  t.match(await shop.get(await shop.topUp(id)), { status: 200 })
  t.match(await shop.get(open), { status: 200, text: '{"served":4}' }, 'nor is one without the balance for it')
  t.match(await shop.get(open), { status: 200, text: '{"served":4}' }, 'and that is kept')
  t.same(await shop.refund(close), [49, 'succeeded'])
})

t.test('a session for which nothing was sold is paid back without a routing fee of the seller', async t => {
  const shop = await openShop(t)
  shop.upstream.answer = (_request, response) => {
    response.statusCode = 404
    response.end('nothing')
  }
  const { answer, close, id } = await opened(shop)
  t.equal(answer.status, 404)
  t.same(await shop.refund(close), [100, 'succeeded'])
  t.match(await shop.store.find(id), { spentMsat: 0, refundFeeSats: 0 })
})

t.test("a node of the seller pays no routing fee, whatever the client's invoice costs", async t => {
  const node = await startFakeLnd()
  t.teardown(() => node.close())
  const route = 'price: 1 sats\n    sessions: { deposit: 20 sats }'
  const upstream = await startUpstream(t, (_request, response) => response.writeHead(404).end())
  const yaml = routeYaml(upstream.url, route).replace(
    'primary:   { kind: sandbox }',
    `primary:   { kind: lnd, key: "${node.key()}" }`
  )
  const shop = await openShop(t, undefined, { yaml })
  const { challenge, request } = await shop.ask()
  const sessionId = request['paymentHash'] ?? ''
  const preimage = node.wallet.settle(sessionId)
  await shop.get(token(challenge, { action: 'open', preimage, returnInvoice: returnInvoice() }))
  t.same(await shop.refund(token(challenge, { action: 'close', sessionId, preimage })), [18, 'succeeded'])
  t.match(
    node.requests.filter(({ path }) => path === '/v2/router/send').map(({ body }) => body),
    [
      { amt: '20', fee_limit_sat: '0' },
      { amt: '18', fee_limit_sat: '2' }
    ]
  )
  t.match(await shop.store.find(sessionId), { refundFeeSats: 2, refundedMsat: 18_000, spentMsat: 0 })
})

t.test('a session is opened by one challenge alone, though another has the same deposit', async t => {
  const shop = await openShop(t)
  const { id, challenge, open } = await opened(shop)
  // As of a second 402 that offered the same invoice.
  await shop.gateway.database.sql`update sessions set open_challenge = ${'x'.repeat(43)}`
  t.equal(await shop.problem(open), 'unknown-challenge')
  await shop.gateway.database.sql`update sessions set open_challenge = ${challenge['id'] ?? ''}`
  t.equal((await shop.get(open)).status, 200)
  await shop.gateway.database.sql`update challenges set service = 'route:chat' where payment_hash = ${id}`
  t.equal(await shop.problem(open), 'unknown-challenge', 'nor by one that is for something else')
})

t.test('a deposit counts for one session, and once', async t => {
  const shop = await openShop(t)
  const [first, second] = [await opened(shop), await opened(shop)]
  const topUp = ({ challenge, preimage }: Awaited<ReturnType<Shop['pay']>>, sessionId: string) =>
    token(challenge, { action: 'topUp', sessionId, topUpPreimage: preimage })
  for (const credential of [topUp(first, first.id), topUp(second, first.id), topUp(first, second.id)])
    t.equal(await shop.problem(credential), 'unknown-challenge')
  for (const { id } of [first, second]) t.match(await shop.store.find(id), { depositedMsat: 100_000 })
  t.same(await shop.refund(first.close), [98, 'succeeded'])
  t.equal(await shop.problem(topUp(second, first.id)), 'session-closed')
  const late = await shop.pay()
  t.equal(await shop.problem(topUp(late, first.id)), 'session-closed')
  t.equal(await shop.problem(topUp(late, second.id)), 200, 'a deposit that was refused is still valid')
  t.match(await shop.store.find(second.id), { depositedMsat: 200_000 })
})
