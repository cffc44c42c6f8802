import t from 'tap'
import { startFakeLnd } from '../../fakes/lnd.ts'
import { openShop, receiptOf, returnInvoice, sessionYaml, startUpstream, token, type Shop } from './fixture.ts'

/** Makes the provider of a session one that is not configured, and back, with the next attempt due. */
async function away({ gateway }: Shop, isAway: boolean) {
  await gateway.database.sql`
    update sessions set provider_kind = ${isAway ? 'gone' : 'sandbox'}, refund_check_at = null`
}

async function payouts({ gateway }: Shop) {
  const [row] = await gateway.database.sql<{ count: number }[]>`select count(*)::int as count from sandbox_payouts`
  return row?.count ?? 0
}

/** A session whose return invoice is good for a day, and the challenge that opened it. */
async function opened(shop: Shop) {
  const { challenge, request } = await shop.ask()
  const preimage = await shop.gateway.pay(request['depositInvoice'] ?? '')
  const invoice = returnInvoice({ expirySeconds: 86_400 })
  const open = token(challenge, { action: 'open', preimage, returnInvoice: invoice })
  const proof = { sessionId: request['paymentHash'] ?? '', preimage }
  const close = (by: object = challenge, more: object = {}) => token(by, { action: 'close', ...proof, ...more })
  return { id: proof.sessionId, invoice, open, close, challenge, request, preimage, answer: await shop.get(open) }
}

t.test('closing again returns the refund as it is now', async t => {
  const shop = await openShop(t)
  const { id, close } = await opened(shop)
  await away(shop, true)
  const first = await shop.get(close())
  t.match(first, { status: 200 })
  t.same(first.json(), { status: 'closed', refundSats: 98, refundStatus: 'failed' })
  t.same((await shop.get(close())).json(), first.json())
  await away(shop, false)
  const now = await shop.get(close())
  t.same(now.json(), { status: 'closed', refundSats: 98, refundStatus: 'succeeded' })
  t.match(receiptOf(now), { reference: id, refundSats: 98, refundStatus: 'succeeded' })
  t.same((await shop.get(close())).json(), now.json())
  t.equal(await payouts(shop), 1)
})

t.test('the client of a session that was closed for it learns of its refund; other challenges are refused', async t => {
  const shop = await openShop(t)
  const { id, close } = await opened(shop)
  const admin = await shop.gateway.adminSend('POST', `/api/admin/sessions/${id}/close`)
  t.equal(admin.status, 200)
  t.match(admin.json(), { depositedMsat: 100_000, spentMsat: 2_000, balanceMsat: 0 })
  t.same((await shop.get(close())).json(), { status: 'closed', refundSats: 98, refundStatus: 'succeeded' })
  t.match((await shop.get(close((await shop.ask()).challenge))).json(), { type: /session-closed$/ })
})

t.test(
  'a client names another invoice for a refund that was not sent, by the challenge that opened its session',
  async t => {
    const shop = await openShop(t)
    const session = await opened(shop)
    const { id, close } = session
    await away(shop, true)
    t.match((await shop.get(close())).json(), { refundStatus: 'failed' })
    const other = returnInvoice()
    const invalid = { type: /invalid-return-invoice$/ }
    const fresh = (await shop.ask()).challenge
    t.match((await shop.get(close(fresh, { returnInvoice: other }))).json(), { type: /session-closed$/ })
    t.match(
      (await shop.get(close(undefined, { returnInvoice: returnInvoice({ amountMsat: 1_000n }) }))).json(),
      invalid
    )
    t.match(
      (await shop.get(close(undefined, { returnInvoice: returnInvoice({ network: 'mainnet' }) }))).json(),
      invalid
    )
    t.match((await shop.get(close(undefined, { returnInvoice: 1 }))).json(), { type: /malformed-credential$/ })
    const second = await opened(shop)
    t.match((await shop.get(close(undefined, { returnInvoice: second.invoice }))).json(), invalid, "another session's")
    t.match(await shop.store.find(id), { returnInvoice: session.invoice })
    await away(shop, false)
    t.same((await shop.get(close(undefined, { returnInvoice: other }))).json(), {
      status: 'closed',
      refundSats: 98,
      refundStatus: 'succeeded'
    })
    t.match(await shop.store.find(id), { returnInvoice: other, refundStatus: 'confirmed' })
    const late = await shop.get(close(undefined, { returnInvoice: returnInvoice() }))
    t.match(late.json(), { refundStatus: 'succeeded' }, 'the sent refund stays where it went')
    t.match(await shop.store.find(id), { returnInvoice: other })
    t.equal(await payouts(shop), 1)
  }
)

