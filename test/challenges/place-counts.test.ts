import t from 'tap'
import { PlaceCounts } from '../../src/challenges/place-counts.ts'
import { RateLimited } from '../../src/gateway/errors.ts'
import { fixture, freshAddress, offer } from './fixture.ts'

t.test('a count serves for a second and an eighth of what is left, and not near the cap', async t => {
  const counts = new PlaceCounts(false)
  t.notOk(counts.isFar('a', 1000, 0), 'nothing is known')
  counts.counted('a', 1000, 200, 5_000)
  t.ok(counts.isFar('a', 1000, 5_999))
  t.notOk(counts.isFar('a', 1000, 6_000), 'too old')
  t.notOk(counts.isFar('a', 1000, 4_999), 'a clock that went back')
  t.notOk(counts.isFar('a', 999, 5_000), 'another cap')
  t.notOk(counts.hasRoom('a', 999))
  t.notOk(counts.isFar('b', 1000, 5_000), 'another place')
  for (let made = 0; made < 99; made++) counts.began('a')
  t.ok(counts.isFar('a', 1000, 5_000))
  counts.began('a')
  t.notOk(counts.isFar('a', 1000, 5_000), 'its share is used')
  for (let made = 100; made < 799; made++) counts.began('a')
  t.ok(counts.hasRoom('a', 1000), 'one who waited')
  counts.began('a')
  t.notOk(counts.hasRoom('a', 1000), 'the cap')
  counts.counted('a', 1000, 873, 6_000)
  t.notOk(counts.isFar('a', 1000, 6_000), 'near the cap')
  t.notOk(counts.hasRoom('a', 1000))
})

t.test('where no other process has the database a count serves for a minute, and no further otherwise', async t => {
  const counts = new PlaceCounts(true)
  counts.counted('a', 1000, 200, 5_000)
  t.ok(counts.isFar('a', 1000, 64_999))
  t.notOk(counts.isFar('a', 1000, 65_000), 'too old')
  for (let made = 0; made < 100; made++) counts.began('a')
  t.notOk(counts.isFar('a', 1000, 5_000), 'its share is used')
})

t.test('one process never overshoots a cap, whether it counts or not, one after the other or at once', async t => {
  const cap = 240
  const f = await fixture(t, { maxPerPlace: cap })
  const place = offer({ place: `place ${freshAddress()}` })
  const mint = () => f.challenges.mint(place, { clientKey: freshAddress(), digest: null }).then(() => 'made', (error: unknown) => {
    if (error instanceof RateLimited) return 'refused'
    throw error
  })
  for (let made = 0; made < 20; made++) t.equal(await mint(), 'made')
  const results = await Promise.all(Array.from({ length: 230 }, mint))
  const rows = await f.database.sql<{ open: number }[]>`select count(*)::int as open from challenges where place = ${place.place}`
  t.equal(rows[0]?.open, 20 + results.filter(result => result === 'made').length)
  t.ok((rows[0]?.open ?? Infinity) <= cap, `${rows[0]?.open} open`)
  for (let more = rows[0]?.open ?? 0; more < cap; more++) t.equal(await mint(), 'made')
  t.equal(await mint(), 'refused')
  t.equal(await mint(), 'refused')
  f.clock.advance(600_001)
  t.equal(await mint(), 'made', 'room again once they have expired')
})
