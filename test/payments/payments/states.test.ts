import fc from 'fast-check'
import t from 'tap'
import type { Payment, PaymentStatus } from '../../../src/payments/payments/schema.ts'
import { asOf, canBecome, due, isUnresolved, next, statusAt, stepped } from '../../../src/payments/payments/changes.ts'
import type { ChargeState } from '../../../src/lightning/provider-calls/provider.ts'
import { aPayment } from './fixture.ts'

const STATUSES: readonly PaymentStatus[] = ['unpaid', 'processing', 'paid', 'underpaid', 'expired', 'refunded']
const PAID_AT = 5_000

const inState = (status: PaymentStatus) =>
  aPayment({ status, paidAt: status === 'paid' || status === 'refunded' ? PAID_AT : null })
const said = (status: ChargeState['status'], different: Partial<ChargeState> = {}) => ({
  status,
  receivedSats: null,
  settledAt: null,
  ...different
})

/** Where a payment goes on what its provider says, step by step. */
const goes = (payment: Payment, seen: ChargeState, now: number) => next(payment, seen, now).map(step => step.to)

const allowed: Record<PaymentStatus, PaymentStatus[]> = {
  unpaid: ['processing', 'paid', 'underpaid', 'expired'],
  processing: ['paid', 'underpaid', 'expired', 'refunded'],
  underpaid: ['paid', 'refunded'],
  paid: ['refunded'],
  expired: ['paid', 'underpaid'],
  refunded: []
}

t.test('every transition of decision 40, and no other', async t => {
  for (const from of STATUSES) {
    for (const to of STATUSES) {
      t.equal(canBecome(from, to), allowed[from].includes(to), `${from} to ${to}`)
      if (!canBecome(from, to))
        t.throws(
          () => stepped(inState(from), { to, paidAt: null, receivedSats: null }, 1),
          TypeError,
          `${from} to ${to} is a mistake of ours`
        )
    }
  }
})

t.test("the provider's status, in every state, before the expiry", async t => {
  for (const from of STATUSES)
    for (const seen of STATUSES) {
      const isByPaid = seen === 'refunded' && (from === 'unpaid' || from === 'expired')
      const expected =
        seen === 'unpaid' ? [] : isByPaid ? ['paid', 'refunded'] : allowed[from].filter(to => to === seen)
      t.same(goes(inState(from), said(seen), 10), expected, `${from}, and the provider says ${seen}`)
    }
})

t.test(
  'statusAt: a payment past expiresAt reads unpaid until its expiry is recorded; processing and underpaid do not expire by time (decisions 40 and 178)',
  async t => {
    const payment = aPayment()
    t.equal(statusAt(payment, 3_599_999), 'unpaid')
    t.equal(statusAt(payment, 3_600_000), 'unpaid')
    t.equal(asOf(payment, 3_600_000), payment)
    t.same([isUnresolved(payment, 3_599_999), isUnresolved(payment, 3_600_000)], [false, true])
    t.notOk(isUnresolved(inState('expired'), 3_600_000))
    for (const status of STATUSES.filter(status => status !== 'unpaid'))
      t.equal(statusAt(inState(status), 1e12), status, status)
    t.same(goes(payment, said('unpaid'), 3_600_000), ['expired'], 'looking at the provider records it too')
    t.same(
      goes(payment, said('unpaid'), 3_599_999),
      [],
      'but only where it was looked up after the expiry (decision 178)'
    )
    t.same(
      goes(payment, said('processing'), 3_600_000),
      ['processing'],
      'money on its way was sent in time: no expiry is reported'
    )
  }
)

t.test("paidAt: the provider's settlement time, else when we learnt it; never changed (decision 42)", async t => {
  const step = (paidAt: number | null) => ({ to: 'paid' as const, paidAt, receivedSats: null })
  t.equal(stepped(aPayment(), step(777), 1000).paidAt, 777)
  t.equal(stepped(aPayment(), step(null), 1000).paidAt, 1000)
  t.equal(next(aPayment(), said('paid', { settledAt: 777 }), 1000)[0]?.paidAt, 777)
  t.equal(stepped(inState('paid'), { to: 'refunded', paidAt: 9, receivedSats: null }, 1000).paidAt, PAID_AT)
  t.equal(stepped(aPayment(), { to: 'processing', paidAt: 9, receivedSats: null }, 1000).paidAt, null)
})

