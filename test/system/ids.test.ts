import t from 'tap'
import { freshId, numericId, randomToken, rowId } from '../../src/system/ids.ts'

await t.test('numeric ids have 15 digits without a leading zero, and use the whole range', async t => {
  const seen = new Set<string>()
  for (let i = 0; i < 2_000; i++) {
    const id = numericId()
    t.match(id, /^[1-9]\d{14}$/)
    seen.add(id)
  }
  t.equal(seen.size, 2_000)
  t.equal(
    numericId(() => new Uint8Array(8)),
    '100000000000000'
  )
})

await t.test('a draw that would make some ids likelier is thrown away', async t => {
  let draws = 0
  const id = numericId(length => {
    draws++
    return new Uint8Array(length).fill(draws === 1 ? 255 : 0)
  })
  t.equal(draws, 2)
  t.equal(id, '100000000000000')
})

await t.test('row ids sort by time', async t => {
  const ids = [rowId(2_000), rowId(1_000), rowId(3_000)]
  t.same(ids.toSorted(), [ids[1], ids[0], ids[2]])
  t.match(rowId(1_000), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

await t.test('correlation ids and tokens', async t => {
  t.match(freshId(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.match(randomToken(32), /^[\w-]{43}$/)
  t.not(randomToken(32), randomToken(32))
})
