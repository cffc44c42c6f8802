import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BUDGET, efforts } from '../measure/efforts.ts'
import { partOf, renderPlan, secondsLeft, secondsOf, STOPPING, type PlannedPart, type Scale } from '../measure/plan.ts'
import { scenarios, studies } from '../scenarios/all.ts'

const partsOf = (scale: Scale): PlannedPart[] =>
  [...scenarios, ...studies].flatMap(one => partOf(one, { ...efforts[scale], rounds: 0 }) ?? [])

test('a quick run is planned to end within five minutes, and a full one within fifteen', () => {
  const [quick, full] = [secondsOf(partsOf('quick')), secondsOf(partsOf('full'))]
  assert.ok(quick < 280, `${quick} s`)
  assert.ok(full < 900, `${full} s`)
  assert.ok(BUDGET.quick < 300 && BUDGET.full < 900)
})

test('a full run leaves out what needs h2load alone, a quick one the large bodies too', () => {
  const all = [...scenarios, ...studies].map(({ id }) => id).filter(id => id !== 'over-tls')
  assert.deepEqual(
    partsOf('full').map(({ id }) => id),
    all
  )
  const quick = partsOf('quick').map(({ id }) => id)
  assert.deepEqual(
    all.filter(id => !quick.includes(id)),
    ['streamed']
  )
})

test('the seconds of a scenario are its starts, its compiling, and all of its windows', () => {
  const plan = {
    rounds: { quick: 2, full: 9 },
    targets: { quick: 3, full: 9 },
    warmed: 1,
    compiled: 3,
    prepare: { quick: 4, full: 9 }
  }
  const effort = {
    ...efforts.quick,
    rounds: 0,
    window: 1,
    warmUp: 1,
    openRounds: 1,
    loads: [0.5],
    compile: { requests: 1, seconds: 5 }
  }
  const part = partOf({ id: 'one', plan, latency: ['a', 'b'], once: null }, effort)
  assert.equal(part?.seconds.toFixed(2), (4 + 2 * 5 + 1.15 * (1 + 2 * 3 + 2)).toFixed(2))
})

test('the time left is derived from the remaining parts and what is left of the current one', () => {
  const parts = [
    { id: 'a', seconds: 10, words: '' },
    { id: 'b', seconds: 20, words: '' }
  ]
  assert.equal(secondsLeft(parts, 'a', 4), 6 + 20 + STOPPING)
  assert.equal(secondsLeft(parts, 'b', 30), STOPPING)
  assert.equal(secondsLeft(parts, '', 0), 0)
  assert.match(renderPlan(parts, 99), /\| \*\*all\*\* \| \*\*35\*\* \|/)
})
