import { randomInt } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { Entries } from '../../../src/selling/balances/entries.ts'
import { EACH_ENTRY } from '../../../src/selling/balances/statements.ts'
import { Ledger } from '../../../src/selling/balances/ledger.ts'
import type { BalanceReservation } from '../../../src/selling/balances/slice.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import { SLICES, type SliceWrite } from '../../../src/selling/balances/balance.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { until } from '../../support/until.ts'
import {
  isReserved,
  killableLedger,
  newBalance,
  opened,
  passing,
  randoms,
  reserved,
  settled,
  spend,
  use,
  written
} from './fixture.ts'

/** Gateways, each with a store of its own unless one is given. */
function setting(t: T, database: Database, given?: BalanceStore) {
  const clock = new ManualClock()
  const store = given ?? new BalanceStore(database)
  return {
    clock,
    store,
    open: (changes?: Parameters<typeof opened>[2]) => opened(store, clock, changes),
    ledger: (gateway: string, more: Partial<ConstructorParameters<typeof Ledger>[0]> = {}) => {
      const own = given ?? new BalanceStore(database)
      const ledger = new Ledger({ store: own, database, clock, log: silentLog, gateway, ...more })
      t.teardown(() => ledger.close())
      return ledger
    }
  }
}

/** A store whose grants wait until they are freed, from `isSlow` on. */
function slowStore(database: Database, isSlow = false) {
  const [asked, freed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const store = new BalanceStore(database)
  const slow = { store, isSlow, asked: asked.promise, free: freed.resolve }
  const grab = store.grab.bind(store)
  store.grab = async request => {
    if (slow.isSlow) {
      asked.resolve()
      await freed.promise
    }
    return await grab(request)
  }
  return slow
}

/** Of a balance what its rows say; throws where they contradict each other. */
async function sound(database: Database, id: string) {
  const [row] = await database.sql`
    select deposited_msat, spent_msat, refunded_msat, held_msat,
      (select coalesce(sum(amount_msat), 0)::bigint from balance_slices where balance_id = ${id}) as sliced,
      (select coalesce(sum(msat), 0)::bigint from balance_deposits where balance_id = ${id}) as deposits,
      (select coalesce(sum(msat), 0)::bigint from ${database.sql.unsafe(EACH_ENTRY)} where balance_id = ${id}) as entered,
      (select count(*) - count(distinct request) from ${database.sql.unsafe(EACH_ENTRY)} where balance_id = ${id} and basis <> 'crash') as twice
    from balances where id = ${id}`
  const of = (name: string) => Number(row?.[name])
  const left = of('deposited_msat') - of('spent_msat') - of('refunded_msat')
  const wrong = [
    of('deposits') === of('deposited_msat') ? '' : 'deposits',
    of('entered') === of('spent_msat') ? '' : 'entries',
    of('sliced') === of('held_msat') ? '' : 'slices',
    of('twice') === 0 ? '' : 'a request twice',
    left >= of('held_msat') && of('held_msat') >= 0 ? '' : 'below zero'
  ].filter(text => text !== '')
  if (wrong.length > 0)
    throw new Error(
      `${wrong.join(', ')}: ${JSON.stringify(row, (_k, v: unknown) => (typeof v === 'bigint' ? Number(v) : v))}`
    )
  return { left, spent: of('spent_msat'), held: of('held_msat') }
}

void eachDatabase(t, 'a reservation is settled once, and the balance has the rest', async (t, database) => {
  const { clock, store, ledger } = setting(t, database)
  const gateway = ledger('a')
  const balance = newBalance(clock)
  t.equal(await store.open(balance), true)
  t.equal(await store.open(balance), false, 'once')
  const first = await reserved(gateway, balance.id, 5_000)
  t.equal(first.msat, 5_000)
  t.equal(gateway.left(balance.id), 995_000)
  const again = gateway.reserve(balance.id, 5_000)
  t.notOk('then' in again, 'a warm slice answers immediately')
  t.match(await settled(gateway, first, 1_234), { chargedMsat: 1_234, unpaidMsat: 0, leftMsat: 993_766 })
  t.match(await settled(gateway, first, 1_234), { chargedMsat: 0 }, 'a second time changes nothing')
  if (!('then' in again) && isReserved(again)) await settled(gateway, again, 0)
  await written(clock, [gateway])
  t.same(await sound(database, balance.id), { left: 998_766, spent: 1_234, held: 1_000_000 / SLICES - 1_234 })
  await written(clock, [gateway], 20_000)
  t.equal((await sound(database, balance.id)).held, 0, 'an idle slice goes back')
  t.equal((await store.entries(balance.id, { skip: 0, take: 10 })).length, 2)
})

void eachDatabase(
  t,
  'an answer about a balance is not for requests that came after the question',
  async (t, database) => {
    const { clock, store, ledger } = setting(t, database)
    const requested = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    const slow = new BalanceStore(database)
    const grab = slow.grab.bind(slow)
    slow.grab = async request => {
      const answer = await grab(request)
      requested.resolve()
      await answered.promise
      return answer
    }
    const gateway = ledger('a', { store: slow })
    const balance = newBalance(clock)
    const before = gateway.reserve(balance.id, 1_000)
    await requested.promise
    await store.open(balance)
    const after = gateway.reserve(balance.id, 1_000)
    answered.resolve()
    t.match(await before, { kind: 'refused', why: 'unknown' })
    t.match(await after, { kind: 'reserved' })
  }
)

void eachDatabase(
  t,
  'entries that were written together are listed one by one, newest first, with those of a gateway of before',
  async (t, database) => {
    const { clock, store, ledger } = setting(t, database)
    const gateway = ledger('a')
    const [balance, other] = [newBalance(clock), newBalance(clock)]
    await Promise.all([store.open(balance), store.open(other)])
    await database.sql`
      insert into balance_entries (balance_id, made_at, request, msat, unpaid_msat, basis)
      values (${balance.id}, ${new Date(5)}, 'of before', 7, 0, 'reservation')`
    const all = [
      use({ model: null, input: null, output: null, basis: 'reservation' }),
      use({ model: 'größe "2"\\' }),
      use(),
      use()
    ]
    for (const part of [all.slice(0, 3), all.slice(3)]) {
      for (const each of part) await gateway.settle(await reserved(gateway, balance.id, 50), 20 + part.length, each)
      await spend(gateway, other.id, 5, 5)
      await written(clock, [gateway])
    }
    const [{ rows } = { rows: 0 }] = await database.sql<{ rows: number }[]>`
      select count(*)::int as rows from balance_entries where balance_id = ${balance.id}`
    t.equal(rows, 3, 'a row for each write')
    const used = all.map(({ markup: _markup, ...each }) => each)
    const wanted = [
      { ...used[3], msat: 21, unpaidMsat: 0 },
      ...used
        .slice(0, 3)
        .map(each => ({ ...each, msat: 23, unpaidMsat: 0 }))
        .toReversed(),
      {
        at: 5,
        request: 'of before',
        model: null,
        input: null,
        output: null,
        msat: 7,
        unpaidMsat: 0,
        basis: 'reservation'
      }
    ].map(each => ({ ...each, balanceId: balance.id }))
    t.same(await store.entries(balance.id, { skip: 0, take: 10 }), wanted)
    for (const skip of wanted.keys())
      t.same(await store.entries(balance.id, { skip, take: 2 }), wanted.slice(skip, skip + 2), `from ${skip} on`)
    t.equal(await store.purgeEntries(6, 10), 1)
    t.same(await store.entries(balance.id, { skip: 0, take: 10 }), wanted.slice(0, -1))
  }
)

void eachDatabase(t, 'a balance that was never opened, that ended or was closed is refused', async (t, database) => {
  const { clock, store, ledger } = setting(t, database)
  const gateway = ledger('a')
  t.match(await gateway.reserve('0'.repeat(64), 1), { kind: 'refused', why: 'unknown' })
  const ended = newBalance(clock, { expiresAt: clock.now() })
  await store.open(ended)
  t.match(await gateway.reserve(ended.id, 1), { kind: 'refused', why: 'expired' })
  const closed = newBalance(clock)
  await store.open(closed)
  t.equal(await store.close(closed.id), true)
  t.equal(await store.close(closed.id), false)
  t.match(await gateway.reserve(closed.id, 1), { kind: 'refused', why: 'closed' })
  t.equal(await store.topUp(closed.id, '1'.repeat(64), 5, clock.now()), false)
  await t.rejects(store.refunded(closed.id, 1_000_001), 'no more than there is')
  t.same(
    [await store.refunded(closed.id, 999_000), await store.refunded(closed.id, 999_000)],
    [true, false],
    'refunded once'
  )
  t.equal((await sound(database, closed.id)).left, 1_000, 'what was not given back is still in the sums')
})

void eachDatabase(t, 'what a new slice grants is spent once earlier charges are stored', async (t, database) => {
  const store = new BalanceStore(database)
  const { ledger, open } = setting(t, database, store)
  const [write, grab] = [store.write.bind(store), store.grab.bind(store)]
  const busy = Promise.withResolvers<void>()
  let grants = 0
  store.write = async given => {
    await busy.promise
    return await write(given)
  }
  store.grab = async given => {
    const granted = await grab(given)
    grants++
    return granted
  }
  const gateway = ledger('a')
  const balance = await open({ depositedMsat: 20_000 })
  await spend(gateway, balance.id, 1_000, 1_000)
  let isServed = false
  const next = reserved(gateway, balance.id, 1_000).then(() => (isServed = true))
  await until(() => grants === 2)
  await setImmediate()
  t.equal(isServed, false)
  busy.resolve()
  await next
  t.equal((await store.find(balance.id))?.spentMsat, 1_000)
})

void eachDatabase(
  t,
  'usage beyond the reservation is taken from the own slice too where the database has nothing left to grant',
  async (t, database) => {
    const { clock, store, ledger, open } = setting(t, database)
    const gateway = ledger('a')
    const balance = await open({ depositedMsat: 10_000 })
    // The whole of it is granted.
    await spend(gateway, balance.id, 10_000, 10)
    const small = await reserved(gateway, balance.id, 10)
    t.match(await gateway.reserve(balance.id, 9_981), { why: 'insufficient', leftMsat: 9_980 })
    t.match(await settled(gateway, small, 50_000), { chargedMsat: 9_990, unpaidMsat: 40_010, leftMsat: 0 })
    t.match(await gateway.reserve(balance.id, 1), { why: 'insufficient', leftMsat: 0 }, 'it is used up')
    await written(clock, [gateway])
    t.equal((await sound(database, balance.id)).left, 0)
    t.match((await store.entries(balance.id, { skip: 0, take: 1 }))[0], { msat: 9_990, unpaidMsat: 40_010 })
  }
)

void eachDatabase(
  t,
  'a balance that is closed goes back from another gateway as its requests end, though it had reserved all of its slice',
  async (t, database) => {
    const { clock, store, ledger, open } = setting(t, database)
    const [a, b] = [ledger('a'), ledger('b')]
    await a.start()
    const balance = await open({ depositedMsat: 32_000 })
    const [first, second] = [await reserved(a, balance.id, 5_000), await reserved(a, balance.id, 5_000)]
    await written(clock, [a])
    t.match(a.held, { msat: 10_000, reservedMsat: 10_000 }, 'it has nothing to give when asked')
    const told = Promise.withResolvers<string>()
    t.teardown(await database.listen('boltgate_slices', told.resolve))
    await store.close(balance.id, database.sql)
    await b.letGo(balance.id)
    await told.promise
    await a.written()
    await settled(a, first, 4_000)
    await written(clock, [a])
    t.match(await sound(database, balance.id), { spent: 4_000, held: 5_000 })
    await settled(a, second, 4_000)
    await written(clock, [a])
    t.match(await sound(database, balance.id), { left: 24_000, spent: 8_000, held: 0 })
    t.match(a.held, { slices: 0 })
    t.match(await a.reserve(balance.id, 1), { why: 'closed', leftMsat: 24_000 })
  }
)

void eachDatabase(t, 'a slice that another gateway does not need is returned on request', async (t, database) => {
  const { clock, ledger, open } = setting(t, database)
  const [a, b] = [ledger('a'), ledger('b')]
  // One that holds nothing of it hears the question, too.
  await Promise.all([a.start(), ledger('c').start()])
  const balance = await open({ depositedMsat: 32_000 })
  const held = await reserved(a, balance.id, 500)
  t.match(await passing(t, clock, database, b.reserve(balance.id, 31_500)), { kind: 'reserved', msat: 31_500 })
  t.match(
    await passing(t, clock, database, b.reserve(balance.id, 1)),
    { kind: 'refused', why: 'insufficient', leftMsat: 0 },
    'the rest is in use'
  )
  await settled(a, held, 500)
  await written(clock, [a, b])
  await sound(database, balance.id)
})

void eachDatabase(t, 'a first grant that outlasts the beat is spent as any other', async (t, database) => {
  const slow = slowStore(database, true)
  const { clock, ledger, open } = setting(t, database, slow.store)
  const gateway = ledger('a')
  const balance = await open()
  const reserving = gateway.reserve(balance.id, 5_000)
  await slow.asked
  await written(clock, [gateway], 10_000)
  await written(clock, [gateway], 1_000)
  slow.free()
  const reservation = await reserving
  if (!isReserved(reservation)) throw new Error('nothing was reserved')
  t.match(await settled(gateway, reservation, 1_234), { chargedMsat: 1_234, unpaidMsat: 0 })
  await written(clock, [gateway])
  t.equal((await sound(database, balance.id)).spent, 1_234)
})

void eachDatabase(t, 'a slice that is lost while more is requested for it serves no waiter', async (t, database) => {
  const slow = slowStore(database)
  const { clock, store, ledger, open } = setting(t, database, slow.store)
  const gateway = ledger('a')
  const balance = await open()
  await spend(gateway, balance.id, 5_000, 1_000)
  await written(clock, [gateway])
  slow.isSlow = true
  const reserving = gateway.reserve(balance.id, 500_000)
  const refused = t.rejects(Promise.resolve(reserving), { message: 'the slice of the balance was lost' })
  await slow.asked
  await database.sql`delete from balance_slices where balance_id = ${balance.id}`
  await written(clock, [gateway], 10_000)
  await written(clock, [gateway], 1_000)
  slow.free()
  await refused
  await spend(gateway, balance.id, 5_000, 5_000)
  await written(clock, [gateway])
  t.equal((await store.find(balance.id))?.spentMsat, 6_000, 'later requests are charged to another slice')
})

void eachDatabase(t, 'settling: what a lost slice cannot be charged is unpaid', async (t, database) => {
  const slow = slowStore(database)
  const { clock, ledger, open } = setting(t, database, slow.store)
  const notified: number[][] = []
  const gateway = ledger('a', { settled: (charged, unpaid) => notified.push([charged, unpaid]) })
  const balance = await open()
  const reservation = await reserved(gateway, balance.id, 5_000)
  const smaller = await reserved(gateway, balance.id, 5_000)
  await written(clock, [gateway])
  slow.isSlow = true
  const settling = settled(gateway, reservation, 600_000)
  await slow.asked
  await database.sql`delete from balance_slices where balance_id = ${balance.id}`
  await written(clock, [gateway], 10_000)
  await written(clock, [gateway], 1_000)
  slow.free()
  t.match(await settling, { chargedMsat: 0, unpaidMsat: 600_000, leftMsat: 0 })
  t.match(await settled(gateway, smaller, 3_000), { chargedMsat: 0, unpaidMsat: 3_000, leftMsat: 0 })
  t.same(notified, [
    [0, 600_000],
    [0, 3_000]
  ])
})

void eachDatabase(t, 'a grant: other gateways are asked only for what the balance covers', async (t, database) => {
  const { clock, ledger, open } = setting(t, database)
  const notified: string[] = []
  const heard: Pick<typeof database, 'listen' | 'notify'> = {
    listen: (channel, take) => database.listen(channel, take),
    notify: async (channel, text) => {
      notified.push(text)
      await database.notify(channel, text)
    }
  }
  const [first, second] = [ledger('a', { database: heard }), ledger('b', { database: heard })]
  const balance = await open()
  await reserved(first, balance.id, 600_000)
  t.match(await second.reserve(balance.id, 1_000_001), { kind: 'refused', why: 'insufficient' })
  t.same(notified, [], 'what does not exist is not requested')
  const held = await reserved(second, balance.id, 300_000)
  for (const state of ['reserved', 'spent']) {
    t.match(await second.reserve(balance.id, 700_001), { kind: 'refused', why: 'insufficient' }, state)
    if (state === 'reserved') await settled(second, held, 300_000)
  }
  t.same(notified, [], 'nor what the own slice has')
  t.match(await passing(t, clock, database, second.reserve(balance.id, 700_000)), { kind: 'refused' })
  t.same(notified, [balance.id, balance.id, balance.id], 'what others may have is, three times')
})

void eachDatabase(t, 'a grant: one that comes after the end of its request is free again', async (t, database) => {
  const { ledger, open } = setting(t, database)
  const gateway = ledger('a')
  const balance = await open()
  const held = await reserved(gateway, balance.id, 5_000)
  const growing = gateway.grow(held, 900_000, 900_000)
  await settled(gateway, held, 1_000)
  await growing
  await gateway.close()
  t.same(await sound(database, balance.id), { left: 999_000, spent: 1_000, held: 0 })
})

void eachDatabase(t, 'a write whose answer was lost is written once', async (t, database) => {
  const { clock, store, open } = setting(t, database)
  const balance = await open()
  const slice = { balanceId: balance.id, sliceId: 's' }
  await store.grab({ ...slice, gateway: 'a', need: 1_000, want: 0, keptUntil: clock.now() + 1, now: clock.now() })
  const entries = new Entries()
  entries.add(use(), 400, 0)
  const write: SliceWrite = {
    ...slice,
    nth: 1,
    spent: 400,
    back: 100,
    reserved: 200,
    isLast: false,
    keptUntil: clock.now() + 60_000,
    entries
  }
  t.same([await store.write(write), await store.write(write)], [999_600, 999_600])
  t.same(await sound(database, balance.id), { left: 999_600, spent: 400, held: 1_000_000 / SLICES - 500 })
  t.match(await store.find(balance.id), { reservedMsat: 200 })
  const last: SliceWrite = { ...write, nth: 2, spent: 0, back: 0, reserved: 0, isLast: true, entries: new Entries() }
  t.same([await store.write(last), await store.write(last)], [999_600, null])
  t.equal((await sound(database, balance.id)).held, 0)
})

void eachDatabase(
  t,
  'of a gateway that died what it had reserved is charged, and the rest is free',
  async (t, database) => {
    const { clock, store, ledger, open } = setting(t, database)
    const dead = killableLedger(database, clock, 'dead')
    const balance = await open()
    await reserved(dead.ledger, balance.id, 7_000)
    const short = await reserved(dead.ledger, balance.id, 2_000)
    await written(clock, [dead.ledger])
    await settled(dead.ledger, short, 1_500)
    dead.kill()
    const other = ledger('other')
    t.equal(await other.sweep(), 0, 'not before its time')
    clock.advance(61_000)
    t.equal(await other.sweep(), 1)
    t.equal(await other.sweep(), 0)
    t.same(await sound(database, balance.id), { left: 991_000, spent: 9_000, held: 0 })
    t.match(await store.entries(balance.id, { skip: 0, take: 5 }), [{ basis: 'crash', msat: 9_000, request: 'dead' }])
  }
)

void eachDatabase(t, 'a slice with a reservation is kept for as long as its gateway lives', async (t, database) => {
  const { clock, ledger, open } = setting(t, database)
  const [own, other] = [ledger('own'), ledger('other')]
  const balance = await open()
  const held = await reserved(own, balance.id, 7_000)
  for (let beat = 0; beat < 36; beat++) {
    clock.advance(5_000)
    await written(clock, [own])
  }
  t.equal(await other.sweep(), 0, 'after three minutes')
  await settled(own, held, 6_000)
  await written(clock, [own])
  t.equal((await sound(database, balance.id)).spent, 6_000)
})

void eachDatabase(t, 'a gateway that slept past its slice charges nothing twice', async (t, database) => {
  const { clock, ledger, open } = setting(t, database)
  const [sleeper, other] = [ledger('sleeper'), ledger('other')]
  const balance = await open()
  const held = await reserved(sleeper, balance.id, 7_000)
  await written(clock, [sleeper])
  // Nothing of it runs meanwhile.
  clock.leap(61_000)
  t.equal(await sleeper.grow(held, held.msat + 1, held.msat + 1), 'away')
  await other.sweep()
  await settled(sleeper, held, 6_000)
  await written(clock, [sleeper])
  t.same(await sound(database, balance.id), { left: 993_000, spent: 7_000, held: 0 })
  await spend(sleeper, balance.id, 10, 10)
  await written(clock, [sleeper])
  t.equal((await sound(database, balance.id)).left, 992_990, 'and it continues with another slice')
})

void eachDatabase(t, 'a slice that is lost leaves the one that has followed it', async (t, database) => {
  const { clock, ledger, open } = setting(t, database)
  const [sleeper, other] = [ledger('sleeper'), ledger('other')]
  const balance = await open()
  const held = await reserved(sleeper, balance.id, 7_000)
  await written(clock, [sleeper])
  clock.leap(61_000)
  await other.sweep()
  await spend(sleeper, balance.id, 10, 10)
  await settled(sleeper, held, 6_000)
  await written(clock, [sleeper])
  await spend(sleeper, balance.id, 10, 10)
  await written(clock, [sleeper])
  t.equal(sleeper.held.slices, 1)
  t.match(await sound(database, balance.id), { left: 992_980, spent: 7_020 })
})

/** Refunds what is left of a closed balance; how much that was. */
async function refundRest(store: BalanceStore, id: string) {
  const found = await store.find(id)
  const left = found === null ? 0 : found.depositedMsat - found.spentMsat - found.refundedMsat
  const done = await Promise.all([store.refunded(id, left), store.refunded(id, left)])
  return done.includes(true) ? left : 0
}

/** Gateways that reserve, settle, die and restart, over a few balances, in an order of chance. */
async function anyOrder(t: T, database: Database, seed: () => number) {
  const { clock, store } = setting(t, database)
  const balances = Array.from({ length: 3 }, () => newBalance(clock, { depositedMsat: 20_000 }))
  for (const balance of balances) await store.open(balance)
  let names = 0
  const begin = () => ({ ...killableLedger(database, clock, `gateway ${++names}`), open: [] as BalanceReservation[] })
  const gateways = [begin(), begin()]
  /** Of each balance what the gateways said they charged, and the most that deaths may have added or lost. */
  const told = new Map(balances.map(({ id }) => [id, { charged: 0, doubt: 0, refunded: 0, deposits: 1 }]))
  const of = (id: string) => told.get(id) ?? { charged: 0, doubt: 0, refunded: 0, deposits: 0 }
  const some = <E>(all: readonly E[]) => all[seed() % all.length] as E
  for (let step = 0; step < 120; step++) {
    const gateway = some(gateways)
    const { id } = some(balances)
    const choice = seed() % 100
    if (choice < 45) {
      const answer = await passing(t, clock, database, gateway.ledger.reserve(id, 1 + (seed() % 3_000)))
      if (isReserved(answer)) gateway.open.push(answer)
    } else if (choice < 80 && gateway.open.length > 0) {
      const [reservation] = gateway.open.splice(seed() % gateway.open.length, 1)
      if (reservation === undefined) continue
      const { chargedMsat } = await settled(gateway.ledger, reservation, seed() % 4_000)
      of(reservation.balanceId).charged += chargedMsat
    } else if (choice < 86) clock.advance(seed() % 400)
    else if (choice < 90) {
      const deposit = of(id).deposits++
      const hash = `${deposit}`.padStart(4, '0') + id.slice(4)
      const added = await Promise.all([1, 2].map(() => store.topUp(id, hash, 500, clock.now())))
      t.equal(added[0], added[1])
    } else if (choice < 92) await store.close(id)
    else if (choice < 94) of(id).refunded += await refundRest(store, id)
    else if (choice < 97) {
      gateway.kill()
      for (const { id } of balances) of(id).doubt = Infinity
      gateways[gateways.indexOf(gateway)] = begin()
    } else {
      await written(
        clock,
        gateways.map(each => each.ledger),
        61_000
      )
      await some(gateways).ledger.sweep()
    }
    for (const { id } of balances) await sound(database, id)
  }
  for (const { ledger, open } of gateways) {
    for (const reservation of open)
      of(reservation.balanceId).charged += (await settled(ledger, reservation, 1)).chargedMsat
    await ledger.close()
  }
  clock.advance(61_000)
  await begin().ledger.sweep()
  for (const { id } of balances) {
    const { spent, held } = await sound(database, id)
    t.equal(held, 0, 'nothing is reserved any more')
    if (of(id).doubt === 0) t.equal(spent, of(id).charged, 'what was reported is what was spent')
    await store.close(id)
    of(id).refunded += await refundRest(store, id)
    const now = await store.find(id)
    t.equal(now?.refundedMsat, of(id).refunded, 'each refund once')
    t.equal((now?.depositedMsat ?? 0) - (now?.spentMsat ?? 0) - (now?.refundedMsat ?? 0), 0)
  }
}

void eachDatabase(
  t,
  'in any order of reserving, settling, deposits, closing and deaths the sums hold',
  async (t, database) => {
    for (let round = 0; round < 6; round++) {
      const begun = randomInt(1, 0x7fffffff)
      await t.test(`seed ${begun}`, async t => {
        await anyOrder(t, database, randoms(begun))
      })
    }
  }
)

void eachDatabase(
  t,
  'a read of the balance includes all that this gateway has charged, without a wait for the next write',
  async (t, database) => {
    const { store, ledger, open } = setting(t, database)
    const gateway = ledger('a')
    const balance = await open()
    await gateway.flush(balance.id)
    const first = await reserved(gateway, balance.id, 1_000)
    const second = await reserved(gateway, balance.id, 1_000)
    await settled(gateway, first, 700)
    const flushed = gateway.flush(balance.id)
    // The write of the first is in flight: it does not have this one.
    await settled(gateway, second, 50)
    await flushed
    await gateway.flush(balance.id)
    t.match(await store.find(balance.id), { spentMsat: 750, reservedMsat: 0 })
  }
)

void eachDatabase(
  t,
  'a read of the balance waits no longer than a second for a database that takes no writes',
  async (t, database) => {
    const { clock, store, open } = setting(t, database)
    const balance = await open()
    const { ledger, kill } = killableLedger(database, clock, 'a')
    await spend(ledger, balance.id, 1_000, 700)
    kill()
    const flushed = ledger.flush(balance.id)
    clock.advance(1_000)
    await flushed
    t.match(await store.find(balance.id), { spentMsat: 0 })
  }
)
