import { setImmediate } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test as T } from 'tap'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { openState, redisAddresses } from '../../../src/platform/state/redis.ts'
import { StateUnavailable, type ReplayRecord } from '../../../src/platform/state/state.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { passTime } from '../../support/passing-time.ts'
import { eachState, openTestRedis, testClusterUrl, testRedisUrl } from '../../support/redis.ts'

const minute = 60_000
const record: ReplayRecord = {
  status: 201,
  headers: [
    ['content-type', 'application/json'],
    ['x-two', 'a'],
    ['x-two', 'b']
  ],
  body: Buffer.from('{"é":1}\n\0')
}

await eachState(
  t,
  'a fixed window begins with its first request and passes exactly its limit',
  async (t, state, clock) => {
    clock.advance(12_345)
    for (let i = 0; i < 25; i++)
      t.match(await state.takeFixed('k', 25, minute), { allowed: true, retryAfterMs: 0, remaining: 24 - i })
    clock.advance(59_000)
    for (let i = 0; i < 30; i++)
      t.same(await state.takeFixed('k', 25, minute), { allowed: false, remaining: 0, retryAfterMs: 1_000 })
    t.match(await state.takeFixed('another', 25, minute), { allowed: true }, 'keys do not meet')
    clock.advance(1_000)
    t.match(
      await state.takeFixed('k', 25, minute),
      { allowed: true, remaining: 24 },
      'refused requests were not counted'
    )
  }
)

await eachState(t, 'a limit of zero admits no request', async (t, state) => {
  t.match(await state.takeFixed('k', 0, minute), { allowed: false })
  t.match(await state.takeFixed('k', 0, minute), { allowed: false })
})

await eachState(t, 'of 500 concurrent requests a fixed window passes its limit', async (t, state) => {
  const verdicts = await Promise.all(Array.from({ length: 500 }, async () => state.takeFixed('k', 100, minute)))
  t.equal(verdicts.filter(verdict => verdict.allowed).length, 100)
})

await eachState(t, 'a limit that a reload changed applies immediately', async (t, state) => {
  t.match(await state.takeFixed('k', 10, minute), { allowed: true })
  t.match(await state.takeFixed('k', 1, minute), { allowed: false })
  t.match(await state.takeFixed('k', 20, minute), { allowed: true })
})

await eachState(t, 'a sliding window counts the current segment and those before it', async (t, state, clock) => {
  const take = async () => state.takeSliding('k', 4, minute, 4)
  t.same(await take(), { allowed: true, remaining: 3, retryAfterMs: 0 })
  clock.advance(15_000)
  await take()
  await take()
  clock.advance(20_000)
  t.same(await take(), { allowed: true, remaining: 0, retryAfterMs: 0 })
  t.same(await take(), { allowed: false, remaining: 0, retryAfterMs: 10_000 }, 'to the next edge of a segment')
  clock.advance(10_000)
  t.match(
    await take(),
    { allowed: false, retryAfterMs: 15_000 },
    'the first segment is the third before this one and still counts'
  )
  clock.advance(15_000)
  t.match(await take(), { allowed: true, remaining: 0 }, 'the first has left; the refused ones were never counted')
  clock.advance(15_000)
  t.match(await take(), { allowed: true, remaining: 1 })
  clock.advance(10 * minute)
  t.match(await take(), { allowed: true, remaining: 3 }, 'after a long pause nothing is left')
})

await eachState(
  t,
  'failures 1 to 21 pass, from then on the key is blocked until a minute after the first',
  async (t, state, clock) => {
    for (let i = 1; i <= 20; i++) {
      t.equal(await state.blockedFor('ip', 20), 0)
      t.equal(await state.recordFailure('ip', 20, minute), 0)
      clock.advance(100)
    }
    t.equal(await state.blockedFor('ip', 20), 0, 'the 21st request is still looked at')
    t.equal(await state.recordFailure('ip', 20, minute), 58_000)
    t.equal(await state.blockedFor('ip', 20), 58_000)
    t.equal(await state.blockedFor('other', 20), 0)
    clock.advance(57_999)
    t.equal(await state.blockedFor('ip', 20), 1)
    clock.advance(1)
    t.equal(await state.blockedFor('ip', 20), 0)
    t.equal(await state.recordFailure('ip', 20, minute), 0, 'a new window begins')
  }
)

