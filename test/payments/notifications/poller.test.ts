import t, { type Test as T } from 'tap'
import { Poller, pollRules, type PollRules } from '../../../src/payments/notifications/poller.ts'
import { FIRST_STATE } from '../../../src/payments/notifications/poll-plan.ts'
import { PollMemory } from '../../../src/payments/notifications/poll-store.ts'
import type { KindName } from '../../../src/lightning/provider-calls/provider.ts'
import type { ProviderSlot } from '../../../src/lightning/providers/slot-keys.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { lnd } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { OversizedResponse } from '../../../src/lightning/provider-calls/provider-call.ts'
import { startFakeLnd, type FakeLnd } from '../../fakes/lnd.ts'
import { only, polling as pollingOf } from '../../lightning/providers/declared.ts'
import { openKind } from '../../lightning/open-kind.ts'
import { openAnyDatabase, withSql } from '../../support/database.ts'
import { strike } from '../../../src/lightning/kinds/strike/strike.ts'
import { startFakeStrike, STRIKE_SCOPES, type FakeStrike } from '../../fakes/strike.ts'
import { fixture, paid } from './fixture.ts'
import { ChallengeCharges } from '../../../src/selling/minting/charges.ts'

const MINUTE = 60_000
const rules: PollRules = {
  perMinute: 20,
  isShared: true,
  costs: { list: 1, lookUp: 1 },
  hasList: true,
  every: { fresh: MINUTE, stale: 10 * MINUTE },
  sweepEvery: 30 * MINUTE,
  sweeps: 'all',
  recentPerRun: 0,
  tick: 15_000
}

/** On a database of its own, since the poller asks for everybody. */
async function polling(t: T, options: Pick<NonNullable<Parameters<typeof fixture>[1]>, 'inPrimary'> = {}) {
  const made = await fixture(t, { ...options, database: await openAnyDatabase(t) })
  const { payees, charges, payments, ofPayments, ofChallenges, clock, log, merchants } = made
  const { database } = made
  const memory = (slot: ProviderSlot, kind: KindName = only(payees.inOrder(slot)).name) =>
    new PollMemory({ slot, kind, database, clock })
  return {
    ...made,
    memory,
    poller: (
      slot: ProviderSlot = 'primary',
      different: Partial<PollRules> = {},
      looks: Pick<ChallengeCharges, 'open'> = ofChallenges
    ) =>
      new Poller({
        slot,
        kind: only(payees.inOrder(slot)).name,
        provider: only(payees.inOrder(slot)).provider,
        rules: { ...rules, ...different },
        memory: memory(slot),
        clock,
        log,
        payees,
        charges,
        payments,
        ofPayments,
        ofChallenges: looks,
        merchants
      }),
    /** Lets a minute pass and runs the poller, as its job does. */
    minute: async (poller: Poller) => {
      clock.advance(MINUTE)
      await poller.run(new AbortController().signal)
    }
  }
}

/** With the fake Strike in the primary slot. */
async function withStrike(t: T) {
  const started = Promise.withResolvers<FakeStrike>()
  const made = await polling(t, {
    inPrimary: async clock => {
      const fake = await startFakeStrike({ clock })
      started.resolve(fake)
      t.teardown(() => fake.close())
      return openKind(t, strike, { url: fake.url, clock })
    }
  })
  return { made, fake: await started.promise }
}

const run = (poller: Poller) => poller.run(new AbortController().signal)

