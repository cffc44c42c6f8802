import { AsyncLocalStorage } from 'node:async_hooks'
import t, { type Test as T } from 'tap'
import type { ClaimedChallenge, OnPaid } from '../../../src/selling/holding/challenge.ts'
import { ChallengeStore } from '../../../src/selling/holding/store.ts'
import { isUniqueViolation, type Database, type Sql } from '../../../src/platform/database/database.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { MADE_AT as NOW, newChallenge } from './fixture.ts'

function challenge(merchantId: string | null) {
  return newChallenge({ source: merchantId === null ? 'route' : 'proxy', merchantId })
}

/** What is done to one payment; `lease` is the lease's id. */
type Operation =
  | {
      readonly kind: 'claim'
      readonly scheme: 'l402' | 'payment-legacy'
      readonly charge: string
    }
  | { readonly kind: 'lease'; readonly lease: string; readonly path: string; readonly now: number }
  | { readonly kind: 'consume'; readonly lease: string; readonly now: number }
  | { readonly kind: 'spend' | 'release'; readonly lease: string }

/** A payment as the contract of `ChallengeStore` has it. */
interface Payment {
  readonly state: 'unspent' | 'leased' | 'spent'
  readonly scheme: string | null
  readonly lease: string | null
  readonly until: number
  readonly isFirst: boolean
}

const FRESH: Payment = { state: 'unspent', scheme: null, lease: null, until: 0, isFirst: true }
const UNTIL = 20_000

/** One operation alone: the payment's next state, and the caller's result. */
function step(payment: Payment, operation: Operation): readonly [Payment, string] {
  const isOwn =
    'lease' in operation &&
    payment.lease === operation.lease &&
    (payment.state === 'leased' || payment.state === 'spent')
  const isFree = (now: number): boolean =>
    (payment.scheme ?? 'payment') === 'payment' &&
    (payment.state === 'unspent' || (payment.state === 'leased' && payment.until < now))
  const told = payment.isFirst ? 'first' : 'again'
  switch (operation.kind) {
    case 'claim':
      return (payment.scheme ?? operation.scheme) === operation.scheme && operation.charge === 'c'
        ? [{ ...payment, scheme: operation.scheme, isFirst: false }, told]
        : [payment, 'refused']
    case 'lease':
      return isFree(operation.now) && operation.path === '/a'
        ? [
            {
              state: 'leased',
              scheme: 'payment',
              lease: operation.lease,
              until: operation.now + UNTIL,
              isFirst: false
            },
            told
          ]
        : [payment, 'refused']
    case 'consume':
      return isFree(operation.now)
        ? [{ ...payment, state: 'spent', scheme: 'payment', lease: operation.lease, isFirst: false }, told]
        : [payment, 'refused']
    case 'spend':
      return isOwn ? [{ ...payment, state: 'spent' }, 'done'] : [payment, 'refused']
    case 'release':
      return [isOwn ? { ...payment, state: 'unspent', lease: null } : payment, 'done']
  }
}

/** Outcome of an operation; null where its answer was lost, so that it was done or not. */
type Told = string | null

/** Whether some order of the operations, each alone, gives each caller this result and leaves this row. */
function isExplained(payment: Payment, told: ReadonlyArray<readonly [Operation, Told]>, left: Payment): boolean {
  if (told.length === 0)
    return (
      payment.state === left.state &&
      payment.scheme === left.scheme &&
      payment.lease === left.lease &&
      payment.isFirst === left.isFirst
    )
  return told.some(([operation, answer], at) => {
    const rest = told.toSpliced(at, 1)
    const [after, expected] = step(payment, operation)
    if (answer !== null) return answer === expected && isExplained(after, rest, left)
    return isExplained(after, rest, left) || isExplained(payment, rest, left)
  })
}

function pick<V>(random: () => number, values: readonly [V, ...V[]]) {
  return values[Math.floor(random() * values.length)] ?? values[0]
}

/** Numbers that look random and are the same for the same seed (mulberry32). */
function numbers(seed: number) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function anyOperation(random: () => number): Operation {
  const lease = pick(random, ['l1', 'l2', 'l3'])
  const now = NOW + pick(random, [0, 0, UNTIL + 1])
  switch (pick(random, ['claim', 'lease', 'lease', 'consume', 'spend', 'release'] as const)) {
    case 'claim':
      return {
        kind: 'claim',
        scheme: pick(random, ['l402', 'payment-legacy'] as const),
        charge: pick(random, ['c', 'c', 'another'])
      }
    case 'lease':
      return { kind: 'lease', lease, now, path: pick(random, ['/a', '/a', '/b']) }
    case 'consume':
      return { kind: 'consume', lease, now }
    case 'spend':
      return { kind: 'spend', lease }
    case 'release':
      return { kind: 'release', lease }
  }
}

