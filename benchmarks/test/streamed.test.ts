import assert from 'node:assert/strict'
import { test } from 'node:test'
import { figuresOf } from '../scenarios/streamed.ts'

const MIB = 2 ** 20
const GIB = 2 ** 30

function valueOf(samples: readonly number[], figure: string): number | undefined {
  return figuresOf({ samples: samples.map(value => value * MIB), seconds: 4, cpu: 3_000_000 }, 100 * MIB, 2 * GIB)[
    figure
  ]?.values[0]
}

test('memory is reported as its peak above rest, and as what the second half needs more than the first', () => {
  assert.equal(valueOf([110, 130, 120, 125], 'highest above rest'), 30)
  assert.equal(valueOf([110, 130, 120, 125], 'second half above first'), -5)
  assert.equal(valueOf([110, 120, 130, 140, 150], 'second half above first'), 20)
  assert.equal(valueOf([90], 'second half above first'), 0)
  assert.equal(valueOf([90], 'highest above rest'), -10)
})

test('speed and CPU are reported per byte that flowed', () => {
  assert.equal(valueOf([100, 100], 'MiB/s'), 512)
  assert.equal(valueOf([100, 100], 'CPU for each GiB'), 1500)
})