void t.test('a lost notification', async t => {
  const made = await polling(t)
  const { primary, clock, payments, poller, minute } = made
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  const rival = await made.merchant({ primaryApiKey: new Secret('rival') })

  await t.test("another merchant's charge reveals nothing: each is looked up with its own key", async t => {
    const theirs = await made.pay(rival)
    primary.settled.set('acme', [{ chargeId: theirs.chargeId, state: paid(clock.now()) }])
    await minute(poller())
    t.equal((await payments.get(rival, theirs.invoiceId)).status, 'unpaid')
    primary.settled.set('rival', [{ chargeId: theirs.chargeId, state: paid(clock.now()) }])
    await minute(poller())
    t.equal((await payments.get(rival, theirs.invoiceId)).status, 'paid')
  })

  await t.test('is found up to a day after the invoice has expired, every ten minutes; then polling stops', async t => {
    const late = await made.pay(acme)
    clock.advance(2 * 3_600_000)
    await payments.sweep()
    await run(poller())
    primary.listings.splice(0)
    for (let minutes = 0; minutes < 30; minutes++) await minute(poller())
    t.equal(primary.listings.filter(({ key }) => key === 'acme').length, 3)
    const at = clock.now()
    primary.settled.set('acme', [{ chargeId: late.chargeId, state: paid(at) }])
    for (let minutes = 0; minutes < 10; minutes++) await minute(poller())
    t.match(await payments.get(acme, late.invoiceId), { status: /^paid$/, paidAt: at })
    clock.advance(24 * 3_600_000)
    primary.listings.splice(0)
    for (let minutes = 0; minutes < 15; minutes++) await minute(poller())
    t.same(primary.listings, [])
  })
})

void t.test('a query of open challenges that took a second is not repeated for fifty', async t => {
  const made = await polling(t)
  const { clock } = made
  let polls = 0
  const poller = made.poller(
    'primary',
    {},
    {
      open: async () => {
        polls++
        clock.advance(1_000)
        return []
      }
    }
  )
  await run(poller)
  clock.advance(49_000)
  await run(poller)
  t.equal(polls, 1)
  clock.advance(1_000)
  await run(poller)
  t.equal(polls, 2)
})

void t.test("a query of open challenges that times out stops no payment's look-up", async t => {
  const made = await polling(t)
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  const one = await made.pay(acme)
  const poller = made.poller(
    'primary',
    {},
    {
      open: () =>
        Promise.reject(Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }))
    }
  )
  await run(poller)
  made.primary.settled.set('acme', [{ chargeId: one.chargeId, state: paid(made.clock.now()) }])
  await made.minute(poller)
  t.equal((await made.payments.get(acme, one.invoiceId)).status, 'paid')
})

void t.test('accounts with open challenges are found without reading the whole table', async t => {
  const { database } = await polling(t)
  const plan = await database.transaction(async tx => {
    // In a small table the planner would read all of it.
    await tx`set local enable_seqscan = off`
    const explained = new Proxy(tx, {
      apply: (target, self, [first, ...values]: [TemplateStringsArray, ...unknown[]]) => {
        const strings = [`explain ${first[0]}`, ...first.slice(1)]
        return Reflect.apply(target, self, [Object.assign(strings, { raw: strings }), ...values]) as unknown
      }
    })
    const lines: unknown[] = []
    const noted = withSql(
      database,
      new Proxy(explained, {
        apply: async (target, self, args: unknown[]) => {
          lines.push(...((await Reflect.apply(target, self, args)) as unknown[]))
          return []
        }
      })
    )
    await new ChallengeCharges(noted).open('primary', 'strike', 0)
    return JSON.stringify(lines)
  })
  t.match(plan, /challenges_purge_unpaid/)
  t.match(plan, /challenges_sold/)
  t.notMatch(plan, /Seq Scan/)
})

void t.test("challenges of routes and proxies are recorded as settled; producers' alone make no call", async t => {
  const made = await polling(t)
  const { primary, clock, poller } = made
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  await made.challenge({ merchantId: String(acme.id), source: 'producer', expiresAt: clock.now() + 3_600_000 })
  const own = await made.challenge({ expiresAt: clock.now() + 3_600_000 })
  await run(poller())
  clock.advance(10 * MINUTE)
  primary.settled.set('the operator key', [{ chargeId: own.chargeId, state: paid(clock.now()) }])
  await run(poller())
  t.same(
    primary.listings.map(({ key }) => key),
    ['the operator key']
  )
  t.equal(await made.isSettled(own.paymentHash), true)
})

