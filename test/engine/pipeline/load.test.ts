import t, { type Test } from 'tap'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { Load } from '../../../src/engine/pipeline/load.ts'
import { NO_ROUTE } from '../../../src/engine/pipeline/route.ts'
import { Router } from '../../../src/engine/pipeline/router.ts'
import { Snapshot, type CompiledRoute } from '../../../src/engine/pipeline/snapshot.ts'
import { hasPaymentCredential } from '../../../src/engine/message/payment-headers.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { openDoor } from '../listener/support.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const PAID = 'Authorization: L402 token:preimage\r\n'

/** A gateway with one chain, and the load as the test makes it. */
async function overloadable(t: Test, fastLane: boolean) {
  const clock = new ManualClock()
  const entered: string[] = []
  let ended = 0
  let shed = 0
  let statements: Array<() => void> = []
  const chain = new Chain(
    [
      {
        request(ctx) {
          entered.push(ctx.path)
        },
        done() {
          ended++
        }
      },
      { handle: () => ({ status: 200, headers: [], body: 'served' }) }
    ],
    0
  )
  const router = new Router<CompiledRoute>()
  router.add({ host: null, methods: [], path: '/*' }, { info: NO_ROUTE, chain })
  const load = new Load({
    clock,
    isPaid: ({ headers }) => hasPaymentCredential(headers),
    probe: () =>
      new Promise<void>(resolve => {
        statements.push(resolve)
      }),
    shed: () => {
      shed++
    }
  })
  load.start()
  t.teardown(() => {
    load.stop()
  })
  const snapshot = new Snapshot({
    generation: 1,
    mode: 'production',
    router,
    apart: null,
    chains: [chain],
    clock,
    log: silentLog,
    load
  })
  const { connect } = await openDoor(t, {
    clock,
    fastLane,
    handle: (ctx, wire) => {
      snapshot.handle(ctx, wire)
    }
  })
  const client = await connect()
  const send = async (path: string, head = '') => {
    client.send(`GET ${path} HTTP/1.1\r\nHost: h\r\n${head}\r\n`)
    return await client.response()
  }
  return {
    clock,
    load,
    queue: chain.queue,
    entered,
    client,
    send,
    statuses: async () => [
      (await send('/quote')).status,
      (await send('/quote', PAID)).status,
      (await send('/health')).status,
      (await send('/ready')).status
    ],
    /** The database answers what waits for it. */
    answer: async () => {
      for (const resolve of statements) resolve()
      statements = []
      await Promise.resolve()
    },
    counts: () => ({ entered: entered.length, ended, shed })
  }
}

for (const fastLane of [true, false]) {
  const where = fastLane ? 'on the fast lane' : 'over node:http'

  void t.test(`load: a late event loop sheds requests, paid ones last, probes never (${where})`, async t => {
    const { clock, send, statuses, counts } = await overloadable(t, fastLane)
    const lateTick = async (late: number): Promise<void> => {
      for (let count = 0; count < 32; count++) await send('/health')
      clock.leap(50 + late)
    }
    await lateTick(300)
    t.same(await statuses(), [200, 200, 200, 200], 'one late tick may be a pause')
    await lateTick(300)
    const before = counts()
    t.same(await statuses(), [503, 200, 200, 200])
    t.same(counts(), { entered: before.entered + 3, ended: before.ended + 3, shed: 1 }, 'no plugin saw it')
    await lateTick(500)
    await lateTick(500)
    t.same(await statuses(), [503, 503, 200, 200])
    clock.advance(50)
    t.same(await statuses(), [200, 200, 200, 200], 'recovers with the next tick in time')
    clock.leap(2_000)
    clock.leap(2_000)
    t.same(await statuses(), [200, 200, 200, 200], 'a blocked process without traffic is not overloaded')
  })

  void t.test(`load: a shed request gets 503 with Retry-After and keeps its connection (${where})`, async t => {
    const { clock, load, queue, send, client, counts } = await overloadable(t, fastLane)
    for (let count = 0; count < 256; count++) load.enter(queue)
    clock.advance(300)
    const response = await send('/quote')
    t.equal(response.status, 503)
    t.equal(response.header('retry-after'), '1')
    t.equal(response.header('cache-control'), 'no-store')
    t.equal(response.header('connection'), 'keep-alive')
    t.match(JSON.parse(response.body.toString()), { error: 'Service unavailable', message: /overloaded/ })
    client.send('GET /quote HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
    t.equal((await client.response()).header('connection'), 'close')
    t.match(counts(), { entered: 0, ended: 0, shed: 2 })
  })
}

void t.test('load: a route whose queue grows while the database is slow sheds, and recovers', async t => {
  const { clock, load, queue, statuses, answer } = await overloadable(t, true)
  const wait = (count: number): void => {
    for (let entered = 0; entered < count; entered++) load.enter(queue)
  }
  wait(1_000)
  clock.advance(100)
  await answer()
  clock.advance(100)
  await answer()
  t.same(await statuses(), [200, 200, 200, 200], 'a database that answers in time sheds nothing')
  clock.advance(300)
  t.same(await statuses(), [503, 503, 200, 200])
  for (let left = 0; left < 700; left++) queue.leave()
  clock.advance(50)
  t.ok(queue.limit > 300, 'a database that completes requests may have more of them waiting')
  clock.advance(5_000)
  t.same(await statuses(), [503, 200, 200, 200], 'the limit falls when it completes none')
  for (let left = 0; left < 300; left++) queue.leave()
  t.same(await statuses(), [200, 200, 200, 200])
  for (let ticks = 0; ticks < 42; ticks++) {
    await answer()
    clock.advance(50)
  }
  t.equal(queue.limit, Infinity, 'unlimited again after two quiet seconds')
})
