import t, { type Test as T } from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'

const DAY = 86_400_000

/** Takes the place of Node's timers, which ring after a millisecond when they are set to more than 2^31 - 1 of them. */
function timers(t: T) {
  const waiting = new Map<object, { at: number; run: () => void }>()
  let now = 0
  const set = (run: () => void, ms: number) => {
    const handle = { unref: () => handle }
    waiting.set(handle, { at: now + (ms > 2 ** 31 - 1 ? 1 : ms), run })
    return handle
  }
  const clear = (handle: object) => {
    waiting.delete(handle)
  }
  t.intercept(globalThis, 'setTimeout', { value: set })
  t.intercept(globalThis, 'clearTimeout', { value: clear })
  return {
    waiting,
    pass(ms: number) {
      const end = now + ms
      for (;;) {
        const [first] = [...waiting].sort(([, a], [, b]) => a.at - b.at)
        if (first === undefined || first[1].at > end) break
        waiting.delete(first[0])
        now = first[1].at
        first[1].run()
      }
      now = end
    }
  }
}

t.test('a wait of months is as long as it says', async t => {
  const { waiting, pass } = timers(t)
  let rung = 0
  systemClock.after(60 * DAY, () => {
    rung++
  })
  pass(60 * DAY - 1)
  t.equal(rung, 0)
  pass(1)
  t.equal(rung, 1)
  t.equal(waiting.size, 0)
})

t.test('a monthly job runs every month, until it is canceled', async t => {
  const { waiting, pass } = timers(t)
  let rung = 0
  const timer = systemClock.every(30 * DAY, () => {
    rung++
  })
  pass(90 * DAY)
  t.equal(rung, 3)
  timer.cancel()
  t.equal(waiting.size, 0)
})
