import t from 'tap'
import { ConcurrencyLimit } from '../../../src/selling/balances/metered-charge.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function full(): { inFlight: ConcurrencyLimit; clock: ManualClock } {
  const clock = new ManualClock()
  const inFlight = new ConcurrencyLimit(clock)
  for (let n = 0; n < 16; n++) if (inFlight.enter('a') !== null) throw new Error(`request ${n} waits`)
  return { inFlight, clock }
}

t.test('requests of one balance: the 17th waits', async t => {
  const { inFlight } = full()
  t.equal(inFlight.enter('b'), null, 'another balance does not')
  const [first, second] = [inFlight.enter('a'), inFlight.enter('a')]
  inFlight.leave('a', false)
  t.equal(await first, true)
  inFlight.leave('a', false)
  t.equal(await second, true)
  for (let n = 0; n < 16; n++) inFlight.leave('a', false)
  t.equal(inFlight.enter('a'), null)
})

t.test('requests of one balance: no waiter continues after the balance ran short', async t => {
  const { inFlight } = full()
  const waiting = [inFlight.enter('a'), inFlight.enter('a')]
  inFlight.leave('a', true)
  t.same(await Promise.all(waiting), [false, false])
  t.equal(inFlight.enter('a'), null, 'the place is free')
  t.ok(inFlight.enter('a'), 'and no more than one')
  inFlight.leave('a', false)
})

t.test('requests of one balance: 429 after 30 seconds, and immediately when 64 wait', async t => {
  const { inFlight, clock } = full()
  const waiting = Array.from({ length: 64 }, () => inFlight.enter('a'))
  const refused = await Promise.resolve(inFlight.enter('a')).catch((error: unknown) => error)
  t.match(refused, { status: 429, headers: ['Retry-After', '5'] })
  const late = Promise.allSettled(waiting)
  clock.advance(30_000)
  t.ok((await late).every(({ status }) => status === 'rejected'))
  inFlight.leave('a', false)
  t.equal(inFlight.enter('a'), null, 'no request holds a place')
})
