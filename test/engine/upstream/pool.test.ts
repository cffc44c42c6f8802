import { createServer, type RequestListener } from 'node:http'
import { Readable } from 'node:stream'
import t, { type Test as T } from 'tap'
import type { UrlUpstreamConfig } from '../../../src/engine/sections/upstream.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import { Forwarder } from '../../../src/engine/upstream/forwarder.ts'
import { withModel, type RouteUpstream } from '../../../src/engine/upstream/route-upstream.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { serve } from '../../support/serve.ts'
import { bodyOf, contextOf, RecordingResponder, upstreamConfig } from './harness.ts'
import { until } from '../../support/until.ts'

/** An address where nothing listens. */
async function closed(t: T) {
  const server = createServer()
  const origin = `http://127.0.0.1:${await serve(t, server)}`
  await new Promise(resolve => server.close(resolve))
  return origin
}

async function named(t: T, name: string, answer?: RequestListener) {
  const server = createServer(
    answer ??
      ((req, res) => {
        req.resume().on('end', () => res.end(name))
      })
  )
  return { origin: `http://127.0.0.1:${await serve(t, server)}`, server }
}

interface Open {
  readonly clock: ManualClock
  readonly forwarder: Forwarder
  readonly route: RouteUpstream
  context(facts?: Parameters<typeof contextOf>[0]): Context
  ask(ctx?: Context): Promise<RecordingResponder>
}

async function open(t: T, urls: readonly string[], more: Partial<UrlUpstreamConfig> = {}) {
  const clock = new ManualClock()
  const forwarder = new Forwarder({ clock, production: false })
  t.teardown(() => forwarder.close())
  const upstream = upstreamConfig('', { url: urls, ...more })
  const route = await forwarder.open(upstream)
  const context: Open['context'] = facts => {
    const ctx = contextOf(facts)
    // The breakers read no other member of the route.
    ctx.route = { name: 'pooled', own: false, config: { upstream } } as unknown as Context['route']
    return ctx
  }
  const ask: Open['ask'] = async (ctx = context()) => {
    const responder = new RecordingResponder()
    try {
      await forwarder.forwardTo(ctx, responder, route)
    } catch (error) {
      responder.fail(error instanceof Error ? error : new Error(String(error)))
    }
    await responder.done
    return responder
  }
  return { clock, forwarder, route, context, ask }
}

function retryAfter(act: () => void) {
  try {
    act()
    return undefined
  } catch (error) {
    if (error instanceof Unavailable) return error.headers[1]
    throw error
  }
}

t.test('pool: requests rotate over the addresses', async t => {
  const all = [await named(t, 'a'), await named(t, 'b'), await named(t, 'c')]
  for (const balance of ['round-robin', 'least-requests'] as const) {
    const { ask } = await open(
      t,
      all.map(({ origin }) => origin),
      { balance }
    )
    const bodies: string[] = []
    for (let request = 0; request < 6; request++) bodies.push((await ask()).body)
    t.same(bodies, ['a', 'b', 'c', 'a', 'b', 'c'], balance)
  }
})

t.test('pool: least-requests spares an address that is busy, round-robin does not', async t => {
  const held: Array<() => void> = []
  const slow = await named(t, 'slow', (_req, res) => {
    held.push(() => res.end('slow'))
  })
  const quick = await named(t, 'quick')
  for (const [balance, slowOnes] of [
    ['round-robin', 3],
    ['least-requests', 1]
  ] as const) {
    const { ask } = await open(t, [slow.origin, quick.origin], { balance })
    const answers: Promise<RecordingResponder>[] = []
    for (let request = 0; request < 6; request++) {
      const before = held.length
      let isAnswered = false
      answers.push(
        ask().then(answer => {
          isAnswered = true
          return answer
        })
      )
      await until(() => isAnswered || held.length > before)
    }
    t.equal(held.length, slowOnes, balance)
    for (const release of held.splice(0)) release()
    for (const answer of answers) t.equal((await answer).status, 200)
  }
})

t.test('pool: an address without a server costs no request, whatever its method', async t => {
  const { origin } = await named(t, 'there')
  const { ask, context, forwarder } = await open(t, [await closed(t), origin, await closed(t)])
  for (let round = 0; round < 5; round++) {
    t.equal((await ask()).body, 'there')
    const body = bodyOf(Readable.from([Buffer.from('x')]), 1)
    const posted = await ask(context({ method: 'POST', body }))
    t.equal(posted.body, 'there', 'nothing of a body was read')
  }
  t.equal(forwarder.load.requests, 0)
})

t.test('pool: a request that got no answer is repeated elsewhere if its method is idempotent', async t => {
  let broken = 0
  const breaking = await named(t, '', req => {
    broken++
    req.socket.destroy()
  })
  const { origin } = await named(t, 'there')
  const { ask, context } = await open(t, [breaking.origin, origin], { balance: 'round-robin' })
  t.equal((await ask()).body, 'there')
  t.equal(broken, 1)
  t.equal((await ask(context({ method: 'PUT', body: bodyOf('x') }))).body, 'there')
  t.equal(broken, 2)
  const posted = await ask(context({ method: 'POST', body: bodyOf('x') }))
  t.equal(posted.failure?.status, 502, 'it may have had an effect')
  t.equal(broken, 3)
})

