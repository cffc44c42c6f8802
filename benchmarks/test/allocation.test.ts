import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allocatedBetweenCollections } from '../measure/allocation.ts'

test('allocated bytes are the growth between collections', () => {
  const line = (before: string, after: string): string =>
    `[42:0x1234:0]      812 ms: Scavenge ${before} (38.2) -> ${after} (38.5) MB, pooled: 0 MB, 1.20 / 0.00 ms  (average mu = 1.000) task;\n`
  assert.equal(
    allocatedBetweenCollections(
      `{"log":1}\n${line('20.0', '10.0')}{"log":2}\n${line('22.0', '11.0')}${line('21.0', '10.0')}`
    ),
    22 * 2 ** 20
  )
  assert.equal(allocatedBetweenCollections(line('20.0', '10.0')), null)
  assert.equal(allocatedBetweenCollections(''), null)
})
