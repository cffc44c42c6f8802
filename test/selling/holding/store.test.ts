import { AsyncLocalStorage } from 'node:async_hooks'
import t from 'tap'
import { ChallengeStore } from '../../../src/selling/holding/store.ts'
import type { NewChallenge } from '../../../src/selling/holding/challenge.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { MADE_AT as NOW, newChallenge } from '../challenges/fixture.ts'

/** Runs what another request would run, while a transaction of the test is open. */
const outside = AsyncLocalStorage.snapshot()

function challenge(changes: Partial<NewChallenge> = {}) {
  return newChallenge({ amountSats: 1_000_000_000, ...changes })
}

const leaseOf = ({ paymentHash }: NewChallenge) => ({
  paymentHash,
  leaseId: 'l',
  gateway: 'g',
  until: NOW + 20_000,
  now: NOW
})

await eachDatabase(t, 'a row that is not sound is never written', async (t, database) => {
  const store = new ChallengeStore(database)
  for (const bad of [
    { paymentHash: 'A'.repeat(64) },
    { paymentHash: '0'.repeat(63) },
    { tokenId: `${'0'.repeat(63)}g` },
    { tokenId: '' },
    { amountSats: 0 },
    { amountSats: -1 },
    { amountSats: 1.5 },
    { amountSats: 21e14 + 1 },
    { amountSats: NaN }
  ]) {
    await t.rejects(
      store.insert(database.sql, challenge(bad)),
      { message: /of a challenge must be/ },
      JSON.stringify(bad)
    )
  }
  t.same(await database.sql`select payment_hash from challenges`, [])
})

await eachDatabase(t, 'the database itself refuses a state that no payment can have', async (t, database) => {
  const store = new ChallengeStore(database)
  const row = challenge()
  await store.insert(database.sql, row)
  const { sql } = database
  for (const set of [
    sql`state = 'lost'`,
    sql`state = 'spent'`,
    sql`state = 'spent', scheme = 'l402'`,
    sql`state = 'leased', scheme = 'payment'`,
    sql`state = 'leased', scheme = 'payment', lease_id = 'a', lease_gateway = 'g'`,
    sql`state = 'leased', lease_id = 'a', lease_gateway = 'g', lease_until = now()`
  ])
    await t.rejects(sql`update challenges set ${set} where payment_hash = ${row.paymentHash}`, {
      message: /challenges_states/
    })
  t.equal((await store.find(row.paymentHash))?.state, 'unspent')
})

await eachDatabase(t, 'no index names a column that a spend, a release or a heartbeat changes', async (t, database) => {
  const indexes = await database.sql<
    { indexdef: string }[]
  >`select indexdef from pg_indexes where tablename = 'challenges'`
  t.ok(indexes.length > 3)
  for (const { indexdef } of indexes) t.notMatch(indexdef, /state|spent_at|lease/)
})

await eachDatabase(
  t,
  "a client's open invoices are found by the client, whatever the database knows of the rows",
  async (t, database) => {
    const store = new ChallengeStore(database)
    for (let client = 0; client < 50; client++)
      await store.insert(database.sql, challenge({ clientKey: `203.0.113.${client}` }))
    const indexes = await database.sql<{ indexname: string; condition: string }[]>`
    select indexname, pg_get_expr(indpred, indrelid) as condition from pg_indexes join pg_index on indexrelid = indexname::regclass where indexname like 'challenges_open%'`
    t.same(
      indexes.map(({ indexname }) => indexname),
      ['challenges_open']
    )
    for (const { condition } of indexes) {
      const plan = await database.sql.unsafe(
        `explain select 1 from challenges where client_key = '203.0.113.7' and place = 'route:a' and ${condition} and expires_at > '2026-11-21'`
      )
      t.match(JSON.stringify(plan), /challenges_open/)
    }
  }
)

