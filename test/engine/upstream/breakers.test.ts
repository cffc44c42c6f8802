import t from 'tap'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import { UpstreamBreakers } from '../../../src/engine/upstream/breakers.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { contextOf, targetOf } from './harness.ts'

const TARGET = targetOf('http://127.0.0.1:9', { tenant: '' })
const A = '203.0.113.1'
const B = '198.51.100.1'
const from = (clientAddress: string, headers: string[] = []) => {
  const ctx = contextOf({ clientAddress, headers })
  ctx.upstreamTarget = TARGET
  return ctx
}
const paying = (clientAddress: string) => from(clientAddress, ['Authorization', 'L402 a:b'])

/** Seconds that a refusal says, 0 where there is none. */
function wait(ask: () => void) {
  try {
    ask()
    return 0
  } catch (error) {
    if (error instanceof Unavailable) return Number(error.headers[1])
    throw error
  }
}

t.test(
  'an upstream that is not there is left alone after five failures, and tried by one request at a time',
  async t => {
    const clock = new ManualClock()
    const breakers = new UpstreamBreakers(clock)
    for (let failure = 0; failure < 4; failure++) breakers.failed(from(A), TARGET, true)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      0
    )
    breakers.failed(from(A), TARGET, true)
    for (const ask of [
      () => breakers.enter(from(A), TARGET),
      () => breakers.enter(from(B), TARGET),
      () => breakers.requireSellable(paying(B))
    ])
      t.equal(wait(ask), 5)
    breakers.failed(from(A), TARGET, true)
    clock.advance(4_100)
    t.equal(
      wait(() => breakers.enter(from(B), TARGET)),
      1,
      'requests in flight do not prolong the pause'
    )
    clock.advance(900)
    t.equal(
      wait(() => breakers.enter(from(B), TARGET)),
      0,
      'one tries it'
    )
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      30,
      'the others wait'
    )
    breakers.left(from(B), TARGET)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      0,
      'its client left, and another one tries'
    )
    breakers.failed(from(A), TARGET, true)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      10,
      'the pause doubles'
    )
    clock.advance(10_000)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      0
    )
    breakers.failed(from(A), TARGET, true)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      20
    )
    clock.advance(20_000)
    t.equal(
      wait(() => breakers.enter(from(A), TARGET)),
      0
    )
    breakers.answered(from(A), TARGET)
    for (const client of [A, B])
      t.equal(
        wait(() => breakers.enter(from(client), TARGET)),
        0,
        'it answers again'
      )
  }
)

t.test('after the pause one request a pause is sold, and paid requests are served immediately', async t => {
  const clock = new ManualClock()
  const breakers = new UpstreamBreakers(clock)
  for (let failure = 0; failure < 5; failure++) breakers.failed(from(A), TARGET, true)
  t.equal(
    wait(() => breakers.requireSellable(from(A))),
    5
  )
  clock.advance(5_000)
  t.equal(
    wait(() => breakers.requireSellable(from(A))),
    0
  )
  t.equal(
    wait(() => breakers.requireSellable(from(B))),
    5
  )
  for (const paid of [paying(B), from(B, ['PAYMENT-SIGNATURE', 'e30='])])
    t.equal(
      wait(() => breakers.requireSellable(paid)),
      0
    )
  clock.advance(5_000)
  t.equal(
    wait(() => breakers.requireSellable(from(B))),
    0
  )
})

t.test('failures that a client can provoke close an upstream for that client alone', async t => {
  const clock = new ManualClock()
  const breakers = new UpstreamBreakers(clock)
  for (let failure = 0; failure < 5; failure++) breakers.failed(from(A), TARGET, false)
  t.equal(
    wait(() => breakers.enter(from(A), TARGET)),
    5
  )
  t.equal(
    wait(() => breakers.enter(from(B), TARGET)),
    0
  )
  breakers.answered(from(B), TARGET)
  t.equal(
    wait(() => breakers.enter(from(A), TARGET)),
    0,
    'the upstream answers others'
  )
  for (let failure = 0; failure < 5; failure++) breakers.failed(from(failure === 2 ? B : A), TARGET, false)
  t.equal(
    wait(() => breakers.enter(from('192.0.2.1'), TARGET)),
    5,
    'several clients had it'
  )
})
