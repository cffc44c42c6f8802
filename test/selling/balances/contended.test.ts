import t from 'tap'
import { Entries } from '../../../src/selling/balances/entries.ts'
import { BalanceStore } from '../../../src/selling/balances/store.ts'
import type { SliceWrite } from '../../../src/selling/balances/balance.ts'
import type { Database, Sql } from '../../../src/platform/database/database.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { opened } from './fixture.ts'

/**
 * A statement of PostgreSQL sees rows as they were when it began, also where it has waited for one that another session
 * was changing. Each here begins while a change is uncommitted, and ends once that has been committed.
 */
type Change = (sql: Sql, id: string) => Promise<unknown>

/** What others do to a balance of 1,000,000 of which another gateway's slice holds 500,000. */
const CHANGES: Readonly<Record<string, Change>> = {
  'a deposit': (sql, id) => sql`update balances set deposited_msat = deposited_msat + 500000 where id = ${id}`,
  'a slice that goes back': async (sql, id) => {
    await sql`delete from balance_slices where id = ${`other ${id}`}`
    await sql`update balances set held_msat = held_msat - 500000 where id = ${id}`
  },
  'what another slice spent': async (sql, id) => {
    await sql`update balance_slices set amount_msat = 100000 where id = ${`other ${id}`}`
    await sql`update balances set spent_msat = spent_msat + 400000, held_msat = held_msat - 400000 where id = ${id}`
  }
}

/** Runs `act` so that it finds the balance's row locked by a change, which is committed then. */
async function behind<R>(database: Database, change: Change, id: string, act: () => Promise<R>) {
  const changed = Promise.withResolvers<void>()
  const waited = Promise.withResolvers<void>()
  const other = database.transaction(async sql => {
    await change(sql, id)
    changed.resolve()
    await waited.promise
  })
  await changed.promise
  const acted = act()
  await isWaiting(database)
  waited.resolve()
  await other
  return await acted
}

/** Resolves when a session waits for a row; immediately on the embedded database, which does one thing after the other. */
async function isWaiting(database: Database) {
  if (database.kind !== 'postgres') return
  for (;;) {
    const [row] = await database.sql<{ waits: boolean }[]>`
      select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waits`
    if (row?.waits === true) return
  }
}

async function setting(database: Database, isDead = false) {
  const clock = new ManualClock()
  const store = new BalanceStore(database)
  const balance = await opened(store, clock)
  const { id } = balance
  const now = clock.now()
  const keptUntil = now + 60_000
  const grab = (slice: string, msat: number, until = keptUntil) => ({
    balanceId: id,
    sliceId: `${slice} ${id}`,
    gateway: slice,
    need: msat,
    want: msat,
    keptUntil: until,
    now
  })
  await store.grab(grab('other', 500_000))
  await store.grab(grab('own', 200_000, isDead ? now - 1 : keptUntil))
  const write = (facts: Partial<SliceWrite>) => ({
    balanceId: id,
    sliceId: `own ${id}`,
    nth: 1,
    spent: 0,
    back: 0,
    reserved: 0,
    isLast: false,
    keptUntil,
    entries: new Entries(),
    ...facts
  })
  const held = async () => {
    const found = await store.find(id)
    const [row] = await database.sql<{ sum: bigint }[]>`
      select sum(amount_msat)::bigint as sum from balance_slices where balance_id = ${id}`
    if (found === null) throw new Error('the balance is gone')
    const { depositedMsat, spentMsat, refundedMsat, heldMsat } = found
    return { sliced: Number(row?.sum ?? 0), held: heldMsat, left: depositedMsat - spentMsat - refundedMsat }
  }
  return { id, store, grab, write, held, now }
}

void eachDatabase(t, 'a slice is taken of a balance as it is once its row is free', async (t, database) => {
  for (const [what, change] of Object.entries(CHANGES)) {
    const { id, store, grab, held } = await setting(database)
    const need = what === 'what another slice spent' ? 300_000 : 700_000
    t.match(await behind(database, change, id, () => store.grab(grab('own', need))), { granted: need }, what)
    const { sliced, held: isHeld } = await held()
    t.equal(isHeld, sliced, `${what}: what is held is what slices have`)
  }
})

void eachDatabase(t, 'a slice is written to a balance as it is once its row is free', async (t, database) => {
  for (const [what, change] of Object.entries(CHANGES)) {
    for (const facts of [{ spent: 150_000 }, { spent: 50_000, back: 150_000 }, { spent: 200_000, isLast: true }]) {
      const { id, store, write, held } = await setting(database)
      const before = (await held()).left
      const left = await behind(database, change, id, () => store.write(write(facts)))
      const after = await held()
      t.equal(left, after.left, `${what}, ${JSON.stringify(facts)}: the rest is returned`)
      t.equal(after.held, after.sliced, 'the reserve is the sum of the slices')
      const others = what === 'a deposit' ? 500_000 : what === 'what another slice spent' ? -400_000 : 0
      t.equal(after.left, before + others - facts.spent, 'the charge is the sum of both')
    }
  }
})

void eachDatabase(t, 'charges to one balance in the same moment all count', async (t, database) => {
  const { id, store, grab, write, held } = await setting(database)
  const grabs = ['a', 'b', 'c', 'd'].map(name => store.grab(grab(name, 50_000)))
  for (const grabbed of await Promise.all(grabs)) t.match(grabbed, { granted: 50_000 })
  await Promise.all(
    ['own', 'other', 'a', 'b', 'c'].map(name => store.write(write({ sliceId: `${name} ${id}`, spent: 10_000 })))
  )
  t.same(await held(), { sliced: 850_000, held: 850_000, left: 950_000 })
})

void eachDatabase(t, 'a dead slice is swept of a balance as it has just become', async (t, database) => {
  for (const [what, change] of Object.entries(CHANGES)) {
    const { id, store, write, held, now } = await setting(database, true)
    await store.write({ ...write({ spent: 20_000, reserved: 100_000 }), keptUntil: now - 1 })
    // It passes over a row that another session has locked: of one that is not the next sweep makes an end.
    await behind(database, change, id, () =>
      store.write({ ...write({ nth: 2, reserved: 90_000 }), keptUntil: now - 1 })
    )
    t.match(await store.sweep(now, 10), [{ balanceId: id, chargedMsat: 90_000 }], what)
    const after = await held()
    t.equal(after.held, after.sliced, 'the reserve is the sum of the slices')
  }
})

void eachDatabase(t, 'a deposit is added once to the current balance when its row is free', async (t, database) => {
  for (const [what, change] of Object.entries(CHANGES)) {
    const { id, store, held, now } = await setting(database)
    const before = (await held()).left
    const topUp = () => store.topUp(id, `top-up of ${id}`, 1_000, now)
    t.equal(await behind(database, change, id, topUp), true, what)
    t.equal(await topUp(), true, 'a repetition is answered alike')
    const others = what === 'a deposit' ? 500_000 : what === 'what another slice spent' ? -400_000 : 0
    t.equal((await held()).left, before + others + 1_000, 'counted once')
  }
})