t.test('a demo payment confirms itself when it is due, and then it does not expire', async t => {
  const demo = aPayment({ amount: '0', amountSats: null, kind: 'demo', confirmsAt: 5_000, expiresAt: 600_000 })
  t.equal(statusAt(demo, 4_999), 'unpaid')
  t.same(due(demo, 5_000), { to: 'paid', paidAt: 5_000, receivedSats: null })
  t.match(asOf(demo, 10_000_000), { status: /^paid$/, paidAt: 5_000 }, 'however late it is read')
})

const seenArbitrary: fc.Arbitrary<ChargeState> = fc.record({
  status: fc.constantFrom<ChargeState['status']>('unpaid', 'processing', 'paid', 'underpaid', 'expired', 'refunded'),
  receivedSats: fc.option(fc.integer({ min: 0, max: 20_000 })),
  settledAt: fc.option(fc.integer({ min: 1, max: 4_000_000 }))
})
const history = fc.array(fc.tuple(seenArbitrary, fc.integer({ min: 0, max: 1_000_000 })), { maxLength: 12 })

/** Plays what a provider says at growing times; answers the payment after each step. */
function play(start: Payment, events: ReadonlyArray<readonly [ChargeState, number]>) {
  const states = [start]
  let payment = start
  let now = 0
  for (const [seen, pause] of events) {
    now += pause
    for (const step of next(payment, seen, now)) states.push((payment = stepped(payment, step, now)))
  }
  return states
}

t.test(
  'property: no transition leaves paid but to refunded, paidAt never changes, nothing received is forgotten, no status comes twice',
  async () => {
    fc.assert(
      fc.property(history, events => {
        const states = play(aPayment(), events)
        for (const [index, after] of states.entries()) {
          const before = states[index - 1]
          if (before === undefined) continue
          if (before.status === 'paid' && after.status !== 'refunded') return false
          if (before.status === 'refunded') return false
          if (before.paidAt !== null && after.paidAt !== before.paidAt) return false
          if (after.status === 'paid' && after.paidAt === null) return false
          if ((after.receivedSats ?? 0) < (before.receivedSats ?? 0)) return false
        }
        return new Set(states.map(state => state.status)).size === states.length
      }),
      { numRuns: 2000 }
    )
  }
)

t.test('property: news that are repeated change nothing', async () => {
  fc.assert(
    fc.property(history, seenArbitrary, (events, seen) => {
      const payment = play(aPayment(), events).at(-1) ?? aPayment()
      const once = next(payment, seen, 5_000_000).reduce((state, step) => stepped(state, step, 5_000_000), payment)
      return next(once, seen, 5_000_000).length === 0
    }),
    { numRuns: 2000 }
  )
})

t.test(
  "property: whether paid is reported first or last, it ends as paid with the provider's time, whatever else was reported",
  async () => {
    const noise = fc.array(fc.constantFrom<ChargeState['status']>('unpaid', 'processing', 'underpaid', 'expired'), {
      maxLength: 8
    })
    fc.assert(
      fc.property(noise, fc.nat(8), (statuses, at) => {
        const events = statuses.map(status => [said(status), 1000] as const)
        const end = play(aPayment(), events.toSpliced(at, 0, [said('paid', { settledAt: 42 }), 1000])).at(-1)
        return end?.status === 'paid' && end.paidAt === 42
      }),
      { numRuns: 1000 }
    )
  }
)

t.test(
  'property: where a payment ends does not depend on whether the job has recorded its expiry, but for money on its way',
  async () => {
    fc.assert(
      fc.property(
        seenArbitrary.filter(({ status }) => status !== 'processing'),
        seen => {
          const now = 4_000_000
          const end = (payment: Payment) =>
            statusAt(
              next(payment, seen, now).reduce((state, step) => stepped(state, step, now), payment),
              now
            )
          return end(aPayment()) === end(inState('expired'))
        }
      )
    )
  }
)