await eachState(
  t,
  'a bucket gives its burst immediately and then its rate, reserves what it is asked to, and says how long to wait',
  async (t, state, clock) => {
    const bucket = { burst: 4, perMinute: 60 }
    const take = async (keep = 0, cost = 1) => state.takeTokens('k', bucket, cost, keep)
    t.same(await take(2), { allowed: true, left: 3, retryAfterMs: 0 })
    t.same(await take(2), { allowed: true, left: 2, retryAfterMs: 0 })
    t.same(await take(2), { allowed: false, left: 2, retryAfterMs: 1_000 }, 'two are kept for others')
    t.same(await take(0, 0), { allowed: true, left: 2, retryAfterMs: 0 }, 'looking takes nothing')
    t.match(await take(), { allowed: true, left: 1 })
    t.match(await take(), { allowed: true, left: 0 })
    t.same(await take(), { allowed: false, left: 0, retryAfterMs: 1_000 })
    clock.advance(400)
    t.match(await take(), { allowed: false, retryAfterMs: 600 }, 'parts of tokens count')
    clock.advance(600)
    t.match(await take(), { allowed: true, left: 0 })
    clock.advance(60_000)
    t.match(await take(), { allowed: true, left: 3 }, 'no more than the burst')
    t.match(await state.takeTokens('another', bucket, 1, 0), { left: 3 }, 'keys do not meet')
  }
)

await eachState(
  t,
  'a bucket that rests gives nothing until its time is over, and then what came in meanwhile',
  async (t, state, clock) => {
    const bucket = { burst: 100, perMinute: 60 }
    await state.restBucket('k', bucket, 30_000)
    t.match(await state.takeTokens('k', bucket, 1, 0), { allowed: false, retryAfterMs: 30_000 })
    await state.restBucket('k', bucket, 10_000)
    clock.advance(29_999)
    t.match(
      await state.takeTokens('k', bucket, 1, 0),
      { allowed: false, retryAfterMs: 1 },
      'a shorter rest does not end a longer one'
    )
    clock.advance(1)
    t.match(await state.takeTokens('k', bucket, 1, 0), { allowed: true, left: 29 })
  }
)

await eachState(t, 'a tally halves in its half-life', async (t, state, clock) => {
  const tally = async (add: number) => state.tally('k', add, minute)
  t.equal(await tally(4), 0)
  clock.advance(minute)
  t.equal(await tally(1), 2)
  t.equal(await tally(-5), 3)
  t.equal(await tally(1), 0, 'never below nothing')
})

await eachState(t, 'an answer is replayed byte for byte, until its time is over', async (t, state, clock) => {
  const begun = await state.begin('k', 'print', minute)
  if (begun.kind !== 'run') throw new Error('not begun')
  t.same(await state.begin('k', 'print', minute), { kind: 'running' })
  t.same(await state.begin('k', 'other', minute), { kind: 'conflict' })
  t.equal(await state.finish('k', begun.token, record, 10_000), true)
  const again = await state.begin('k', 'print', minute)
  t.equal(again.kind, 'replay')
  if (again.kind === 'replay') {
    t.same(again.record.headers, record.headers)
    t.equal(again.record.status, 201)
    t.ok(Buffer.from(again.record.body).equals(Buffer.from(record.body)))
  }
  t.same(await state.begin('k', 'other', minute), { kind: 'conflict' })
  clock.advance(10_000)
  t.match(await state.begin('k', 'other', minute), { kind: 'run' })
})

