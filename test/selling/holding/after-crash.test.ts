/** Outcome of a lease whose gateway died (decision 183). */
import t from 'tap'
import type { NewLease } from '../../../src/selling/holding/challenge.ts'
import { comesBack, isSpentByCrash } from '../../../src/selling/holding/paid-responses.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixtureOn, minted } from '../challenges/fixture.ts'

void t.test('safe methods are given back and others spent, unless the route says otherwise', async t => {
  const rows = [
    ['GET', 'by-method', false],
    ['HEAD', 'by-method', false],
    ['OPTIONS', 'by-method', false],
    ['TRACE', 'by-method', false],
    ['POST', 'by-method', true],
    ['PUT', 'by-method', true],
    ['DELETE', 'by-method', true],
    ['PATCH', 'by-method', true],
    ['get', 'by-method', true],
    ['GET', 'spend', true],
    ['POST', 'release', false]
  ] as const
  for (const [method, afterCrash, final] of rows)
    t.equal(isSpentByCrash({ method, afterCrash }), final, `${method} ${afterCrash}`)
  t.ok(comesBack({ method: 'POST', releaseOn: ['client-gone'] }, 1))
  t.notOk(comesBack({ method: 'POST', releaseOn: ['client-gone'] }, 2))
  t.ok(comesBack({ method: 'GET', releaseOn: ['client-gone'] }, 1_000))
  t.notOk(comesBack({ method: 'GET', releaseOn: ['4xx', '5xx'] }, 0))
})

void eachDatabase(t, 'a final lease that has lapsed', async (t, database) => {
  const f = fixtureOn(t, database, new ManualClock())
  const { challengeStore: store } = f.selling
  const begun = f.clock.now()
  const later = begun + 20_001
  const [final, plain] = [await minted(f), await minted(f)]
  const lease = (key: NewLease, now = later) =>
    store.lease(database.sql, { ...key, gateway: 'dead', until: now + 20_000, now })
  const { paymentHash } = final
  t.ok(await lease({ paymentHash, leaseId: 'final', isFinal: true }, begun))
  t.ok(await lease({ paymentHash: plain.paymentHash, leaseId: 'plain' }, begun))
  t.equal(await lease({ paymentHash, leaseId: 'next' }), null, 'cannot be taken again')
  const next = { paymentHash, leaseId: 'next', gateway: 'other', now: later }
  t.equal(await store.consume(database.sql, next), null, 'nor consumed')
  t.ok(await lease({ paymentHash: plain.paymentHash, leaseId: 'next' }), 'another one can')
  t.equal(await store.spendLapsed(begun + 19_999, 0, 10), 0, 'not before it has lapsed')
  t.equal(await store.spendLapsed(later, 0, 10), 1)
  t.equal(await store.spendLapsed(later, 0, 10), 0, 'once')
  t.match(await store.find(paymentHash), { state: 'spent' })
  t.match(await store.ambiguous({ skip: 0, take: 10 }), [
    { paymentHash, gateway: 'dead', amountSats: final.amountSats, lapsedAt: later, method: 'GET' }
  ])
  t.same(await store.ambiguous({ skip: 1, take: 10 }), [])
  // Its holder was only cut off from the database, and hears at last that nothing was sold.
  await store.release([{ paymentHash, leaseId: 'final' }])
  t.match(await store.find(paymentHash), { state: 'unspent' })
  t.match(await lease({ paymentHash, leaseId: 'third' }), { returns: 0 })
  await store.release([{ paymentHash, leaseId: 'third', isCounted: true }])
  t.match(await lease({ paymentHash, leaseId: 'fourth' }), { returns: 1 }, 'returns are counted')
})
