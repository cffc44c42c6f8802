import { spawnSync } from 'node:child_process'
import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
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

t.test(
  'collecting the young stays what it is while V8 marks the whole heap: it never becomes a collection of everything',
  async t => {
    const collectYoung = garbageCollector()
    const whole: number[] = []
    const note = (entries: readonly PerformanceEntry[]) => {
      for (const entry of entries) {
        // An entry of `gc` says these of itself.
        const {
          duration,
          detail: { kind, flags = 0 }
        } = entry as PerformanceEntry & { readonly detail: { readonly kind: number; readonly flags?: number } }
        if (kind === constants.NODE_PERFORMANCE_GC_MAJOR && (flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0)
          whole.push(duration)
      }
    }
    const observer = new PerformanceObserver(list => {
      note(list.getEntries())
    })
    observer.observe({ entryTypes: ['gc'] })
    // Enough to mark that marking takes a while, and buffers that live long enough to count as old: they make V8 begin
    // it.
    const alive = Array.from({ length: 300_000 }, (_, n) => ({ n, text: `${n}` }))
    const ring: Buffer[] = []
    for (let n = 0; n < 3_000; n++) {
      ring[n % 400] = Buffer.alloc(64 * 1024)
      if (n % 20 === 0) collectYoung()
      if (n % 5 === 0) await setImmediate()
    }
    note(observer.takeRecords())
    observer.disconnect()
    t.equal(alive.length, 300_000)
    t.same(whole, [])
  }
)

t.test('V8 knows each flag that a gateway sets', async t => {
  // A process refuses a flag that its V8 does not know; set later, it would be passed over without a word.
  const startWith = (...flags: string[]) => spawnSync(process.execPath, [...flags, '--eval', ''], { encoding: 'utf8' })
  const { status, stderr } = startWith(...collectorFlags())
  t.equal(status, 0, stderr)
  t.not(startWith('--no-such-flag').status, 0)
})
