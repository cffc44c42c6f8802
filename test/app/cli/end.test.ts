import t from 'tap'
import { endAtLatest } from '../../../src/app/cli/end.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.test('a gateway whose stop hangs is ended with code 1, 20 seconds after its last request had to be over', async t => {
  const clock = new ManualClock()
  const errors: string[] = []
  const log: Log = {
    ...silentLog,
    error: (_fields: object | string, message?: string) => {
      errors.push(message ?? '')
    }
  }
  const before = process.exitCode
  let code: typeof process.exitCode = before
  endAtLatest(30_000, log, clock, () => {
    code = process.exitCode
    process.exitCode = before
    return new Promise(() => {})
  })
  clock.advance(49_999)
  t.equal(code, before)
  t.same(errors, [])
  clock.advance(1)
  t.equal(code, 1)
  t.same(errors, ['the gateway could not be closed in time: it is ended'])
})