await eachDatabase(t, 'only the named leases of a gateway are extended', async (t, database) => {
  const store = new ChallengeStore(database)
  const rows = [challenge(), challenge()]
  for (const row of rows) {
    await store.insert(database.sql, row)
    await store.lease(database.sql, leaseOf(row))
  }
  const keys = rows.map(({ paymentHash }) => ({ paymentHash, leaseId: 'l' }))
  await store.spend(keys.slice(0, 1), NOW)
  t.same(await store.extend('g', keys, NOW + 40_000), ['l'], 'not what is spent')
  t.same(await store.extend('another', keys, NOW + 60_000), [])
  const others = keys.map(key => ({ ...key, leaseId: 'not mine' }))
  t.same(await store.extend('g', others, NOW + 60_000), [])
  t.match(await store.find(keys[1]?.paymentHash ?? ''), { leaseUntil: NOW + 40_000 })
})

await eachDatabase(t, 'only unpaid, unexpired, unclaimed rows count as open', async (t, database) => {
  const store = new ChallengeStore(database)
  const [newest, paid, expired, leased, soon, plain] = [
    challenge({ createdAt: NOW + 1 }),
    challenge({ createdAt: NOW + 2 }),
    challenge({ expiresAt: NOW - 1 }),
    challenge({ createdAt: NOW + 3 }),
    challenge({ createdAt: NOW + 4, expiresAt: NOW + 119_000 }),
    challenge()
  ]
  for (const row of [
    newest,
    paid,
    expired,
    leased,
    soon,
    plain,
    challenge({ binding: 'other' }),
    challenge({ clientKey: 'other' }),
    challenge({ place: 'route:b' })
  ])
    await store.insert(database.sql, row)
  await store.claim(database.sql, { paymentHash: paid.paymentHash, scheme: 'l402', now: NOW })
  await store.lease(database.sql, leaseOf(leased))
  await store.release([{ paymentHash: leased.paymentHash, leaseId: 'l' }])
  const query = {
    clientKey: '203.0.113.1',
    binding: 'b',
    place: 'route:a',
    requestLimit: 3,
    placeLimit: 100,
    now: NOW,
    since: NOW + 10,
    payableUntil: NOW + 120_000
  }
  t.match(await store.outstanding(query), {
    inPlace: 4,
    ofRequest: 3,
    recent: [],
    firstExpiry: NOW + 119_000,
    newest: { paymentHash: newest.paymentHash }
  })
  const since = await store.outstanding({ ...query, since: NOW + 1 })
  t.match(since, { inPlace: 2, ofRequest: 1, firstExpiry: NOW + 119_000, newest: { paymentHash: newest.paymentHash } })
  t.same(
    since.recent.map(({ paymentHash, binding }) => [paymentHash, binding]).sort(),
    [newest, soon].map(({ paymentHash }) => [paymentHash, 'b']).sort(),
    'those made since, one by one'
  )
  t.match(await store.outstanding({ ...query, requestLimit: 4 }), { newest: null })
  t.match(await store.outstanding({ ...query, placeLimit: 2 }), { inPlace: 2, firstExpiry: NOW + 119_000 })
  t.match(await store.outstanding({ ...query, clientKey: 'nobody' }), { inPlace: 0, firstExpiry: null, newest: null })
})

await eachDatabase(t, 'a revoked payment leaves the list with its row, and only then', async (t, database) => {
  const store = new ChallengeStore(database)
  const [old, live] = [challenge({ expiresAt: NOW, tokenExpiresAt: NOW }), challenge()]
  for (const row of [old, live]) {
    await store.insert(database.sql, row)
    await store.revoke({ kind: 'payment', id: row.paymentHash }, NOW)
  }
  await store.revoke({ kind: 'proxy', id: 'p' }, NOW)
  t.equal(await store.purge(NOW + 1, NOW - 1, 10), 1)
  t.same((await store.revocations()).map(({ id }) => id).sort(), [live.paymentHash, 'p'].sort())
})

