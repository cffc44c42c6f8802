import assert from 'node:assert/strict'
import { test } from 'node:test'
import { percentiles, spreadOf } from '../measure/statistics.ts'

test('a median of an even number of rounds is between the two in the middle', () => {
  assert.deepEqual(spreadOf([4, 1, 3, 2]), { median: 2.5, low: 1, high: 4 })
  assert.deepEqual(spreadOf([30, 10, 20]), { median: 20, low: 10, high: 30 })
  assert.equal(spreadOf([]), null)
})

test('percentiles are measured values, by nearest rank', () => {
  const samples = Array.from({ length: 1000 }, (_, at) => 1000 - at)
  assert.deepEqual(percentiles(samples), { p50: 500, p99: 990, p999: 999 })
  assert.deepEqual(percentiles([7]), { p50: 7, p99: 7, p999: 7 })
})
