import t from 'tap'
import { JobLooks, type Due } from '../../src/jobs/looks.ts'
import { silentLog, type Log } from '../../src/telemetry/log.ts'

// The looks' own timers do not keep a process that has nothing else to do.
const held = setInterval(() => {}, 60_000)
t.teardown(() => {
  clearInterval(held)
})

/** Looks that find one answer after the other; the last is an answer for ever. */
function looks(
  answers: ReadonlyArray<readonly Due[] | Error>,
  parts: { readonly most?: number; readonly log?: Log } = {}
): { readonly looks: JobLooks; readonly woken: Promise<string>; asked(): number } {
  const woken = Promise.withResolvers<string>()
  let asked = 0
  return {
    looks: new JobLooks({
      log: parts.log ?? silentLog,
      most: parts.most ?? 60_000,
      due: async () => {
        const answer = answers[Math.min(asked++, answers.length - 1)] ?? []
        if (answer instanceof Error) throw answer
        return answer
      },
      wake: name => {
        woken.resolve(name)
      }
    }),
    woken: woken.promise,
    asked: () => asked
  }
}

t.test('a job is looked for when it is due, and nothing is asked in between', async t => {
  const one = looks([
    [
      { name: 'a', inMs: 30 },
      { name: 'b', inMs: 40_000 }
    ],
    [
      { name: 'a', inMs: -1 },
      { name: 'b', inMs: 39_000 }
    ]
  ])
  one.looks.soon(0)
  t.equal(await one.woken, 'a')
  t.equal(one.asked(), 2)
  await one.looks.close()
})

t.test('a job that is added and due sooner than the next look brings it forward', async t => {
  const one = looks([[{ name: 'added', inMs: 0 }]])
  one.looks.soon(40_000)
  one.looks.soon(20)
  one.looks.soon(10_000)
  one.looks.soon(30)
  t.equal(one.asked(), 0)
  one.looks.soon(10)
  t.equal(await one.woken, 'added', 'long before the 40 s')
  t.equal(one.asked(), 1, 'once, however often it was brought forward')
  await one.looks.close()
})

t.test('what other processes have added is found in the stated time, also after looks that found nothing', async t => {
  const one = looks([[], [], [{ name: 'theirs', inMs: -500 }]], { most: 10 })
  one.looks.soon(0)
  t.equal(await one.woken, 'theirs')
  t.equal(one.asked(), 3)
  await one.looks.close()
})

t.test('a look that fails is told and done again', async t => {
  const warnings: string[] = []
  const log = {
    ...silentLog,
    warn: (_first: object | string, message?: string) => {
      warnings.push(message ?? '')
    }
  }
  const one = looks([new Error('broken'), [{ name: 'a', inMs: 0 }]], { log, most: 10 })
  one.looks.soon(0)
  t.equal(await one.woken, 'a')
  t.same(warnings, ['no jobs could be looked for; it is tried again'])
  await one.looks.close()
})