/** The same database, of whose statements some are lost: before they are sent, or their answer. */
function lossy(database: Database, random: () => number, share: number): Database {
  const lost = (): Error => Object.assign(new Error('the connection was lost'), { code: 'ECONNRESET' })
  const sql = new Proxy(database.sql, {
    apply: (target, self, args: unknown[]) => {
      const fate = random()
      if (fate < share / 2) return Promise.reject(lost())
      // A statement of ours, as the client makes it.
      const sent = Reflect.apply(target, self, args) as PromiseLike<unknown>
      return fate < share
        ? sent.then(() => {
            throw lost()
          })
        : sent
    }
  })
  return withSql(database, sql)
}

/** Runs outside a transaction. */
const outside = AsyncLocalStorage.snapshot()

const verdict = (claimed: ClaimedChallenge | null): string =>
  claimed === null ? 'refused' : claimed.first ? 'first' : 'again'

async function told(t: T, work: Promise<string>): Promise<Told> {
  try {
    return await work
  } catch (error) {
    t.match(error, { code: 'ECONNRESET' })
    return null
  }
}

function leaseOf(paymentHash: string, leaseId: string, now = NOW) {
  return { paymentHash, leaseId, gateway: 'g', until: now + UNTIL, now }
}

function run(store: ChallengeStore, sql: Sql, paymentHash: string, operation: Operation): Promise<string> {
  switch (operation.kind) {
    case 'claim': {
      const { scheme, charge } = operation
      const condition = { chargeId: charge, tokenId: '0'.repeat(64), price: null, issuedAfter: null }
      return store.claim(sql, { paymentHash, scheme, condition, now: NOW }).then(verdict)
    }
    case 'lease': {
      const bond = {
        paymentId: 'id',
        merchantId: null,
        service: 'boltgate:0',
        method: 'GET',
        path: operation.path,
        query: '',
        amountSats: 10,
        issuedAfter: null
      }
      return store.lease(sql, { ...leaseOf(paymentHash, operation.lease, operation.now), bond }).then(verdict)
    }
    case 'consume':
      return store.consume(sql, leaseOf(paymentHash, operation.lease, operation.now)).then(verdict)
    case 'spend':
      return store
        .spend([{ paymentHash, leaseId: operation.lease }], NOW)
        .then(spent => (spent.length === 1 ? 'done' : 'refused'))
    case 'release':
      return store.release([{ paymentHash, leaseId: operation.lease }]).then(() => 'done')
  }
}

for (const share of [0, 0.3]) {
  await eachDatabase(
    t,
    `no interleaving of what is written together gives a verdict that single statements would not${share === 0 ? '' : ', with answers lost'}`,
    async (t, database) => {
      const seed = Math.floor(Math.random() * 2 ** 31)
      const random = numbers(seed)
      const plain = new ChallengeStore(database)
      for (let round = 0; round < 25; round++) {
        const watched = lossy(database, random, share)
        const store = new ChallengeStore(watched)
        const rows = Array.from({ length: 12 }, () => challenge(null))
        for (const row of rows) await plain.insert(database.sql, row)
        const work = rows.map(row => {
          const operations = Array.from({ length: 1 + Math.floor(random() * 5) }, () => anyOperation(random))
          return { row, operations }
        })
        // Row by row in turn, so that a batch has several rows and each row is in several batches.
        const begun: Array<Promise<readonly [string, Operation, Told]>> = []
        for (let at = 0; at < 5; at++)
          for (const { row, operations } of work) {
            const operation = operations[at]
            if (operation === undefined) continue
            const { paymentHash } = row
            begun.push(
              told(t, run(store, watched.sql, paymentHash, operation)).then(answer => [paymentHash, operation, answer])
            )
          }
        const answers = await Promise.all(begun)
        await store.close()
        for (const { paymentHash } of rows) {
          const [left] = await database.sql<
            { state: Payment['state']; scheme: string | null; lease_id: string | null; verifications: number }[]
          >`select state, scheme, lease_id, verifications from challenges where payment_hash = ${paymentHash}`
          if (left === undefined) throw new Error('a row has gone')
          const own = answers
            .filter(([hash]) => hash === paymentHash)
            .map(([, operation, answer]) => [operation, answer] as const)
          const { state, scheme, lease_id: lease, verifications } = left
          if (!isExplained(FRESH, own, { state, scheme, lease, until: 0, isFirst: verifications === 0 }))
            t.fail('no order of single statements says this', { seed, round, own, left })
        }
      }
      t.pass('each verdict, and what is left')
    }
  )
}