void t.test(
  'orders and plans that were paid are found up to a day after their invoice has expired, as payments are; then polling stops',
  async t => {
    const made = await polling(t)
    const { primary, clock, poller, minute } = made
    const [order, plan] = [
      await made.challenge({
        source: 'storefront',
        merchantId: String((await made.merchant({ primaryApiKey: new Secret('acme') })).id)
      }),
      await made.challenge({ source: 'subscription' })
    ]
    // The gateway was down meanwhile, and missed its notifications.
    clock.advance(23 * 3_600_000)
    primary.settled.set('acme', [{ chargeId: order.chargeId, state: paid(clock.now()) }])
    primary.settled.set('the operator key', [{ chargeId: plan.chargeId, state: paid(clock.now()) }])
    for (let minutes = 0; minutes < 12; minutes++) await minute(poller())
    t.same([await made.isSettled(order.paymentHash), await made.isSettled(plan.paymentHash)], [true, true])
    await made.challenge({ source: 'subscription' })
    clock.advance(25 * 3_600_000)
    primary.listings.splice(0)
    for (let minutes = 0; minutes < 12; minutes++) await minute(poller())
    t.same(primary.listings, [])
  }
)

void t.test('429: no call before Retry-After is over, by any process', async t => {
  const made = await polling(t)
  const { primary, clock, poller, minute } = made
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f'])
    await made.pay(await made.merchant({ primaryApiKey: new Secret(name) }))
  await run(poller())
  primary.fault = new ProviderUnavailable('wait', 600, undefined, 'rate')
  await minute(poller())
  const requests = primary.listings.length
  t.ok(requests >= 1 && requests <= 4, 'those of the same round')
  primary.fault = null
  const limited = clock.now()
  for (let minutes = 1; minutes < 10; minutes++) await minute(poller())
  t.equal(primary.listings.length, requests)
  await minute(poller())
  t.equal(clock.now(), limited + 600_000)
  t.equal(primary.listings.length, requests + 6)
})

void t.test('a refused key or an unavailable provider delays no other account', async t => {
  const made = await polling(t)
  const { primary, poller, minute } = made
  await made.pay(await made.merchant({ primaryApiKey: new Secret('bad') }))
  await made.pay(await made.merchant({ primaryApiKey: new Secret('good') }))
  const list = primary.listSettled.bind(primary)
  primary.listSettled = async (key, wanted) => {
    const settled = await list(key, wanted)
    if (key.reveal() === 'bad') throw new ProviderRefused('key', 'The provider does not accept this key.')
    return settled
  }
  await run(poller())
  for (let minutes = 0; minutes < 20; minutes++) await minute(poller())
  t.equal(primary.listings.filter(({ key }) => key === 'good').length, 20)
  // Rests of 30 s, 1, 2, 4 and then 5 minutes (decision 179), seen each minute.
  const bad = primary.listings.filter(({ key }) => key === 'bad').map(({ at }) => at)
  t.same(
    bad.slice(1).map((at, index) => (at - (bad[index] ?? 0)) / MINUTE),
    [1, 1, 2, 4, 5, 5]
  )
})

