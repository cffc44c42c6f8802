import t, { type Test } from 'tap'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { Load, type ShedReason } from '../../../src/engine/pipeline/load.ts'
import { NO_ROUTE } from '../../../src/engine/message/context.ts'
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
  const reasons = new Set<ShedReason>()
  const reports: number[] = []
  let statements: Array<() => void> = []
  const chain = new Chain(
    [
      {
        answersPreflights: true,
        request: ctx => (ctx.preflight === null ? undefined : { status: 204, headers: [], body: null }),
        response(_ctx, { headers }) {
          headers.set('Access-Control-Allow-Origin', '*')
        }
      },
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
  router.add({ host: null, methods: [], path: '/*' }, { info: NO_ROUTE, chain, operations: null })
  const load = new Load({
    clock,
    isPaid: ({ headers }) => hasPaymentCredential(headers),
    probe: () =>
      new Promise<void>(resolve => {
        statements.push(resolve)
      }),
    shed: reason => {
      shed++
      reasons.add(reason)
    },
    report: count => {
      reports.push(count)
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
    reasons,
    reports,
    preflight: async () => {
      client.send(
        'OPTIONS /quote HTTP/1.1\r\nHost: h\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n'
      )
      return (await client.response()).status
    },
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
    const lateTick = async (late: number) => {
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
    const { clock, load, queue, send, preflight, client, counts, reasons } = await overloadable(t, fastLane)
    for (let count = 0; count < 256; count++) load.enter(queue)
    clock.advance(300)
    const response = await send('/quote')
    t.equal(response.status, 503)
    t.equal(response.header('retry-after'), '1')
    t.equal(response.header('cache-control'), 'no-store')
    t.equal(response.header('connection'), 'keep-alive')
    t.equal(response.header('access-control-allow-origin'), '*', 'pages can read it')
    t.match(JSON.parse(response.body.toString()), { error: 'Service unavailable', message: /overloaded/ })
    t.equal(await preflight(), 204, 'a refused preflight would hide it')
    client.send('GET /quote HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
    t.equal((await client.response()).header('connection'), 'close')
    t.match(counts(), { entered: 0, ended: 0, shed: 2 })
    t.same([...reasons], ['database'])
  })
}

void t.test('load: a queue grows only as fast as the database answers', async t => {
  const { clock, load, queue, statuses, answer } = await overloadable(t, true)
  const fill = (count: number) => {
    while (queue.waiting < count) load.enter(queue)
  }
  fill(2_100)
  t.same(await statuses(), [503, 200, 200, 200], 'the database has not answered yet')
  for (const count of [2_200, 2_300, 2_400, 2_500]) {
    clock.advance(40)
    await answer()
    t.same(await statuses(), [200, 200, 200, 200], 'a database that answers in time sheds nothing')
    load.enter(queue)
    fill(Math.min(count, queue.limit - 1))
  }
  clock.advance(110)
  await answer()
  fill(queue.limit)
  t.same(await statuses(), [503, 200, 200, 200], 'a slow answer lets nothing grow')
})

void t.test('load: one late turn of the event loop does not make the database slow', async t => {
  const { clock, load, queue, answer } = await overloadable(t, true)
  for (let count = 0; count < 256; count++) load.enter(queue)
  clock.advance(50)
  clock.leap(500)
  await answer()
  clock.advance(50)
  t.equal(queue.limit, 2_048, 'one pause')
  clock.leap(500)
  await answer()
  clock.leap(600)
  t.equal(queue.limit, 128, 'a queue does not build up behind a loop that is always slow')
})

void t.test('load: a standing queue is kept shorter than a burst', async t => {
  const { clock, load, queue } = await overloadable(t, true)
  for (let count = 0; count < 256; count++) load.enter(queue)
  clock.advance(300)
  t.equal(queue.limit, 256)
  clock.advance(2_000)
  t.equal(queue.limit, 128)
})

void t.test('load: shed requests are reported once a second with their number', async t => {
  const { clock, load, queue, send, reports, reasons } = await overloadable(t, true)
  for (let count = 0; count < 256; count++) load.enter(queue)
  clock.advance(300)
  await send('/quote')
  clock.advance(50)
  for (let count = 0; count < 3; count++) await send('/quote')
  clock.advance(900)
  t.same(reports, [1])
  clock.advance(1_000)
  t.same(reports, [1, 3])
  t.same([...reasons], ['database'])
})

void t.test('load: a route whose queue grows while the database is slow sheds, and recovers', async t => {
  const { clock, load, queue, statuses, answer } = await overloadable(t, true)
  const wait = (count: number) => {
    for (let entered = 0; entered < count; entered++) load.enter(queue)
  }
  wait(1_000)
  clock.advance(300)
  t.same(await statuses(), [503, 503, 200, 200])
  for (let left = 0; left < 700; left++) queue.leave()
  clock.advance(50)
  t.ok(queue.limit > 280, 'a database that completes requests may have more of them waiting')
  clock.advance(5_000)
  t.same(await statuses(), [503, 503, 200, 200], 'the limit falls when it completes none')
  for (let left = 0; left < 140; left++) queue.leave()
  t.same(await statuses(), [503, 200, 200, 200], 'paid requests are the last')
  for (let left = 0; left < 60; left++) queue.leave()
  t.same(await statuses(), [200, 200, 200, 200])
  for (let ticks = 0; ticks < 42; ticks++) {
    await answer()
    clock.advance(50)
  }
  t.equal(queue.limit, Infinity, 'unlimited again after two quiet seconds')
})
