import { spawnSync } from 'node:child_process'
import t from 'tap'
import { BufferCollector, collectorFlags, garbageCollector } from '../../../src/platform/system/collector.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MIB = 1024 * 1024

t.test('buffers are collected when 8 MiB more are there than after the last collection, and not before', async t => {
  const clock = new ManualClock()
  let used = 100 * MIB
  let collections = 0
  const timer = new BufferCollector(
    clock,
    () => {
      collections++
      used = 105 * MIB
    },
    () => 1,
    () => used
  )
  timer.begun()
  used += 7 * MIB
  clock.advance(1000)
  t.equal(collections, 0, 'much that is alive is no reason')
  used += MIB
  clock.advance(20)
  t.equal(collections, 1)
  clock.advance(1000)
  t.equal(collections, 1, 'surviving buffers are not checked again')
  used = 50 * MIB
  clock.advance(20)
  used += 8 * MIB
  clock.advance(20)
  t.equal(collections, 2, 'it counts from the least since')
  timer.cancel()
  used += 100 * MIB
  clock.advance(1000)
  t.equal(collections, 2)
})

t.test(
  'buffers are checked while a request is in flight and a tenth of a second longer, and not before the next',
  async t => {
    const clock = new ManualClock()
    let active = 0
    let polls = 0
    const collector = new BufferCollector(
      clock,
      () => {},
      () => active,
      () => ++polls
    )
    const looksIn = (ms: number) => {
      const before = polls
      clock.advance(ms)
      return polls - before
    }
    t.equal(looksIn(1000), 0, 'nothing has begun')
    active = 1
    collector.begun()
    collector.begun()
    t.equal(looksIn(1000), 200, 'each 5 ms, once')
    active = 0
    t.equal(looksIn(1000), 20, 'then it rests')
    t.equal(looksIn(60_000), 0)
    active = 1
    collector.begun()
    t.equal(looksIn(50), 10)
    collector.cancel()
    t.equal(looksIn(1000), 0)
  }
)

t.test('V8 gives its collector of the young to a process that was started without a flag', async t => {
  t.notOk(process.execArgv.includes('--expose-gc'))
  const collect = garbageCollector()
  t.doesNotThrow(collect)
  t.doesNotThrow(collect)
})

t.test('V8 knows each flag that a gateway sets', async t => {
  // A process refuses a flag that its V8 does not know; set later, it would be passed over without a word.
  const startWith = (...flags: string[]) => spawnSync(process.execPath, [...flags, '--eval', ''], { encoding: 'utf8' })
  const { status, stderr } = startWith(...collectorFlags())
  t.equal(status, 0, stderr)
  t.not(startWith('--no-such-flag').status, 0)
})