await eachDatabase(
  t,
  'a row that the database refuses fails alone, among those written with it',
  async (t, database) => {
    const store = new ChallengeStore(database)
    const rows = Array.from({ length: 40 }, () => challenge('7'))
    for (const row of rows) await store.insert(database.sql, row)
    // PostgreSQL has no text with this character in it.
    const isBad = (at: number) => at % 13 === 5
    const leased = await Promise.allSettled(
      rows.map(({ paymentHash }, at) => store.lease(database.sql, leaseOf(paymentHash, isBad(at) ? 'l\0' : `l${at}`)))
    )
    t.same(
      leased.map(one => one.status === 'fulfilled' && one.value !== null),
      rows.map((_row, at) => !isBad(at))
    )
    const fresh = Array.from({ length: 40 }, () => challenge('7'))
    for (const row of fresh) await store.insert(database.sql, row)
    const unbearable = new Set(fresh.filter((_row, at) => isBad(at)).map(({ paymentHash }) => paymentHash))
    const sizes: number[] = []
    const onPaid: OnPaid = async (tx, paid) => {
      sizes.push(paid.length)
      for (const { paymentHash } of paid)
        await tx`insert into revocations (kind, id, revoked_at) values ('payment', ${paymentHash}, ${new Date(NOW)})`
      if (paid.some(({ paymentHash }) => unbearable.has(paymentHash))) throw new Error('this one cannot be reported')
    }
    const claimed = await Promise.allSettled(
      fresh.map(async ({ paymentHash }) => {
        const told = await store.claim({ onPaid }, { paymentHash, scheme: 'l402', now: NOW })
        return [paymentHash, told?.first]
      })
    )
    t.equal(sizes[0], 40, 'those that come together are reported together')
    t.same(
      claimed.map(one => one.status === 'fulfilled'),
      claimed.map((_one, at) => !isBad(at))
    )
    const written = await database.sql<{ id: string }[]>`select id from revocations`
    const first = claimed.flatMap(one => (one.status === 'fulfilled' ? [one.value[0]] : []))
    t.same(written.map(({ id }) => id).sort(), first.sort(), 'what is reported is written with its claim, once')
    const [paid] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from challenges where scheme = 'l402'`
    t.equal(paid?.count, first.length)
  }
)

await eachDatabase(
  t,
  'a row that cannot be read costs the others neither their payments nor their verdicts',
  async (t, database) => {
    const rows = Array.from({ length: 8 }, () => challenge(null))
    const broken = 5
    const sql = new Proxy(database.sql, {
      apply: (target, self, args: unknown[]) => {
        // A statement of ours, as the client makes it.
        const sent = Reflect.apply(target, self, args) as PromiseLike<Array<Record<string, unknown>>>
        if (!String(args[0]).includes('update')) return sent
        return sent.then(found =>
          found.map(row => (row['client_key'] === `client ${broken}` ? { ...row, created_at: null } : row))
        )
      }
    })
    const store = new ChallengeStore(withSql(database, sql))
    for (const [at, row] of rows.entries()) await store.insert(sql, { ...row, clientKey: `client ${at}` })
    const leased = await Promise.allSettled(
      rows.map(({ paymentHash }, at) => store.lease(sql, leaseOf(paymentHash, `l${at}`)))
    )
    t.same(
      leased.map(one => (one.status === 'fulfilled' ? verdict(one.value) : 'failed')),
      rows.map((_row, at) => (at === broken ? 'failed' : 'first'))
    )
  }
)

await eachDatabase(
  t,
  'a payment that another session holds locked blocks only those who want it',
  async (t, database) => {
    // The embedded database has a single connection.
    if (database.kind === 'pglite') return
    const store = new ChallengeStore(database)
    const rows = Array.from({ length: 12 }, () => challenge('7'))
    for (const row of rows) await store.insert(database.sql, row)
    const locked = rows[7]?.paymentHash ?? ''
    const claim = (paymentHash: string) =>
      store.claim({ onPaid: async () => {} }, { paymentHash, scheme: 'l402', now: NOW })
    const lease = (paymentHash: string) => store.lease(database.sql, leaseOf(paymentHash, 'l'))
    const spoilt: Array<Promise<unknown>> = []
    await database.transaction(async tx => {
      await tx`select 1 from challenges where payment_hash = ${locked} for update`
      for (const [at, take] of [lease, claim].entries()) {
        const half = rows.filter(({ paymentHash }, nth) => nth % 2 === at || paymentHash === locked)
        const taken = half.map(({ paymentHash }) => ({ paymentHash, verdict: outside(() => take(paymentHash)) }))
        const others = taken.filter(({ paymentHash }) => paymentHash !== locked)
        t.same(
          (await Promise.all(others.map(each => each.verdict))).map(verdict),
          others.map(() => 'first')
        )
        spoilt.push(...taken.filter(({ paymentHash }) => paymentHash === locked).map(each => each.verdict))
      }
    })
    t.same((await Promise.all(spoilt)).filter(one => one !== null).length, 1, 'and those had to wait')
  }
)

await eachDatabase(
  t,
  'new rows, looks for rows and counts share statements too, and each has its own answer',
  async (t, database) => {
    const statements: string[] = []
    const sql = new Proxy(database.sql, {
      apply: (target, self, args: unknown[]) => {
        statements.push(String(args[0]).trim().slice(0, 6))
        return Reflect.apply(target, self, args) as unknown
      }
    })
    const store = new ChallengeStore(withSql(database, sql))
    const rows = Array.from({ length: 20 }, (_none, at) => ({
      ...challenge(at % 2 === 0 ? null : '7'),
      ...(at % 3 === 0 ? { payment: null } : {}),
      digest: at % 5 === 0 ? `{"a",\\ ${at}}` : null,
      clientKey: `203.0.113.${at % 4}`,
      expiresAt: NOW + 600_000 + at
    }))
    const twice = rows[3]
    if (twice === undefined) throw new Error('there are twenty')
    const inserted = await Promise.allSettled([...rows, twice].map(row => store.insert(sql, row)))
    t.same(
      inserted.map(({ status }) => status),
      [...rows.map(() => 'fulfilled'), 'rejected'],
      'one that is there already fails alone'
    )
    const last = inserted.at(-1)
    t.ok(isUniqueViolation(last?.status === 'rejected' ? last.reason : null))
    t.same(statements, ['insert', 'insert'], 'the one that is there already waits for its payment hash')
    statements.length = 0
    const found = await Promise.all(['0'.repeat(64), ...rows.map(row => row.paymentHash)].map(hash => store.find(hash)))
    t.match(found, [null, ...rows])
    t.same(statements, ['select'])
    statements.length = 0
    const counted = await Promise.all(
      [0, 1, 2, 3, 9].map(client =>
        store.outstanding({
          clientKey: `203.0.113.${client}`,
          place: 'route:a',
          binding: 'b',
          requestLimit: 100,
          placeLimit: 4,
          now: NOW,
          since: 0,
          payableUntil: NOW
        })
      )
    )
    t.same(
      counted.map(({ recent, firstExpiry }) => [recent.map(({ paymentHash }) => paymentHash).sort(), firstExpiry]),
      [0, 1, 2, 3, 9].map(client => {
        const own = rows.filter((_row, at) => at % 4 === client).slice(0, 4)
        return [own.map(({ paymentHash }) => paymentHash).sort(), own[0]?.expiresAt ?? null]
      }),
      'of each client its own, those that expire first'
    )
    t.same(statements, ['select'])
  }
)

await eachDatabase(
  t,
  'a lease whose row another session holds locked ends no other by its heartbeat',
  async (t, database) => {
    // The embedded database has a single connection.
    if (database.kind === 'pglite') return
    const store = new ChallengeStore(database)
    const rows = Array.from({ length: 6 }, () => challenge(null))
    for (const row of rows) {
      await store.insert(database.sql, row)
      await store.lease(database.sql, leaseOf(row.paymentHash, 'l'))
    }
    const locked = rows[2]?.paymentHash ?? ''
    const later = new Date(NOW + 2 * UNTIL)
    const beats: Array<Promise<string[]>> = []
    await database.transaction(async tx => {
      await tx`select 1 from challenges where payment_hash = ${locked} for update`
      const keys = rows.map(({ paymentHash }) => ({ paymentHash, leaseId: 'l' }))
      beats.push(outside(() => store.extend('g', keys, later.getTime())))
      for (;;) {
        const [extended] = await tx<{ count: number }[]>`
        select count(*)::int as count from challenges where lease_until = ${later}`
        if (extended?.count === rows.length - 1) break
      }
    })
    t.equal((await Promise.all(beats)).flat().length, rows.length, 'and that one continues once its row is free')
  }
)