await eachState(t, 'a claim lasts while it is extended, and lapses once it is not', async (t, state, clock) => {
  const begun = await state.begin('k', 'print', 10_000)
  if (begun.kind !== 'run') throw new Error('not begun')
  t.equal(await state.extend('k', 'not the token', 10_000), false)
  t.equal(await state.extend('unknown', begun.token, 10_000), false)
  for (let time = 0; time < 5; time++) {
    clock.advance(9_000)
    t.equal(await state.extend('k', begun.token, 10_000), true)
    t.same(await state.begin('k', 'print', minute), { kind: 'running' })
  }
  clock.advance(10_000)
  const next = await state.begin('k', 'print', minute)
  t.match(next, { kind: 'run' })
  t.equal(await state.extend('k', begun.token, 10_000), false, 'it is held by another now')
  t.equal(await state.finish('k', begun.token, record, minute), false)
  if (next.kind === 'run') t.equal(await state.finish('k', next.token, record, minute), true)
  t.equal(await state.extend('k', begun.token, 10_000), false)
})

await eachState(t, 'an abandoned claim holds nothing', async (t, state) => {
  const begun = await state.begin('k', 'print', minute)
  if (begun.kind !== 'run') throw new Error('not begun')
  t.equal(await state.abandon('k', 'not the token'), false)
  t.equal(await state.abandon('k', begun.token), true)
  t.match(await state.begin('k', 'other', minute), { kind: 'run' })
})

await eachState(t, 'of 50 concurrent requests with one key one runs', async (t, state) => {
  const begun = await Promise.all(Array.from({ length: 50 }, async () => state.begin('k', 'print', minute)))
  t.equal(begun.filter(({ kind }) => kind === 'run').length, 1)
  t.equal(begun.filter(({ kind }) => kind === 'running').length, 49)
})

await eachState(t, 'waiting for what is done or unknown ends immediately', async (t, state) => {
  t.same(await state.waitFor('unknown', minute), { kind: 'gone' })
  const begun = await state.begin('k', 'print', minute)
  if (begun.kind !== 'run') throw new Error('not begun')
  await state.finish('k', begun.token, record, minute)
  t.match(await state.waitFor('k', minute), { kind: 'replay', record: { status: 201 } })
})

await t.test('waiters get the response when it is there, an end when there will be none, and time out', async t => {
  const clock = new ManualClock()
  const state = new MemoryState(clock)
  const run = (key: string) => {
    const begun = state.begin(key, 'print', minute)
    if (begun.kind !== 'run') throw new Error('not begun')
    return begun.token
  }
  const [a, b] = [run('a'), run('b')]
  run('c')
  const waits = Promise.all([
    state.waitFor('a', 30_000),
    state.waitFor('a', 30_000),
    state.waitFor('b', 30_000),
    state.waitFor('c', 30_000)
  ])
  state.finish('a', a, record, minute)
  state.abandon('b', b)
  clock.advance(30_000)
  t.same(
    (await waits).map(({ kind }) => kind),
    ['replay', 'replay', 'gone', 'timeout']
  )
})

await eachState(t, 'the cache keeps texts until their time is over or they are deleted', async (t, state, clock) => {
  t.equal(await state.get('k'), undefined)
  await state.set('k', 'välue', 1_000)
  t.equal(await state.get('k'), 'välue')
  await state.set('k', '', 1_000)
  t.equal(await state.get('k'), '')
  clock.advance(1_000)
  t.equal(await state.get('k'), undefined)
  await state.set('k', 'b', 1_000)
  await state.delete('k')
  t.equal(await state.get('k'), undefined)
})

await t.test('memory is bounded: what is used least goes first', async t => {
  const state = new MemoryState(new ManualClock(), { counters: 10, replayBytes: 10_000, cached: 10 })
  for (let i = 0; i < 50; i++) {
    state.takeFixed(`k${i}`, 5, minute)
    state.set(`k${i}`, 'v', minute)
    const begun = state.begin(`k${i}`, 'print', minute)
    if (begun.kind === 'run')
      state.finish(`k${i}`, begun.token, { status: 200, headers: [], body: Buffer.alloc(1_500) }, minute)
  }
  t.equal(state.takeFixed('k49', 5, minute).remaining, 3)
  t.equal(state.takeFixed('k0', 5, minute).remaining, 4)
  t.equal(state.get('k0'), undefined)
  t.equal(state.get('k49'), 'v')
  t.equal(state.begin('k0', 'print', minute).kind, 'run')
  t.equal(state.begin('k49', 'print', minute).kind, 'replay')
})