void t.test('payments of a host that was down are looked up as soon as it answers again', async t => {
  const made = await polling(t)
  const { primary, clock, payments, poller } = made
  Object.assign(primary, { hostOf: (key: Secret<string> | null) => `${key?.reveal() ?? ''}.example` })
  const [acme, rival] = [
    await made.merchant({ primaryApiKey: new Secret('acme') }),
    await made.merchant({ primaryApiKey: new Secret('rival') })
  ]
  const payment = await made.pay(acme)
  await made.pay(rival)
  const polled = poller()
  await run(polled)
  primary.fault = new ProviderUnavailable('away', 5, undefined, 'network')
  await made.minute(polled)
  primary.fault = new ProviderUnavailable('left alone', 55, undefined, 'open')
  clock.advance(6_000)
  for (let time = 0; time < 2; time++) await made.minute(polled)
  t.same(await made.memory('primary').resting(), { refused: 0, away: 2 })
  const listed = primary.listings.length
  primary.fault = null
  primary.settled.set('acme', [{ chargeId: payment.chargeId, state: paid(clock.now()) }])
  await run(polled)
  t.equal(primary.listings.length, listed, 'while it rests no call is made')
  t.equal(await polled.recovered('nobody.example'), false)
  t.equal(await polled.recovered('acme.example'), true)
  await run(polled)
  t.equal((await payments.get(acme, payment.invoiceId)).status, 'paid')
  t.same(
    primary.listings.slice(listed).map(({ key }) => key),
    ['acme'],
    'another host is still down'
  )
  t.equal(await polled.recovered('acme.example'), false, 'once')
})

void t.test('an account whose key is refused (decision 179)', async t => {
  const made = await polling(t)
  const { primary, clock, payments, poller, minute, changes } = made
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  const polled = poller()
  const payment = await made.pay(acme)
  await run(polled)
  primary.fault = new ProviderRefused('key', 'The provider does not accept this key.')
  for (let minutes = 0; minutes < 5; minutes++) await minute(polled)
  t.same(await made.memory('primary').resting(), { refused: 1, away: 0 }, 'operators see it')
  primary.settled.set('acme', [{ chargeId: payment.chargeId, state: paid(clock.now()) }])

  await t.test('is looked up again immediately when a key was saved or has proved valid', async t => {
    primary.fault = null
    await made.memory('primary').wake(acme.id)
    t.same(await made.memory('primary').resting(), { refused: 0, away: 0 })
    await run(polled)
    t.equal((await payments.get(acme, payment.invoiceId)).status, 'paid')
  })

  await t.test('and what the old key was refused meanwhile puts it to rest no more', async t => {
    await made.pay(acme)
    const gate = Promise.withResolvers<void>()
    const requested = Promise.withResolvers<void>()
    const list = primary.listSettled.bind(primary)
    primary.listSettled = async () => {
      requested.resolve()
      await gate.promise
      throw new ProviderRefused('key', 'The provider does not accept this key.')
    }
    clock.advance(MINUTE)
    const slow = run(polled)
    await requested.promise
    clock.advance(1)
    await made.memory('primary').wake(acme.id)
    gate.resolve()
    await slow
    t.same(await made.memory('primary').resting(), { refused: 0, away: 0 })
    primary.listSettled = list
  })

  await t.test('is still looked up for each payment within two minutes of its expiry', async t => {
    const other = await made.merchant({ primaryApiKey: new Secret('other') })
    const requests = () => primary.keys.filter(key => key === 'other').length
    const late = await made.pay(other)
    clock.advance(late.expiresAt - clock.now() - 6 * MINUTE)
    primary.listSettled = async () => {
      throw new ProviderRefused('scope', 'The provider key lacks a scope.')
    }
    for (let minutes = 0; minutes < 2; minutes++) await minute(polled)
    const before = requests()
    primary.states.set(late.chargeId, paid(clock.now()))
    await minute(polled)
    t.equal(requests(), before, 'more than two minutes before')
    for (let minutes = 0; minutes < 2; minutes++) await minute(polled)
    t.equal((await payments.get(other, late.invoiceId)).status, 'paid')
    t.notOk(changes.some(change => change.payment.status === 'expired' && change.payment.invoiceId === late.invoiceId))
  })
})

