import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Rerun } from '../../../src/platform/system/rerun.ts'

t.test('one run at a time, and one more for everything that was asked for meanwhile', async t => {
  const ends: (() => void)[] = []
  const rerun = new Rerun(() => new Promise<void>(resolve => ends.push(resolve)))
  const first = rerun.run()
  const later = Promise.all([rerun.run(), rerun.run()])
  t.equal(ends.length, 1)
  ends[0]?.()
  await Promise.resolve()
  t.equal(ends.length, 2)
  ends[1]?.()
  await Promise.all([first, later, rerun.ended()])
  t.equal(ends.length, 2)
})

t.test('requests at any step of the end of a run start another', async t => {
  for (let steps = 0; steps < 8; steps++) {
    let runs = 0
    let pending: Promise<void> | null = null
    const rerun = new Rerun(async () => {
      if (++runs > 1) return
      const ask = (left: number) => {
        if (left > 0) queueMicrotask(() => ask(left - 1))
        else pending = rerun.run()
      }
      await Promise.resolve()
      queueMicrotask(() => ask(steps))
    })
    await rerun.run()
    await setImmediate()
    await pending
    t.equal(runs, 2, `${steps} steps after its last one`)
  }
})

t.test('after a run that failed it runs again', async t => {
  let runs = 0
  const rerun = new Rerun(async () => {
    await Promise.resolve()
    if (++runs === 1) throw new Error('no')
  })
  await t.rejects(rerun.run(), { message: 'no' })
  await rerun.ended()
  await rerun.run()
  t.equal(runs, 2)
})