await eachDatabase(t, 'a purge in several steps leaves nothing, in any order of the rows', async (t, database) => {
  const store = new ChallengeStore(database)
  for (const ended of [5, 3, 9, 3, 3, 1, 7]) {
    const at = NOW - ended
    await store.insert(database.sql, challenge({ expiresAt: at, tokenExpiresAt: at }))
  }
  const steps: number[] = []
  do steps.push(await store.purge(NOW, NOW, 2))
  while (steps.at(-1) === 2)
  t.same(steps, [2, 2, 2, 1])
  // Older than the last that went.
  await store.insert(database.sql, challenge({ expiresAt: NOW - 10, tokenExpiresAt: NOW - 10 }))
  t.equal(await store.purge(NOW, NOW, 2), 1)
})

await eachDatabase(
  t,
  'a challenge that was paid at its provider is kept as long as a sold one, though it was never shown',
  async (t, database) => {
    const store = new ChallengeStore(database)
    const [paid, unpaid] = [
      challenge({ expiresAt: NOW, tokenExpiresAt: NOW }),
      challenge({ expiresAt: NOW, tokenExpiresAt: NOW })
    ]
    for (const row of [paid, unpaid]) await store.insert(database.sql, row)
    await store.settled(paid.paymentHash, NOW - 1)
    t.equal(await store.purge(NOW + 1, NOW, 10), 1)
    t.match(await store.find(paid.paymentHash), { settledAt: NOW - 1 })
    t.equal(await store.purge(NOW + 1, NOW + 1, 1), 1)
    t.equal(await store.find(paid.paymentHash), null)
  }
)

await eachDatabase(t, 'the purge skips locked rows, and takes them another time', async (t, database) => {
  // The embedded database has a single connection.
  if (database.kind === 'pglite') return
  const store = new ChallengeStore(database)
  const [held, free] = [
    challenge({ expiresAt: NOW, tokenExpiresAt: NOW }),
    challenge({ expiresAt: NOW, tokenExpiresAt: NOW })
  ]
  for (const row of [held, free]) await store.insert(database.sql, row)
  await database.transaction(async tx => {
    await tx`select 1 from challenges where payment_hash = ${held.paymentHash} for update`
    t.equal(await outside(() => store.purge(NOW + 1, NOW - 1, 10)), 1)
  })
  t.equal(await store.find(free.paymentHash), null)
  t.equal(await store.purge(NOW + 1, NOW - 1, 10), 1)
})

await eachDatabase(t, 'purgeable rows are found by the indexes of the purge', async (t, database) => {
  const store = new ChallengeStore(database)
  const plans: string[] = []
  await database.transaction(async tx => {
    // In a small table the planner would read all of it.
    await tx`set local enable_seqscan = off`
    const sql = new Proxy(tx, {
      apply: (target, self, args: unknown[]) => {
        const [first, ...values] = args
        const strings = first as TemplateStringsArray // A template that is a part of another, or a statement.
        if (!/^\s*with gone/.test(strings[0] ?? '')) return Reflect.apply(target, self, args) as unknown
        const pieces = [`explain ${strings[0]}`, ...strings.slice(1)]
        const plan = Reflect.apply(target, self, [Object.assign(pieces, { raw: pieces }), ...values])
        return (plan as Promise<unknown[]>).then(rows => {
          plans.push(JSON.stringify(rows))
          return []
        })
      }
    })
    await new ChallengeStore(withSql(database, sql)).purge(NOW, NOW, 10)
  })
  t.equal(plans.length, 3)
  for (const plan of plans.slice(0, 2)) t.match(plan, /challenges_purge_unpaid/)
  t.match(plans[2], /challenges_purge_paid/)
  for (const plan of plans) t.notMatch(plan, /Seq Scan on challenges/)
  await store.close()
})

await eachDatabase(t, "a page of a merchant's challenges is read in the order of an index", async (t, database) => {
  const plan = await database.transaction(async tx => {
    // In a small table the planner would read all of it, or sort the few rows that it guesses.
    await tx`set local enable_seqscan = off`
    await tx`set local enable_bitmapscan = off`
    await tx`set local enable_sort = off`
    return await tx`
      explain select * from challenges where source = 'producer' and merchant_id = '1'
      order by created_at desc, payment_hash desc limit 50 offset 50`
  })
  t.match(JSON.stringify(plan), /Scan Backward using challenges_of_merchant/)
  t.notMatch(JSON.stringify(plan), /Sort/)
})