void t.test(
  'a payment is reported as expired only once its provider has been asked after that and has said no (decision 178)',
  async t => {
    const made = await polling(t)
    const { primary, clock, payees, merchants, payments: asked, poller, changes } = made
    const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
    const told = (invoiceId: string) =>
      changes.filter(change => change.payment.invoiceId === invoiceId).map(change => change.payment.status)
    /** The gateway that comes up after a downtime, as it is composed: a poller asks about both slots. */
    const gateway = made.another({
      payees,
      merchants,
      polled: () => ['primary strike', 'alternate opennode']
    })

    await t.test(
      'so a payment that was made while the gateway was down is paid, and nothing else, whatever sweeps first',
      async t => {
        const payment = await made.pay(acme)
        await run(poller())
        const paidAt = payment.expiresAt - 1_000
        primary.settled.set('acme', [{ chargeId: payment.chargeId, state: paid(paidAt) }])
        // A look-up may come before the list.
        primary.states.set(payment.chargeId, paid(paidAt))
        clock.advance(payment.expiresAt + 3 * 3_600_000 - clock.now())
        const after = made.another({
          payees,
          merchants,
          polled: () => ['primary strike', 'alternate opennode']
        })
        await after.sweep()
        await after.recordExpiries()
        t.equal((await after.get(acme, payment.invoiceId)).status, 'unpaid', 'its provider has not reported since')
        t.same(told(payment.invoiceId), [], 'and no notification is sent')
        await run(poller())
        t.same(told(payment.invoiceId), ['paid'])
        t.equal((await after.get(acme, payment.invoiceId)).paidAt, paidAt)
      }
    )

    await t.test('a list without it counts, for the payments that had expired when it was requested', async t => {
      const [expired, open] = [await made.pay(acme), null]
      clock.advance(expired.expiresAt - clock.now())
      const later = await made.pay(acme)
      await run(poller())
      clock.advance(MINUTE)
      await run(poller())
      t.same([told(expired.invoiceId), told(later.invoiceId), open], [['expired'], [], null])
      t.equal((await asked.get(acme, later.invoiceId)).status, 'unpaid')
    })

    await t.test('a partial list does not count; a look-up does', async t => {
      // Look-ups in flight end: they would take this payment along where its id, which is random, comes behind
      // theirs.
      for (let minutes = 0; minutes < 2; minutes++) await made.minute(poller())
      const payment = await made.pay(acme)
      clock.advance(payment.expiresAt - clock.now())
      primary.reach = 'newest'
      const unswept = poller('primary', { sweepEvery: 24 * 60 * MINUTE })
      await run(unswept)
      t.same(told(payment.invoiceId), [])
      for (let minutes = 0; minutes < 2; minutes++) await made.minute(unswept)
      t.same(told(payment.invoiceId), ['expired'])
      primary.reach = 'whole'
    })

    await t.test('without any answer after 12 hours; a later paid corrects it', async t => {
      const payment = await made.pay(acme)
      clock.advance(payment.expiresAt - clock.now())
      primary.fault = new ProviderUnavailable('away', 5, undefined, 'network')
      for (let hours = 0; hours < 11; hours++) {
        clock.advance(60 * MINUTE)
        await run(poller())
        await gateway.sweep()
      }
      t.same(told(payment.invoiceId), [])
      clock.advance(60 * MINUTE)
      await gateway.sweep()
      t.same(told(payment.invoiceId), ['expired'])
      primary.fault = null
      primary.settled.set('acme', [{ chargeId: payment.chargeId, state: paid(payment.expiresAt - 1) }])
      for (let minutes = 0; minutes < 11; minutes++) await made.minute(poller())
      t.same(told(payment.invoiceId), ['expired', 'paid'])
    })

    await t.test('15 minutes after its end where the account has no key for that provider any more', async t => {
      const payment = await made.pay(acme)
      clock.advance(payment.expiresAt - clock.now())
      await merchants.removeProviderKey(acme.id, 'primary')
      clock.advance(14 * MINUTE)
      await run(poller())
      t.same(told(payment.invoiceId), [])
      clock.advance(10 * MINUTE)
      await run(poller())
      t.same(told(payment.invoiceId), ['expired'])
    })
  }
)

