import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { Leases, type Lease } from '../../../src/selling/holding/leases.ts'
import type { Challenge } from '../../../src/selling/holding/challenge.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import type { Clock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { fixture, minted, WatchedStore, type Fixture } from '../challenges/fixture.ts'
import { until } from '../../support/until.ts'

interface Gateway {
  readonly leases: Leases
  readonly watched: WatchedStore
  take(challenge: Challenge): Promise<Lease | null>
}

function gateway(t: T, f: Fixture, name: string, clock: Clock = f.clock): Gateway {
  const watched = new WatchedStore(f.database)
  const leases = new Leases({ store: watched.store, clock, log: silentLog, timeout: 30_000, gateway: name })
  t.teardown(() => leases.close())
  return {
    leases,
    watched,
    take: async ({ paymentHash }) => {
      const taken = await leases.acquire(paymentHash, row => watched.store.lease(f.database.sql, row))
      return taken?.lease ?? null
    }
  }
}

function held(lease: Lease | null) {
  if (lease === null) throw new Error('the lease was refused')
  return lease
}

const stateOf = async (f: Fixture, challenge: Challenge) =>
  (await f.selling.challengeStore.find(challenge.paymentHash))?.state

/** A gateway that holds the lease of a challenge. */
async function holder(t: T) {
  const f = await fixture(t)
  const g = gateway(t, f, 'holder')
  const challenge = await minted(f)
  const lease = held(await g.take(challenge))
  const isSpent = async () => {
    await until(() => {
      f.clock.advance(5_000)
      return lease.state === 'spent'
    })
    t.equal(await stateOf(f, challenge), 'spent')
  }
  return { f, g, challenge, lease, isSpent }
}

t.test("the lease of a gateway that died is free again within 30 seconds, and not before a living one's", async t => {
  const f = await fixture(t)
  const living = gateway(t, f, 'living')
  const dead = gateway(t, f, 'dead')
  const [mine, lost] = [await minted(f), await minted(f)]
  const kept = held(await living.take(mine))
  held(await dead.take(lost))
  dead.watched.broken.add('extend')
  for (let second = 0; second < 30; second++) {
    f.clock.advance(1_000)
    if (second % 5 === 4) {
      const calls = living.watched.calls.length
      await until(() => living.watched.calls.length >= calls && living.leases.open === 1)
      await f.database.sql`select 1`
    }
  }
  const other = gateway(t, f, 'other')
  t.ok(await other.take(lost), 'taken over from the dead')
  t.equal(await other.take(mine), null, 'the heartbeat keeps what is held')
  t.equal(living.leases.spend(kept), undefined)
  await until(() => kept.state === 'spent')
})

t.test('a gateway whose clock is ahead cannot take a lease that its holder still trusts', async t => {
  const { f, g, challenge, lease, isSpent } = await holder(t)
  g.watched.broken.add('extend')
  const ahead: Clock = {
    now: () => f.clock.now() + 4_900,
    monotonic: () => f.clock.monotonic(),
    after: (ms, run) => f.clock.after(ms, run),
    every: (ms, run) => f.clock.every(ms, run)
  }
  f.clock.advance(19_999)
  t.equal(await gateway(t, f, 'ahead', ahead).take(challenge), null, 'or both would deliver')
  t.equal(g.leases.spend(lease), undefined, 'the holder does not ask')
  await isSpent()
})

t.test(
  'a lease is kept while its response is in flight, and spent at its end however late that is written',
  async t => {
    const { f, g, challenge, lease, isSpent } = await holder(t)
    t.equal(g.leases.confirm(lease), undefined, 'the head waits for nothing')
    for (let seconds = 0; seconds < 120; seconds += 5) {
      f.clock.advance(5_000)
      // Answered behind the heartbeat's statement.
      t.equal(await stateOf(f, challenge), 'leased')
      await setImmediate()
    }
    t.equal(await gateway(t, f, 'elsewhere').take(challenge), null)
    t.notOk(g.watched.calls.includes('spend'))
    g.watched.broken.add('extend').add('spend')
    f.clock.advance(26_000)
    t.equal(await g.take(challenge), null, 'not for another request of ours, though it has lapsed')
    g.leases.settle(lease)
    await until(() => g.watched.calls.includes('spend'))
    g.watched.broken.clear()
    await isSpent()
  }
)

t.test('a spend that cannot be written is repeated until it is, and counts meanwhile', async t => {
  const { f, g, challenge, lease, isSpent } = await holder(t)
  g.watched.broken.add('spend').add('extend')
  t.equal(g.leases.spend(lease), undefined)
  // Longer than its lease, which others could take then.
  for (let attempt = 1; attempt <= 9; attempt++) {
    await until(() => g.watched.calls.filter(call => call === 'spend').length >= attempt)
    await setImmediate()
    t.equal(await g.take(challenge), null, 'spent as far as this gateway is concerned')
    t.ok(g.leases.delivered(challenge.paymentHash))
    f.clock.advance(5_000)
  }
  t.equal(await stateOf(f, challenge), 'leased')
  g.watched.broken.clear()
  await isSpent()
  t.equal(g.leases.open, 0)
  t.notOk(g.leases.delivered(challenge.paymentHash), 'the row says so')
})

