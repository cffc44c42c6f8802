import t from 'tap'
import { RequestsUnderWay } from '../../../src/selling/balances/metered-charge.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function full(): { underWay: RequestsUnderWay; clock: ManualClock } {
  const clock = new ManualClock()
  const underWay = new RequestsUnderWay(clock)
  for (let n = 0; n < 16; n++) if (underWay.enter('a') !== null) throw new Error(`request ${n} waits`)
  return { underWay, clock }
}

t.test('requests of one balance: the 17th waits for its turn', async t => {
  const { underWay } = full()
  t.equal(underWay.enter('b'), null, 'another balance does not')
  const [first, second] = [underWay.enter('a'), underWay.enter('a')]
  underWay.leave('a', false)
  t.equal(await first, true)
  underWay.leave('a', false)
  t.equal(await second, true)
  for (let n = 0; n < 16; n++) underWay.leave('a', false)
  t.equal(underWay.enter('a'), null)
})

t.test('requests of one balance: none that waits goes on after the balance ran short', async t => {
  const { underWay } = full()
  const waiting = [underWay.enter('a'), underWay.enter('a')]
  underWay.leave('a', true)
  t.same(await Promise.all(waiting), [false, false])
  t.equal(underWay.enter('a'), null, 'the place is free')
  t.ok(underWay.enter('a'), 'and no more than one')
  underWay.leave('a', false)
})

t.test('requests of one balance: 429 after 30 seconds, and at once when 64 wait', async t => {
  const { underWay, clock } = full()
  const waiting = Array.from({ length: 64 }, () => underWay.enter('a'))
  const refused = await Promise.resolve(underWay.enter('a')).catch((error: unknown) => error)
  t.match(refused, { status: 429, headers: ['Retry-After', '5'] })
  const late = Promise.allSettled(waiting)
  clock.advance(30_000)
  t.ok((await late).every(({ status }) => status === 'rejected'))
  underWay.leave('a', false)
  t.equal(underWay.enter('a'), null, 'none of them holds a place')
})