void t.test('a list that is larger than what is read is followed by look-ups immediately', async t => {
  const made = await polling(t)
  const { primary, clock, payments, poller, minute } = made
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  const several = await Promise.all(Array.from({ length: 8 }, () => made.pay(acme)))
  for (const { chargeId } of several) primary.states.set(chargeId, paid(clock.now()))
  primary.fault = new OversizedResponse('too large', 5, undefined, 'size')
  primary.lookUp = async (_key, chargeId) => primary.states.get(chargeId) ?? null
  await run(poller())
  for (let minutes = 0; minutes < 2; minutes++) await minute(poller())
  t.same(
    await Promise.all(several.map(async ({ invoiceId }) => (await payments.get(acme, invoiceId)).status)),
    several.map(() => 'paid')
  )
})

void t.test(
  'lnd: a payment that was made during a downtime is found behind 1,200 other invoices, and only it is reported as paid',
  async t => {
    const started = Promise.withResolvers<FakeLnd>()
    const made = await polling(t, {
      inPrimary: async clock => {
        const node = await startFakeLnd({ clock })
        started.resolve(node)
        t.teardown(() => node.close())
        return openKind(t, lnd, { clock })
      }
    })
    const node = await started.promise
    const { clock, payees, payments, changes } = made
    const acme = await made.merchant({ primaryApiKey: new Secret(node.key()) })
    const rules = pollRules(only(payees.inOrder('primary')).provider, pollingOf('lnd'), 1)
    for (let at = 0; at < 3; at++) node.wallet.settle(node.wallet.addInvoice(1, 'of others', 600).paymentHash)
    const payment = await made.pay(acme)
    await run(made.poller('primary', rules))
    node.wallet.settle(payment.paymentHash)
    const paidAt = clock.now()
    for (let at = 0; at < 1200; at++) node.wallet.addInvoice(1, 'of others', 600)
    clock.advance(payment.expiresAt - clock.now() + 600_000)
    const poller = made.poller('primary', rules)
    for (let ticks = 0; ticks < 4; ticks++) {
      clock.advance(5_000)
      await run(poller)
    }
    t.match(await payments.get(acme, payment.invoiceId), { status: /^paid$/, paidAt })
    t.same(
      changes.map(change => change.payment.status),
      ['paid']
    )
  }
)

void t.test('a kind without a list: every open payment is looked up in turn, within the budget', async t => {
  const made = await polling(t)
  const { alternate, clock, payments, poller, minute } = made
  Object.defineProperty(alternate, 'listSettled', { value: undefined })
  const acme = await made.merchant({ primaryApiKey: undefined as never, alternateApiKey: new Secret('acme') })
  const made5 = await Promise.all(Array.from({ length: 5 }, () => made.pay(acme)))
  for (const { chargeId } of made5) alternate.states.set(chargeId, paid(clock.now()))
  alternate.states.set(made5[0]?.chargeId ?? '', null)
  const stingy = { perMinute: 2, hasList: false, sweepEvery: MINUTE }
  await run(poller('alternate', stingy))
  const counts: number[] = []
  for (let minutes = 0; minutes < 4; minutes++) {
    await minute(poller('alternate', stingy))
    counts.push(alternate.lookUps)
  }
  t.same(counts.slice(0, 3), [2, 4, 5])
  const statuses = await Promise.all(made5.map(async ({ invoiceId }) => (await payments.get(acme, invoiceId)).status))
  t.same(statuses, ['unpaid', 'paid', 'paid', 'paid', 'paid'], 'all but the one that the provider does not know')
})