t.test('a spend whose response is lost is idempotent', async t => {
  const { f, g, challenge, lease, isSpent } = await holder(t)
  g.watched.deaf.add('spend')
  void g.leases.spend(lease)
  await until(() => g.watched.calls.includes('spend'))
  await until(async () => (await stateOf(f, challenge)) === 'spent')
  t.equal(lease.state, 'spending')
  g.watched.deaf.clear()
  await isSpent()
})

t.test('writes are retried after pauses that double, and soon once another write succeeds', async t => {
  const f = await fixture(t)
  const g = gateway(t, f, 'patient')
  const [one, two, other, last] = [await minted(f), await minted(f), await minted(f), await minted(f)]
  const leases = [held(await g.take(one)), held(await g.take(two))] as const
  const attempts = async () => {
    for (let turn = 0; turn < 10; turn++) await setImmediate()
    return g.watched.calls.filter(call => call === 'spend').length
  }
  g.watched.broken.add('spend')
  for (const lease of leases) g.leases.settle(lease)
  let before = await attempts()
  for (const pause of [100, 200, 400]) {
    f.clock.advance(pause - 1)
    t.equal(await attempts(), before)
    f.clock.advance(1)
    t.ok((await attempts()) > before, `after ${pause} ms`)
    before = await attempts()
  }
  g.watched.broken.clear()
  const third = held(await g.take(other))
  g.leases.settle(third)
  await until(() => third.state === 'spent')
  before = await attempts()
  f.clock.advance(100)
  t.ok((await attempts()) > before, 'the pause is short again')
  await until(() => leases.every(({ state }) => state === 'spent'))
  const fourth = held(await g.take(last))
  g.watched.broken.add('spend')
  g.leases.settle(fourth)
  before = await attempts()
  f.clock.advance(100)
  t.ok((await attempts()) > before, 'and for the next one')
  g.watched.broken.clear()
})

t.test('a credential spent for a head that was never sent is given back, in any state of the write', async t => {
  const { f, g, challenge, lease: inFlight } = await holder(t)
  void g.leases.spend(inFlight)
  await g.leases.release(inFlight)
  t.equal(await stateOf(f, challenge), 'unspent', 'released while the spend was being written')
  const done = held(await g.take(challenge))
  void g.leases.spend(done)
  await until(() => done.state === 'spent')
  await g.leases.release(done)
  t.equal(await stateOf(f, challenge), 'unspent', 'released after it was spent')
  g.watched.broken.add('spend').add('release')
  const away = held(await g.take(challenge))
  void g.leases.spend(away)
  const released = g.leases.release(away)
  t.notOk(g.leases.delivered(challenge.paymentHash), 'its response did not go out')
  f.clock.advance(2_000)
  await released
  g.watched.broken.clear()
  await until(async () => {
    f.clock.advance(1_000)
    return (await stateOf(f, challenge)) === 'unspent'
  })
  t.pass('released when the database was back')
})

t.test('a lease that lapsed here is confirmed before the head, or the answer is 503', async t => {
  const f = await fixture(t)
  const g = gateway(t, f, 'slow')
  g.watched.broken.add('extend')
  const [mine, taken, unsure] = [await minted(f), await minted(f), await minted(f)]
  const leases = [held(await g.take(mine)), held(await g.take(taken)), held(await g.take(unsure))] as const
  f.clock.advance(25_001)
  const thief = gateway(t, f, 'thief')
  held(await thief.take(taken))
  const confirmed = g.leases.spend(leases[0])
  t.ok(confirmed instanceof Promise)
  t.notOk(g.leases.delivered(mine.paymentHash), 'not before it is written')
  await confirmed
  t.equal(await stateOf(f, mine), 'spent', 'durable before the head')
  await t.rejects(Promise.resolve(g.leases.spend(leases[1])), Unavailable)
  t.equal(leases[1].state, 'lost')
  g.watched.broken.add('spend')
  await t.rejects(Promise.resolve(g.leases.spend(leases[2])), Unavailable)
  await g.leases.release(leases[2])
  t.equal(await stateOf(f, unsure), 'unspent', 'and is given back')
})

t.test('a lease that the heartbeat finds taken over cannot be spent', async t => {
  const { f, g, challenge, lease } = await holder(t)
  await f.database
    .sql`update challenges set lease_id = 'another', lease_gateway = 'another' where payment_hash = ${challenge.paymentHash}`
  f.clock.advance(5_000)
  await until(() => lease.state === 'lost')
  await t.rejects(Promise.resolve(g.leases.spend(lease)), Unavailable)
})

t.test('a lease whose answer is lost does not keep the payer waiting', async t => {
  const f = await fixture(t)
  const g = gateway(t, f, 'unheard')
  const challenge = await minted(f)
  g.watched.deaf.add('lease')
  await t.rejects(g.take(challenge))
  g.watched.deaf.clear()
  await until(async () => (await stateOf(f, challenge)) === 'unspent')
  t.ok(await g.take(challenge))
})

t.test('closing writes what is still on its way', async t => {
  const f = await fixture(t)
  const g = gateway(t, f, 'closing')
  const challenges = [await minted(f), await minted(f), await minted(f)]
  for (const challenge of challenges) void g.leases.spend(held(await g.take(challenge)))
  await g.leases.close()
  t.same(await Promise.all(challenges.map(challenge => stateOf(f, challenge))), ['spent', 'spent', 'spent'])
})