t.test('pool: an address that keeps failing is left out until its pause ends', async t => {
  let isBroken = true
  let requests = 0
  const failing = await named(t, '', (_req, res) => {
    requests++
    if (isBroken) res.writeHead(503).end('busy')
    else res.end('back')
  })
  const { origin } = await named(t, 'there')
  const { ask, clock, forwarder } = await open(t, [failing.origin, origin], { balance: 'round-robin' })
  for (let request = 0; request < 20; request++) await ask()
  t.equal(requests, 5)
  t.match(forwarder.breakers.report(), [{ route: 'pooled', origin: failing.origin, failures: 5 }])
  isBroken = false
  clock.advance(5_000)
  t.same([(await ask()).body, (await ask()).body].sort(), ['back', 'there'])
  t.same(forwarder.breakers.report(), [])
})

t.test('pool: a server that dies and returns under load costs no request that may be repeated', async t => {
  let served = 0
  let isDying = false
  const dying = await named(t, 'a', (_req, res) => {
    isDying ||= ++served === 200
    // The requests of its other connections are lost with it.
    if (isDying) dying.server.closeAllConnections()
    else res.end('a')
  })
  const other = await named(t, 'b')
  const { ask, clock } = await open(t, [dying.origin, other.origin])
  const statuses = new Set<number>()
  for (let round = 0; round < 20; round++) {
    if (round === 15) {
      isDying = false
      clock.advance(30_000)
    }
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask()))
    for (const { status } of answers) statuses.add(status)
  }
  t.same([...statuses], [200])
  t.ok(served > 250, 'the server that returned serves again')
})

t.test('pool: with every address down nothing is sold, and the shortest pause is the answer', async t => {
  const { ask, clock, context, forwarder } = await open(t, [await closed(t), await closed(t)])
  for (let request = 0; request < 5; request++) t.equal((await ask()).failure?.status, 502)
  t.equal((await ask()).failure?.status, 503)
  const sell = () =>
    retryAfter(() => {
      forwarder.breakers.requireSellable(context())
    })
  t.equal(sell(), '5')
  clock.advance(5_000)
  t.equal(sell(), undefined, 'one may try the first')
  t.equal(sell(), undefined, 'and one the second')
  t.equal(sell(), '5')
})

t.test('health: an address is left out after its checks failed, and comes back', async t => {
  let status = 200
  let checks = 0
  const seen: string[] = []
  const checked = await named(t, '', (req, res) => {
    if (req.url === '/up?deep=1') {
      checks++
      res.writeHead(status).end()
    } else {
      seen.push(req.url ?? '')
      res.end('checked')
    }
  })
  const health = { path: '/up?deep=1', every: 1_000, unhealthyAfter: 2, healthyAfter: 2 }
  const { ask, clock, context, forwarder, route } = await open(t, [`${checked.origin}/v1`], { health })
  const check = async () => {
    const before = checks
    clock.advance(1_000)
    await until(() => checks > before && route.upstream.health?.isChecking === false)
  }
  await until(() => checks === 1 && route.upstream.health?.isChecking === false)
  status = 500
  await check()
  t.equal((await ask()).body, 'checked')
  t.same(seen, ['/v1/'])
  await check()
  t.equal((await ask()).failure?.status, 503)
  t.equal(
    retryAfter(() => {
      forwarder.breakers.requireSellable(context())
    }),
    '1'
  )
  t.match(forwarder.breakers.report(), [{ origin: checked.origin, failures: 2, client: null }])
  status = 204
  await check()
  t.equal((await ask()).failure?.status, 503)
  await check()
  t.equal((await ask()).body, 'checked')
  t.same(forwarder.breakers.report(), [])
  route.release()
  const before = checks
  clock.advance(10_000)
  await ask()
  t.equal(checks, before, 'a released upstream is not checked')
})

t.test('fallback: the model of a JSON body is replaced, and the rest stays byte for byte', async t => {
  for (const [body, changed] of [
    ['{"model":"a","n":1.0, "é":"\\u00e9"}', '{"model":"b","n":1.0, "é":"\\u00e9"}'],
    [' { "x" : {"model":"a"}, "mod\\u0065l" : {"a":[1]} } ', ' { "x" : {"model":"a"}, "mod\\u0065l" : "b" } '],
    ['{}', '{"model":"b"}'],
    ['{"n":9007199254740993}', '{"model":"b","n":9007199254740993}'],
    ['{"model":"a","model":"c"}', null],
    ['{"Model":"a"}', null],
    ['{"model":"a","MODEL":"c"}', null],
    ['[{"model":"a"}]', null],
    ['model=a', null],
    ['{"model":"a"', null]
  ] as const)
    t.equal(withModel(Buffer.from(body), 'b')?.toString() ?? null, changed, body)
})
