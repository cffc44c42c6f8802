/** Outcome of a lease whose gateway died (decision 183). */
import t from 'tap'
import { comesBack, isSpentByCrash } from '../../../src/selling/holding/paid-responses.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { fixtureOn, freshAddress, offer } from '../challenges/fixture.ts'

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
  const now = f.clock.now()
  const mint = async (path: string) =>
    (await f.selling.minting.mint(offer({ path, tokenPath: path }), { clientKey: freshAddress(), digest: null }))
      .challenge
  const [final, plain] = [await mint('/a'), await mint('/b')]
  for (const [challenge, lease] of [
    [final, true],
    [plain, false]
  ] as const) {
    t.ok(
      await store.lease(
        database.sql,
        { paymentHash: challenge.paymentHash, leaseId: `dead ${lease}`, isFinal: lease },
        'dead',
        now + 20_000,
        now
      )
    )
  }
  const later = now + 20_001
  t.equal(
    await store.lease(
      database.sql,
      { paymentHash: final.paymentHash, leaseId: 'next' },
      'other',
      later + 20_000,
      later
    ),
    null,
    'cannot be taken again'
  )
  t.equal(
    await store.consume(database.sql, { paymentHash: final.paymentHash, leaseId: 'next' }, 'other', later),
    null,
    'nor consumed'
  )
  t.ok(
    await store.lease(
      database.sql,
      { paymentHash: plain.paymentHash, leaseId: 'next' },
      'other',
      later + 20_000,
      later
    ),
    'another one can'
  )
  t.equal(await store.spendLapsed(now + 19_999, 0, 10), 0, 'not before it has lapsed')
  t.equal(await store.spendLapsed(later, 0, 10), 1)
  t.equal(await store.spendLapsed(later, 0, 10), 0, 'once')
  t.match(await store.find(final.paymentHash), { state: 'spent' })
  t.match(await store.ambiguous({ skip: 0, take: 10 }), [
    { paymentHash: final.paymentHash, gateway: 'dead', amountSats: final.amountSats, lapsedAt: later, method: 'GET' }
  ])
  t.same(await store.ambiguous({ skip: 1, take: 10 }), [])
  // Its holder was only cut off from the database, and hears at last that nothing was sold.
  await store.release([{ paymentHash: final.paymentHash, leaseId: 'dead true' }])
  t.match(await store.find(final.paymentHash), { state: 'unspent' })
  const again = await store.lease(
    database.sql,
    { paymentHash: final.paymentHash, leaseId: 'third' },
    'other',
    later + 20_000,
    later
  )
  t.equal(again?.returns, 0)
  await store.release([{ paymentHash: final.paymentHash, leaseId: 'third', isCounted: true }])
  t.equal(
    (
      await store.lease(
        database.sql,
        { paymentHash: final.paymentHash, leaseId: 'fourth' },
        'other',
        later + 20_000,
        later
      )
    )?.returns,
    1,
    'returns are counted'
  )
})