t.test('only the challenge that opened a session may name another invoice while it is open', async t => {
  const shop = await openShop(t)
  const { id, close } = await opened(shop)
  const fresh = (await shop.ask()).challenge
  t.match((await shop.get(close(fresh, { returnInvoice: returnInvoice() }))).json(), {
    type: /invalid-return-invoice$/
  })
  t.match(await shop.store.find(id), { closedAt: null })
  const other = returnInvoice()
  t.match((await shop.get(close(undefined, { returnInvoice: other }))).json(), { refundStatus: 'succeeded' })
  t.match(await shop.store.find(id), { returnInvoice: other })
})

t.test('an open that the upstream failed is not replayed, and is served by its repetition', async t => {
  const shop = await openShop(t, 'price: 49 sats\n    sessions: { deposit: 98 sats }')
  const answerWell = shop.upstream.answer
  shop.upstream.answer = (_request, response) => {
    response.statusCode = 500
    response.end('broken')
  }
  const { id, challenge, preimage, open, answer, close } = await opened(shop)
  t.equal(answer.status, 500)
  shop.upstream.answer = answerWell
  for (const served of [2, 3])
    t.match(await shop.get(token(challenge, { action: 'bearer', sessionId: id, preimage })), {
      text: `{"served":${served}}`
    })
  t.match((await shop.get(open)).json(), { type: /lightning\/insufficient-balance$/ })
  t.match(await shop.get(await shop.topUp(id)), { status: 200 })
  t.match(await shop.get(open), { status: 200, text: '{"served":4}' }, 'nor is one without the balance for it')
  t.match(await shop.get(open), { status: 200, text: '{"served":4}' }, 'and that is kept')
  t.match((await shop.get(close())).json(), { refundSats: 49 })
})

t.test('a session for which nothing was sold is paid back without a routing fee of the seller', async t => {
  const shop = await openShop(t)
  shop.upstream.answer = (_request, response) => {
    response.statusCode = 404
    response.end('nothing')
  }
  const { answer, close, id } = await opened(shop)
  t.equal(answer.status, 404)
  t.match((await shop.get(close())).json(), { refundSats: 100, refundStatus: 'succeeded' })
  t.match(await shop.store.find(id), { spentMsat: 0, refundFeeSats: 0 })
})

t.test("a node of the seller pays no routing fee, whatever the client's invoice costs", async t => {
  const node = await startFakeLnd()
  t.teardown(() => node.close())
  const upstream = await startUpstream(t)
  upstream.answer = (_request, response) => {
    response.statusCode = 404
    response.end('nothing')
  }
  const yaml = sessionYaml(upstream.url, 'price: 1 sats\n    sessions: { deposit: 20 sats }').replace(
    'primary:   { kind: sandbox }',
    `primary:   { kind: lnd, key: "${node.key()}" }`
  )
  const shop = await openShop(t, undefined, { yaml, upstream })
  const { challenge, request } = await shop.ask()
  const sessionId = request['paymentHash'] ?? ''
  const preimage = node.wallet.settle(sessionId)
  await shop.get(token(challenge, { action: 'open', preimage, returnInvoice: returnInvoice() }))
  const closed = await shop.get(token(challenge, { action: 'close', sessionId, preimage }))
  t.same(closed.json(), { status: 'closed', refundSats: 18, refundStatus: 'succeeded' })
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
  t.match((await shop.get(open)).json(), { type: /unknown-challenge$/ })
  await shop.gateway.database.sql`update sessions set open_challenge = ${challenge['id'] ?? ''}`
  t.equal((await shop.get(open)).status, 200)
  await shop.gateway.database.sql`update challenges set service = 'route:chat' where payment_hash = ${id}`
  t.match((await shop.get(open)).json(), { type: /unknown-challenge$/ }, 'nor by one that is for something else')
})

t.test('a deposit counts for one session, and once', async t => {
  const shop = await openShop(t)
  const [first, second] = [await opened(shop), await opened(shop)]
  const topUp = ({ challenge, preimage }: typeof first, sessionId: string) =>
    token(challenge, { action: 'topUp', sessionId, topUpPreimage: preimage })
  for (const credential of [topUp(first, first.id), topUp(second, first.id), topUp(first, second.id)])
    t.match((await shop.get(credential)).json(), { type: /unknown-challenge$/ })
  for (const { id } of [first, second]) t.match(await shop.store.find(id), { depositedMsat: 100_000 })
  t.match((await shop.get(first.close())).json(), { refundSats: 98 })
  t.match((await shop.get(topUp(second, first.id))).json(), { type: /session-closed$/ })
  const { challenge, request } = await shop.ask()
  const topUpPreimage = await shop.gateway.pay(request['depositInvoice'] ?? '')
  const late = token(challenge, { action: 'topUp', sessionId: first.id, topUpPreimage })
  t.match((await shop.get(late)).json(), { type: /session-closed$/ })
  const used = token(challenge, { action: 'topUp', sessionId: second.id, topUpPreimage })
  t.match(await shop.get(used), { status: 200 }, 'a deposit that was refused is still valid')
  t.match(await shop.store.find(second.id), { depositedMsat: 200_000 })
})
