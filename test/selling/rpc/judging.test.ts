/** What happens to payments while a batch is judged. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import type { Challenges } from '../../../src/selling/challenges/service.ts'
import type { RouteConfig } from '../../../src/engine/config/schema.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import type { Responder } from '../../../src/engine/pipeline/plugin.ts'
import { RpcSale } from '../../../src/selling/rpc/sale.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { toolCall } from './setting.ts'

t.test('a request ends only when each of its calls is judged, also where one fails', async t => {
  const slow = Promise.withResolvers<object>()
  const verdicts = [Promise.reject(new TypeError('a fault of ours')), slow.promise]
  const paid = { kind: 'paid', payment: { paymentHash: '0', amountSats: 5 }, lease: { id: '1' }, challengeId: '2' }
  // As much of it as a sale asks for.
  const challenges = {
    settings: { x402Origin: null },
    routeOffers: () => ({ ofCall: () => ({ description: 'tools' }) }),
    verify: () => verdicts.shift()
  } as unknown as Challenges
  const prices = { protocol: 'mcp', toolErrors: 'sold', tools: { a: 5, b: 5 } } as const
  const sale = new RpcSale({
    challenges,
    clock: new ManualClock(),
    // Nothing is read of it here.
    route: {} as RouteConfig,
    prices,
    forward: () => {}
  })
  const body = Buffer.from(JSON.stringify([toolCall('a', 1), toolCall('b', 2)]))
  const ctx = {
    upgrade: null,
    method: 'POST',
    path: '/mcp',
    headers: new HeaderList(['Content-Type', 'application/json']),
    body: { length: body.byteLength, bytes: () => Promise.resolve(body), isAnonymous: false }
  } as unknown as Context
  let leased = () => 0
  let isOver = false
  const handled = Promise.resolve(
    // Nothing is written.
    sale.handle(ctx, {} as Responder, ({ calls }) => {
      leased = () => calls.payment?.amountSats ?? 0
    })
  ).finally(() => {
    isOver = true
  })
  await setImmediate()
  t.notOk(isOver, 'one is still judged, which may lease its payment')
  slow.resolve(paid)
  await t.rejects(handled, { message: 'a fault of ours' })
  t.equal(leased(), 5, "the lease is known at the request's end")
})