await t.test('an unavailable Redis makes operations fail immediately with StateUnavailable', async t => {
  const lines: string[] = []
  const log = {
    ...silentLog,
    error: (_fields: object | string, message?: string) => {
      lines.push(message ?? '')
    }
  }
  const state = await openState('redis://127.0.0.1:1', { clock: systemClock, log })
  await t.rejects(async () => state.takeFixed('k', 10, minute), StateUnavailable)
  await t.rejects(async () => state.begin('k', 'print', minute), StateUnavailable)
  t.equal(await state.healthy(), false)
  t.match(lines, [/is unavailable/])
  await state.close()
})

await t.test('an address of another kind is refused', async t => {
  await t.rejects(openState('memcached://x', { clock: systemClock, log: silentLog }), { message: /not memcached:/ })
})

const url = testRedisUrl()
const cluster = testClusterUrl() !== null
await t.test('on Redis', { skip: url === null ? 'TEST_REDIS_URL is not set' : false }, async t => {
  if (url === null) return

  /** Time passes as fast as Redis replies: a command has a second of this clock. */
  const stepping = async (t: T, clock: ManualClock, step: number) => {
    const redis = new Redis(redisAddresses(url)[0] ?? url)
    const over = new AbortController()
    await redis.ping()
    const time = passTime(clock, () => redis.ping(), over.signal, step)
    t.teardown(async () => {
      over.abort()
      await time
      redis.disconnect()
    })
  }
  const hour = 60 * minute

  await t.test('workers together pass exactly the limit, however their requests are spread', async t => {
    const spreads: ReadonlyArray<readonly [name: string, of: (request: number) => number]> = [
      ['in turns', request => request % 6],
      ['the first few at one', request => (request < 64 ? 0 : 1 + (request % 5))],
      ['at random', () => Math.floor(Math.random() * 6)]
    ]
    for (const [name, of] of spreads) {
      const clock = new ManualClock()
      const prefix = `test:${process.pid}:${name}:`
      const workers = await Promise.all(Array.from({ length: 6 }, () => openTestRedis(t, url, clock, prefix)))
      await stepping(t, clock, 20)
      let first = 0
      for (let request = 1; request <= 104; request++) {
        const verdict = await workers[of(request - 1)]?.takeFixed('shared', 100, hour)
        if (verdict?.allowed === false && first === 0) first = request
      }
      t.equal(first, 101, `${name}: the first refused`)
      const at = await Promise.all(
        Array.from({ length: 800 }, async (_, index) => workers[index % 6]?.takeFixed('at once', 100, hour))
      )
      t.equal(at.filter(verdict => verdict?.allowed === true).length, 100, `${name}: of 800 concurrent ones`)
    }
  })

  await t.test('a worker that ends gives back what it holds', async t => {
    const clock = new ManualClock()
    const prefix = `test:${process.pid}-end:`
    const [one, other] = [await openTestRedis(t, url, clock, prefix), await openTestRedis(t, url, clock, prefix)]
    for (let request = 0; request < 20; request++) await one.takeFixed('k', 100, minute)
    t.ok((await other.takeFixed('k', 100, minute)).remaining < 79, 'it holds some')
    await one.close()
    t.equal((await other.takeFixed('k', 100, minute)).remaining, 78)
  })

  await t.test('a late return does not reach the next window', async t => {
    const clock = new ManualClock()
    const state = await openTestRedis(t, url, clock)
    for (let request = 0; request < 20; request++) await state.takeFixed('k', 100, 200)
    clock.advance(200)
    await state.takeFixed('k', 100, minute)
    clock.advance(1_000)
    t.equal((await state.takeFixed('k', 100, minute)).remaining, 98)
  })

  await t.test('a busy key rarely calls Redis far from its limit, and refusals are immediate', async t => {
    const clock = new ManualClock()
    const state = await openTestRedis(t, url, clock)
    const asked = async (key: string, limit: number, requests: number) => {
      let waited = 0
      for (let request = 0; request < requests; request++) {
        const verdict = state.takeFixed(key, limit, minute)
        if (verdict instanceof Promise) {
          waited++
          await verdict
        }
      }
      return waited
    }
    t.equal(await asked('large', 1_000_000, 5_000), 13, 'twice as many each time')
    t.ok((await asked('small', 100, 100)) <= 30)
    t.equal(await asked('small', 100, 100), 1, 'one refusal is heard, the others are known')
  })

  await t.test('one worker waits for what another runs', async t => {
    const clock = new ManualClock()
    const prefix = `test:${process.pid}-wait:`
    const [one, two] = [await openTestRedis(t, url, clock, prefix), await openTestRedis(t, url, clock, prefix)]
    const begun = await one.begin('k', 'print', minute)
    if (begun.kind !== 'run') throw new Error('not begun')
    const waiting = two.waitFor('k', 30_000)
    await one.finish('k', begun.token, record, minute)
    await stepping(t, clock, 50)
    t.match(await waiting, { kind: 'replay', record: { status: 201 } })
    await one.begin('late', 'print', 10 * minute)
    t.same(await two.waitFor('late', 1_000), { kind: 'timeout' })
  })

  await t.test('scripts that Redis forgot are sent again', async t => {
    const state = await openTestRedis(t, url, new ManualClock())
    await state.set('k', 'v', minute)
    for (const address of redisAddresses(url)) {
      const redis = new Redis(address)
      await redis.script('FLUSH')
      await redis.quit()
    }
    t.equal(await state.get('k'), 'v')
    await state.set('k', 'w', minute)
    t.same(await Promise.all([state.get('k'), state.get('k'), state.get('none')]), ['w', 'w', undefined])
  })

  await t.test('a reply that came while this process hung is not mistaken for an unavailable Redis', async t => {
    const state = await openState(url, {
      clock: systemClock,
      log: silentLog,
      prefix: `test:${process.pid}-stood:`
    })
    t.teardown(() => state.close())
    await state.set('name', 'value', 60_000)
    const reading = state.get('name')
    await setImmediate()
    // Longer than a command may take: its timer and its reply are both due when the loop goes on.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200)
    t.equal(await reading, 'value')
  })

  await t.test('windows follow the time of Redis itself unless said otherwise', async t => {
    const prefix = `test:${process.pid}-time:`
    const state = await openState(url, { clock: systemClock, log: silentLog, prefix })
    t.equal(state.kind, 'redis')
    t.match(await state.takeFixed('k', 10, 200), { allowed: true, remaining: 9 })
    t.match(await state.takeSliding('k', 10, 200, 4), { allowed: true, remaining: 9 })
    t.equal(await state.healthy(), true)
    await state.close()
  })
})

await t.test('on a cluster', { skip: cluster ? false : 'TEST_REDIS_CLUSTER_URL is not set' }, async t => {
  const [first = ''] = redisAddresses(url ?? '')

  await t.test('one address finds the keys of all nodes', async t => {
    const prefix = `test:${process.pid}-nodes:`
    const state = await openState(`${first},${first}`, { clock: systemClock, log: silentLog, prefix })
    t.teardown(() => state.close())
    const keys = Array.from({ length: 60 }, (_, index) => `{${index}}`)
    await Promise.all(keys.map(key => state.set(key, key, minute)))
    t.same(await Promise.all(keys.map(key => state.get(key))), keys)
    t.equal(await state.healthy(), true)
  })

  await t.test('a node that is taken for a whole Redis says what to set', async t => {
    const state = await openState(first, { clock: systemClock, log: silentLog, prefix: `test:${process.pid}-alone:` })
    t.teardown(() => state.close())
    const looks = Array.from({ length: 60 }, async (_, index) => state.get(String(index)))
    await t.rejects(Promise.all(looks), {
      name: 'StateUnavailable',
      message: 'The state (Redis) is unavailable: it is a node of a cluster, name another beside it in state.url'
    })
  })
})
