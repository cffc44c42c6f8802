import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { ChargePolls } from '../../../src/selling/holding/charge-polls.ts'
import type { Challenge } from '../../../src/selling/holding/challenge.ts'
import type { ChargeState } from '../../../src/lightning/provider-calls/provider.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function fixture(lookUp: () => Promise<Pick<ChargeState, 'status'> | null>) {
  const clock = new ManualClock()
  const settled: string[] = []
  let requests = 0
  const looks = new ChargePolls({
    clock,
    log: silentLog,
    lookUp: async () => {
      requests++
      // Only the status is read.
      return (await lookUp()) as ChargeState | null
    },
    countedOf: ({ merchantId }) => String(merchantId),
    settled: async hash => {
      settled.push(hash)
    }
  })
  // Only these members are read.
  const challenge = (paymentHash: string, clientKey = '203.0.113.1', merchantId = '1') =>
    ({ paymentHash, clientKey, merchantId, createdAt: clock.now() }) as Challenge
  return { clock, looks, settled, challenge, asked: () => requests }
}

t.test("the provider's status of a charge is returned, and that it was paid is recorded", async t => {
  for (const [status, isPaid] of [
    ['paid', true],
    ['open', false],
    [null, false]
  ] as const) {
    // Any other status is one that is not paid.
    const { looks, challenge, settled } = fixture(async () => (status === null ? null : { status: status as 'paid' }))
    t.equal(await looks.isPaid(challenge('a')), isPaid, String(status))
    t.same(settled, isPaid ? ['a'] : [])
  }
})

t.test('one charge is looked up every three seconds in its first minute, and every ten after that', async t => {
  const { looks, challenge, clock, asked: requests } = fixture(async () => null)
  const one = challenge('a')
  for (let second = 0; second < 60; second++) {
    await looks.isPaid(one)
    clock.advance(1000)
  }
  t.equal(requests(), 20)
  for (let second = 0; second < 60; second++) {
    await looks.isPaid(one)
    clock.advance(1000)
  }
  t.equal(requests(), 26)
})

t.test('one network cannot use up the polls of the others', async t => {
  const { looks, challenge, asked: requests } = fixture(async () => null)
  for (let at = 0; at < 100; at++) await looks.isPaid(challenge(`charge ${at}`))
  t.equal(requests(), 60)
  for (let at = 0; at < 20; at++) await looks.isPaid(challenge(`other ${at}`, '198.51.100.1'))
  t.equal(requests(), 70)
  for (let at = 0; at < 100; at++) await looks.isPaid(challenge(`many ${at}`, `192.0.2.${at}`))
  t.equal(requests(), 90, 'all together')
})

t.test('readers of one account leave those of the others their polls', async t => {
  const { looks, challenge, clock, asked: requests } = fixture(async () => null)
  for (let at = 0; at < 200; at++) await looks.isPaid(challenge(`charge ${at}`, `192.0.2.${at}`))
  t.equal(requests(), 90)
  for (let at = 0; at < 20; at++) await looks.isPaid(challenge(`other ${at}`, '198.51.100.1', '2'))
  t.equal(requests(), 110)
  clock.advance(60_000)
  await looks.isPaid(challenge('another'))
  t.equal(requests(), 111, 'in the next minute')
})

t.test('a reader waits four seconds for a provider; what it says later is still recorded', async t => {
  const late = Promise.withResolvers<{ status: 'paid' }>()
  const { looks, challenge, clock, settled } = fixture(() => late.promise)
  const isPaid = looks.isPaid(challenge('a'))
  clock.advance(4000)
  t.equal(await isPaid, false)
  late.resolve({ status: 'paid' })
  await setImmediate()
  t.same(settled, ['a'])
})

t.test('a provider that cannot be reached gives no state, and never rejects', async t => {
  const { looks, challenge } = fixture(() => Promise.reject(new Error('away')))
  t.equal(await looks.isPaid(challenge('a')), false)
})
