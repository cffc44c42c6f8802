import fc from 'fast-check'
import t from 'tap'
import { gate } from '../../src/accounts/merchants/gate.ts'
import { Administration } from '../../src/web/admin/service.ts'
import { LookupsOvertaken } from '../../src/plans/subscriptions.ts'
import { openAnyDatabase } from '../support/database.ts'
import { DAY, fixture, subId } from './fixture.ts'
import { until } from '../support/until.ts'

t.test('subscriptions by card', async t => {
  const database = await openAnyDatabase(t)
  const { clock, provider, merchants, store, pending, cards, account, merchant, stands, pended } = fixture(database)
  const administration = new Administration({
    database,
    store: pending,
    merchants,
    clock,
    production: false,
    account: () => {
      throw new Error('no view is asked for')
    }
  })

  await t.test(
    'Every completed checkout without a merchant key waits for approval; with a key it updates that merchant (decision 171)',
    async t => {
      const nobodys = stands({ subscriptionId: subId(), status: 'trialing', customerName: 'Buyer' })
      await cards.refresh(nobodys.subscriptionId)
      t.match(await pended(nobodys.subscriptionId), {
        email: nobodys.email,
        customerName: 'Buyer',
        planTier: 'individual',
        subscriptionStatus: /^trialing$/,
        currentPeriodEnd: nobodys.currentPeriodEnd,
        state: 'pending',
        billingCustomerId: nobodys.customerId
      })
      const { id } = await account()
      const own = stands({ subscriptionId: subId(), merchantId: id, status: 'trialing' })
      await cards.refresh(own.subscriptionId)
      t.equal(await pended(own.subscriptionId), null)
      t.match(await merchant(id), {
        tier: 'individual',
        subscriptionStatus: /^trialing$/,
        currentPeriodEnd: own.currentPeriodEnd,
        billingCustomerId: own.customerId,
        billingSubscriptionId: own.subscriptionId,
        flags: { l402Enabled: true, multiCurrencyEnabled: true, refundsEnabled: false }
      })
    }
  )

  await t.test("after its approval it is the account's, by its billingSubscriptionId", async t => {
    const { subscriptionId } = stands({ subscriptionId: subId(), status: 'trialing' })
    await cards.refresh(subscriptionId)
    const outcome = await administration.approve(String((await pended(subscriptionId))?.id), {})
    if ('linked' in outcome) return t.fail('an account must be made')
    const { merchantId } = outcome
    t.match(await merchant(merchantId), {
      tier: 'individual',
      subscriptionStatus: /^trialing$/,
      billingSubscriptionId: subscriptionId
    })
    clock.advance(1000)
    const now = stands({ subscriptionId, status: 'past_due', currentPeriodEnd: clock.now() + 60 * DAY })
    await cards.refresh(subscriptionId)
    t.match(await merchant(merchantId), {
      tier: 'individual',
      subscriptionStatus: /^past_due$/,
      currentPeriodEnd: now.currentPeriodEnd
    })
    t.match(
      await pended(subscriptionId),
      { state: 'approved', subscriptionStatus: /^trialing$/ },
      'what was reviewed is unchanged'
    )
  })

  await t.test('news that come at the very moment of its approval reach the account', async t => {
    for (let round = 0; round < 8; round++) {
      const { subscriptionId } = stands({ subscriptionId: subId(), status: 'trialing' })
      await cards.refresh(subscriptionId)
      const waiting = await pended(subscriptionId)
      stands({ subscriptionId, status: 'past_due' })
      const [outcome] = await Promise.all([
        administration.approve(String(waiting?.id), {}),
        cards.refresh(subscriptionId)
      ])
      if ('linked' in outcome) return t.fail('an account must be made')
      t.match(await merchant(outcome.merchantId), {
        billingSubscriptionId: subscriptionId,
        subscriptionStatus: /^past_due$/
      })
    }
  })

  await t.test('concurrent subscriptions of two accounts do not deadlock', async t => {
    const accounts = [await account(), await account()]
    const ids = accounts.flatMap(({ id }) =>
      Array.from(
        { length: 5 },
        (_, index) => stands({ subscriptionId: subId(), merchantId: id, startedAt: clock.now() + index }).subscriptionId
      )
    )
    await Promise.all([...ids, ...ids.toReversed()].map(id => cards.refresh(id)))
    t.equal((await merchant(accounts[0]?.id ?? 0)).billingSubscriptionId, ids[4])
    t.equal((await merchant(accounts[1]?.id ?? 0)).billingSubscriptionId, ids[9])
  })

  await t.test('a rejected one stays rejected and changes no account', async t => {
    const { subscriptionId } = stands({ subscriptionId: subId() })
    await cards.refresh(subscriptionId)
    const waiting = await pended(subscriptionId)
    await database.transaction(async tx => {
      await pending.review(tx, waiting?.id ?? 0, { state: 'rejected', at: clock.now(), reason: null })
    })
    stands({ subscriptionId, status: 'past_due' })
    await cards.refresh(subscriptionId)
    t.match(await pended(subscriptionId), { state: 'rejected', subscriptionStatus: /^active$/ })
  })

  await t.test(
    'what is unowned and over, of another plan, without an address, or unknown leaves nothing behind',
    async t => {
      for (const odd of [
        { status: 'canceled' },
        { status: 'incomplete' },
        { status: 'incomplete_expired' },
        { plan: null },
        { email: null }
      ]) {
        const { subscriptionId } = stands({ subscriptionId: subId(), ...odd })
        await cards.refresh(subscriptionId)
        t.equal(await pended(subscriptionId), null, JSON.stringify(odd))
      }
      await cards.refresh('sub_unknown')
      t.equal(await pended('sub_unknown'), null)
    }
  )

  await t.test(
    'one that names an account which does not exist waits for approval, so that no money is lost',
    async t => {
      const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: 2_000_000_000 })
      await cards.refresh(subscriptionId)
      t.match(await pended(subscriptionId), { state: 'pending' })
    }
  )

  await t.test(
    'another product of the same provider account changes no account, whatever its metadata say',
    async t => {
      const { id } = await account()
      const own = stands({ subscriptionId: subId(), merchantId: id, status: 'active' })
      await cards.refresh(own.subscriptionId)
      stands({ subscriptionId: own.subscriptionId, status: 'canceled' })
      await cards.refresh(own.subscriptionId)
      const before = await merchant(id)
      clock.advance(1000)
      const other = stands({ subscriptionId: subId(), merchantId: id, plan: null, status: 'active' })
      await cards.refresh(other.subscriptionId)
      t.same(await merchant(id), before)
      t.equal(await pended(other.subscriptionId), null)
    }
  )

  await t.test(
    'canceled: the status says so and the plan stays, for on the free plan the gate would let it pass (decisions 82 and 83)',
    async t => {
      const { id } = await account()
      const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id })
      await cards.refresh(subscriptionId)
      for (const status of ['past_due', 'unpaid', 'canceled', 'paused']) {
        stands({ subscriptionId, status })
        await cards.refresh(subscriptionId)
        const now = await merchant(id)
        t.match(now, { tier: 'individual', subscriptionStatus: new RegExp(`^${status}$`) })
        t.match(gate(now, null, clock.now()), { error: 'Subscription not active' })
      }
    }
  )

  await t.test(
    'flags come with a change of plan and live on their own after it; refunds are never touched (decision 77)',
    async t => {
      const { id } = await account({ flags: { refundsEnabled: true, multiCurrencyEnabled: false } })
      const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id })
      await cards.refresh(subscriptionId)
      t.match((await merchant(id)).flags, { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true })
      await merchants.change(id, { multiCurrencyEnabled: false })
      stands({ subscriptionId, currentPeriodEnd: clock.now() + 60 * DAY })
      await cards.refresh(subscriptionId)
      t.match(
        await merchant(id),
        { currentPeriodEnd: clock.now() + 60 * DAY, flags: { multiCurrencyEnabled: false } },
        'a renewal changes no flag'
      )
    }
  )

  await t.test(
    'a plan that the administrator gave stays at renewals; a change at the provider brings its own',
    async t => {
      const { id } = await account()
      const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id })
      await cards.refresh(subscriptionId)
      await merchants.setTier(id, 'l402')
      stands({ subscriptionId, currentPeriodEnd: clock.now() + 90 * DAY })
      await cards.refresh(subscriptionId)
      t.equal((await merchant(id)).tier, 'l402')
      stands({ subscriptionId, plan: null })
      await cards.refresh(subscriptionId)
      t.equal((await merchant(id)).tier, 'l402', 'a price of another plan changes no plan')
      stands({ subscriptionId, plan: 'individual' })
      await cards.refresh(subscriptionId)
      t.equal((await merchant(id)).tier, 'individual')
    }
  )

  await t.test('late news of an ended subscription do not close an account that has bought another', async t => {
    const { id } = await account()
    const old = stands({ subscriptionId: subId(), merchantId: id })
    await cards.refresh(old.subscriptionId)
    clock.advance(1000)
    const next = stands({ subscriptionId: subId(), merchantId: id })
    stands({ subscriptionId: old.subscriptionId, status: 'canceled' })
    await cards.refresh(next.subscriptionId)
    await cards.refresh(old.subscriptionId)
    t.match(await merchant(id), { billingSubscriptionId: next.subscriptionId, subscriptionStatus: /^active$/ })
  })

  await t.test('a subscription that is over at its first event does not close an account that did without', async t => {
    const { id } = await account()
    const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id, status: 'canceled' })
    await cards.refresh(subscriptionId)
    t.match(await merchant(id), { tier: 'free', subscriptionStatus: /^active$/, billingSubscriptionId: null })
  })

  await t.test('a month in bitcoin that runs longer stays, also when the card ends', async t => {
    const { id } = await account({
      tier: 'individual',
      subscription: {
        subscriptionStatus: 'active',
        currentPeriodEnd: clock.now() + 40 * DAY,
        billingCustomerId: null,
        billingSubscriptionId: 'btc_1'
      }
    })
    const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id })
    await cards.refresh(subscriptionId)
    t.match(await merchant(id), { billingSubscriptionId: 'btc_1' })
    stands({ subscriptionId, status: 'canceled' })
    await cards.refresh(subscriptionId)
    t.match(await merchant(id), { billingSubscriptionId: 'btc_1', subscriptionStatus: /^active$/ })
    stands({ subscriptionId, status: 'active', currentPeriodEnd: clock.now() + 50 * DAY })
    await cards.refresh(subscriptionId)
    t.match(
      await merchant(id),
      { billingSubscriptionId: subscriptionId, currentPeriodEnd: clock.now() + 50 * DAY },
      'a card that runs longer takes its place'
    )
  })

  await t.test("the order of a subscription's events does not change the result", async () => {
    const statuses = ['active', 'trialing', 'past_due', 'canceled']
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...statuses), { minLength: 1, maxLength: 3 }),
        fc.array(fc.nat(2), { maxLength: 6 }),
        async (ends, order) => {
          const { id } = await account()
          const ids = ends.map(() => subId())
          for (const [index, subscriptionId] of ids.entries()) {
            stands({ subscriptionId, merchantId: id, startedAt: clock.now() + index })
            await cards.refresh(subscriptionId)
          }
          for (const [index, subscriptionId] of ids.entries()) stands({ subscriptionId, status: ends[index] ?? '' })
          // Each is reported at least once, some of them repeatedly.
          for (const index of [...order, ...ids.keys()]) await cards.refresh(ids[index % ids.length] ?? '')
          const now = await merchant(id)
          const live = ids.filter((_, index) => ends[index] === 'active' || ends[index] === 'trialing')
          if (live.length > 0)
            return now.billingSubscriptionId === live.at(-1) && /^(active|trialing)$/.test(now.subscriptionStatus ?? '')
          return (
            ids.includes(now.billingSubscriptionId ?? '') &&
            now.subscriptionStatus === ends[ids.indexOf(now.billingSubscriptionId ?? '')]
          )
        }
      ),
      { numRuns: 20 }
    )
  })

  await t.test('a look that took long never overwrites one that was begun after it', async t => {
    const { id } = await account()
    const { subscriptionId } = stands({ subscriptionId: subId(), merchantId: id, status: 'active' })
    const slow = Promise.withResolvers<void>()
    const first = provider.requests + 1
    provider.answering = async (_, look) => {
      if (look === first) await slow.promise
    }
    const early = cards.refresh(subscriptionId)
    await until(() => provider.requests >= first)
    // Both looks have been taken, the older saw `active`.
    stands({ subscriptionId, status: 'canceled' })
    await cards.refresh(subscriptionId)
    t.match(await merchant(id), { billingSubscriptionId: null }, 'one that is over at its first event')
    stands({ subscriptionId, status: 'trialing' })
    await cards.refresh(subscriptionId)
    stands({ subscriptionId, status: 'past_due' })
    await cards.refresh(subscriptionId)
    slow.resolve()
    await early
    provider.answering = async () => {}
    t.match(await merchant(id), { subscriptionStatus: /^past_due$/ })
    t.equal(provider.requests, first + 4, 'it looked again')
  })

  await t.test('one that is overtaken each time gives up, so that its job comes again', async t => {
    const { subscriptionId } = stands({ subscriptionId: subId() })
    provider.answering = async () => {
      await store.ticket(subscriptionId)
    }
    await t.rejects(cards.refresh(subscriptionId), LookupsOvertaken)
    provider.answering = async () => {}
    t.equal(await pended(subscriptionId), null, 'it wrote nothing')
  })
})
