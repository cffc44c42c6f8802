/** Sessions through a running gateway: what its jobs do with them, and what metered routes take from them. */
import t from 'tap'
import { startModelServer } from '../../fakes/model.ts'
import { eventually } from '../../support/gateway-process.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openShop, paidBackAtRest } from './fixture.ts'

const CHAT = '/v1/chat/completions'

t.test('a session at rest is closed by the running gateway, and what is left is paid back', async t => {
  const clock = new ManualClock(Date.now())
  const shop = await openShop(t, undefined, { clock })
  const session = await shop.open()
  t.equal(session.answer.status, 200)
  clock.leap(200_000)
  await eventually('connections at rest are closed', () => shop.ask().catch(() => null))
  t.match(await shop.store.find(session.id), { closedAt: null })
  const closed = await paidBackAtRest(shop, clock, session.id)
  t.match(closed, { closedBy: 'idle', refundSats: 98, refundedMsat: 98_000, spentMsat: 2_000 })
  t.ok((closed.closedAt ?? 0) - closed.usedAt >= 300_000, 'not before its time')
  const refused = await eventually('the gateway is heard', () => shop.get(session.bearer).catch(() => null))
  t.match(refused.json(), { type: /lightning\/session-closed$/ })
})

t.test('a use of a session is recorded once a tenth of its idle time has passed', async t => {
  const clock = new ManualClock(Date.now())
  const shop = await openShop(t, undefined, { clock })
  const session = await shop.open()
  const { usedAt } = (await shop.store.find(session.id)) ?? { usedAt: 0 }
  for (const [ms, noted] of [
    [29_000, usedAt],
    [1_000, usedAt + 30_000]
  ] as const) {
    clock.leap(ms)
    const answer = await eventually('connections at rest are closed', () => shop.get(session.bearer).catch(() => null))
    t.equal(answer.status, 200)
    await eventually(`the use ${ms} ms later is noted`, async () =>
      (await shop.store.find(session.id))?.usedAt === noted ? true : null
    )
  }
})

t.test('a metered route takes from a session what was used, whole and streamed', async t => {
  const model = await startModelServer(t)
  const meter =
    'meter: { unit: token, bundle: 200 sats, prices: { input: 20 msat, output: 80 msat }, usage: openai, estimate: { json: max_tokens, else: 100 } }'
  const shop = await openShop(t, `${meter}\n    sessions: { deposit: 100 sats }`, { upstream: model.url })
  const session = await shop.deposit({ path: CHAT })
  const chat = async (authorization: string, more: object = {}) =>
    await shop.gateway.send('POST', CHAT, {
      headers: { authorization },
      body: { model: 'small', messages: [{ role: 'user', content: 'hello' }], max_tokens: 20, ...more }
    })
  const cost = (text: string) => {
    const [, input, output] = /"prompt_tokens":(\d+),"completion_tokens":(\d+)/.exec(text) ?? []
    return 20 * Number(input) + 80 * Number(output)
  }
  const whole = await chat(session.open)
  t.equal(whole.status, 200)
  const streamed = await chat(session.bearer, { stream: true, stream_options: { include_usage: true } })
  t.equal(streamed.status, 200)
  t.match(streamed.text, new RegExp(`event: payment-receipt\ndata: .*"reference":"${session.id}"`))
  const spent = cost(whole.text) + cost(streamed.text)
  t.ok(spent > 0)
  const left = Math.floor((100_000 - spent) / 1000)
  t.same(await shop.refund(session.close, CHAT), [left, 'succeeded'])
  t.match(await shop.store.find(session.id), { spentMsat: spent, refundedMsat: left * 1000 })
})
