import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { realTimeRank } from '../rig/affinity.ts'
import { cpuOfMachine, cpuOfRun, cpuOfTree, parseSchedstat, parseStat, ProcessClock } from '../rig/cpu.ts'

test('fields of stat are counted from the end of a name that has spaces and parentheses', () => {
  const line = '42 (a (b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 5 0 987654 1000 200'
  assert.deepEqual(parseStat(42, line), { pid: 42, parent: 7, own: 33, reaped: 77, began: 987654 })
})

test('schedstat counts nanoseconds', () => {
  assert.equal(parseSchedstat('68042439 28910596 271\n'), 68042.439)
})

const TICK = 10_000

test('a process whose threads live on is counted by them, however its ticks are cut off', () => {
  const clock = new ProcessClock()
  const begin = clock.read(1_000_500, 990_000, TICK)
  assert.equal(clock.read(1_003_500, 1_000_000, TICK) - begin, 3_000)
  assert.equal(clock.read(1_023_500, 1_010_000, TICK) - begin, 23_000)
})

test('the CPU time of an ended thread stays counted, to two ticks', () => {
  const clock = new ProcessClock()
  // Two threads of a second each; then one uses half a second more and ends, and the other a tenth.
  const begin = clock.read(2_000_000, 1_990_000, TICK)
  const used = clock.read(1_100_000, 2_600_000, TICK) - begin
  assert.ok(Math.abs(used - 600_000) <= 2 * TICK, `counted ${used}`)
  // Afterwards the living one counts to the microsecond again.
  const after = clock.read(1_100_000, 2_600_000, TICK)
  assert.equal(clock.read(1_100_321, 2_600_000, TICK) - after, 321)
})

test('threads that had ended before the first look are no part of a difference', () => {
  const clock = new ProcessClock()
  const begin = clock.read(1_000_000, 5_000_000, TICK)
  assert.equal(clock.read(1_000_700, 5_010_000, TICK) - begin, 700)
})

test('without schedstat, ticks are what there is', () => {
  assert.equal(new ProcessClock().read(null, 120_000, TICK), 120_000)
})

test('a tree holds what its members use, and the run holds its children before and after their end', async () => {
  const before = cpuOfRun()
  const child = spawn(process.execPath, [
    '-e',
    'const end = process.cpuUsage().user + 2e5; while (process.cpuUsage().user < end); console.log("spent"); process.stdin.resume()'
  ])
  const { pid } = child
  assert.ok(pid !== undefined)
  await once(child.stdout, 'data')
  assert.ok(cpuOfTree(pid) >= 200_000)
  assert.ok(cpuOfRun() - before >= 200_000)
  child.stdin.end()
  await once(child, 'close')
  assert.equal(cpuOfTree(pid), 0)
  assert.ok(cpuOfRun() - before >= 180_000, 'its usage has moved to its parent')
  assert.ok(cpuOfMachine() > 0)
})

test('the rank in the real-time class is read from stat', () => {
  const line = `42 (a (b) c) S ${Array.from({ length: 36 }, (_, at) => at).join(' ')} 5 2 0`
  assert.equal(realTimeRank(line), 5)
})
