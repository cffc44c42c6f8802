import t from 'tap'
import { numericId, rowId, systemRandom } from '../../../src/platform/system/ids.ts'

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

await t.test('a draw that would make some ids likelier is discarded', async t => {
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

await t.test('random bytes are handed out once, share no memory, and may be more than a block', async t => {
  const seen = new Set<string>()
  const kept: Array<readonly [Uint8Array, string]> = []
  for (let drawn = 0; drawn < 2_000; drawn++) {
    const bytes = systemRandom(1 + (drawn % 70))
    t.equal(bytes.length, 1 + (drawn % 70))
    t.equal(bytes.buffer.byteLength, bytes.length, 'adjacent memory cannot be reached')
    kept.push([bytes, Buffer.from(bytes).toString('hex')])
  }
  for (const [bytes, was] of kept) t.equal(Buffer.from(bytes).toString('hex'), was, 'later draws change nothing')
  for (const [, hex] of kept.filter(([bytes]) => bytes.length >= 16)) seen.add(hex.slice(0, 32))
  t.equal(seen.size, kept.filter(([bytes]) => bytes.length >= 16).length)
  t.not(Buffer.from(systemRandom(32)).equals(Buffer.alloc(32)), true)
  t.equal(systemRandom(0).length, 0)
  for (const length of [4_095, 4_096, 4_097, 100_000]) {
    const bytes = systemRandom(length)
    t.equal(bytes.length, length)
    t.ok(new Set(bytes).size > 200, 'all of it is random')
  }
})