void t.test(
  'a kind without list and notifications: what was just made is looked up within seconds, in turn',
  async t => {
    const made = await polling(t)
    const { alternate, clock, payments, poller } = made
    Object.defineProperty(alternate, 'listSettled', { value: undefined })
    const slow = pollRules({ capabilities: { ...alternate.capabilities, notifies: false } }, pollingOf('lnurl'), 1)
    const acme = await made.merchant({ primaryApiKey: undefined as never, alternateApiKey: new Secret('acme') })
    const young = [await made.pay(acme), await made.pay(acme), await made.pay(acme)]
    const left = async () => {
      const all = await Promise.all(young.map(({ invoiceId }) => payments.get(acme, invoiceId)))
      return all.filter(({ status }) => status === 'unpaid').length
    }
    const lefts: number[] = []
    for (const { chargeId } of young) alternate.states.set(chargeId, paid(clock.now()))
    for (let runs = 0; runs < 3; runs++) {
      await run(poller('alternate', slow))
      lefts.push(await left())
      clock.advance(5_000)
    }
    t.same(lefts, [1, 0, 0])
    await made.pay(acme)
    clock.advance(600_000)
    const before = alternate.lookUps
    for (let runs = 0; runs < 12; runs++) {
      await run(poller('alternate', slow))
      clock.advance(5_000)
    }
    t.equal(alternate.lookUps - before, 1, 'and later once a minute')
  }
)

void t.test(
  'a kind without notifications is listed every five seconds, and what can still be paid is looked up besides',
  async t => {
    const made = await polling(t)
    const { primary, clock, payments, poller } = made
    const rules = pollRules(
      { ...primary, capabilities: { ...primary.capabilities, notifies: false }, listSettled: async () => [] } as never,
      pollingOf('lnd'),
      1
    )
    t.match(rules, { hasList: true, sweeps: 'fresh', tick: 5_000, isShared: false })
    const acme = await made.merchant()
    const old = await made.pay(acme)
    clock.advance(2 * 3_600_000)
    const fresh = await made.pay(acme)
    for (const { chargeId } of [old, fresh]) primary.states.set(chargeId, paid(clock.now()))
    const before = primary.lookUps
    for (let tick = 0; tick < 13; tick++) {
      await run(poller('primary', rules ?? {}))
      clock.advance(5_000)
    }
    t.equal(primary.listings.length, 12)
    t.equal(primary.lookUps, before + 1)
    t.equal((await payments.get(acme, fresh.invoiceId)).status, 'paid')
    t.equal((await payments.get(acme, old.invoiceId)).status, 'expired')
  }
)

void t.test('a plan is saved before any call, and of two concurrent runs one calls', async t => {
  const made = await polling(t)
  const { primary, clock, memory, poller } = made
  await made.pay(await made.merchant())
  await run(poller())
  clock.advance(MINUTE)
  const { promise, resolve } = Promise.withResolvers<void>()
  const requested = Promise.withResolvers<void>()
  const list = primary.listSettled.bind(primary)
  primary.listSettled = async (key, wanted) => {
    requested.resolve()
    await promise
    return await list(key, wanted)
  }
  const slow = run(poller())
  await requested.promise
  t.match((await memory('primary').load()).state.budgets, { all: { calls: [[clock.now(), 1]] } })
  await run(poller())
  resolve()
  await slow
  t.equal(primary.listings.length, 1)
  t.same((await memory('primary', 'lnd').load()).state, FIRST_STATE, 'another kind of provider starts over')
})

void t.test('Strike: a lost notification, while it locks our address out for an hour', async t => {
  const { made, fake } = await withStrike(t)
  fake.addKey('acme', STRIKE_SCOPES, fake.account)
  const { payments, poller, minute } = made
  const acme = await made.merchant({ primaryApiKey: new Secret('acme') })
  const payment = await made.pay(acme)
  await made.registration.close()
  await run(poller())
  fake.account.receive(payment.chargeId, 'LIGHTNING', 'COMPLETED')
  fake.lock('others', 3_600_000)
  await minute(poller())
  const requests = fake.requests.length
  for (let minutes = 0; minutes < 58; minutes++) await minute(poller())
  t.equal(fake.requests.length, requests, 'no call comes meanwhile, which could prolong it')
  for (let minutes = 0; minutes < 13; minutes++) await minute(poller())
  t.match(await payments.get(acme, payment.invoiceId), { status: /^paid$/ })
})
