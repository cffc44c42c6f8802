import t from 'tap'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { DAY, fixture, iso } from './bitcoin-fixture.ts'

t.test('decision 165: bitcoin pricing lists the public plans, with priceSats and quoteExpiresAt', async t => {
  const { plans, clock } = await fixture(t)
  const {
    plans: [free, individual, ...more]
  } = await plans.pricing()
  t.same(more, [], 'l402 is contact-only, so it is not listed')
  t.match(free, { planTier: 'free', priceUsd: 0, priceSats: 0, trialDays: 0 })
  t.match(individual, {
    planTier: 'individual',
    name: 'Agentic Commerce',
    priceUsd: 49,
    priceSats: 49_000,
    interval: 'month',
    trialDays: 0
  })
  t.ok(Date.parse(individual?.quoteExpiresAt ?? '') > clock.now())
})

t.test('decision 167: create-subscription makes an invoice of the platform for one period', async t => {
  const { buy, clock, database, payee } = await fixture(t)
  const made = await buy(null)
  t.match(made, {
    subscriptionId: /^btc_[A-Za-z0-9_-]{22}$/,
    invoiceId: /^[1-9]\d{14}$/,
    paymentHash: /^[0-9a-f]{64}$/,
    payUrl: /^https:\/\/pay\.example\.com\/pay\/[A-Za-z0-9_-]{43}$/
  })
  t.equal(made.amountSats, 49_000)
  t.equal(decodeInvoice(made.lightningInvoice).amountMsat, 49_000_000n)
  t.equal(made.expiresAt, iso(clock.now() + 3_600_000), 'expires as a payment does')
  t.match(payee.requests.at(-1), {
    amountSats: 49_000,
    expirySeconds: 3600,
    description: 'Agentic Commerce, one month'
  })
  const [row] =
    await database.sql`select source, merchant_id, amount_sats from challenges where payment_hash = ${made.paymentHash}`
  t.match(row, { source: 'subscription', merchant_id: null, amount_sats: 49_000n })
})

t.test('an invoice whose subscription cannot be written is never given out', async t => {
  const { plans, database, clock } = await fixture(t)
  const before = await database.sql`select count(*)::int as count from challenges`
  await t.rejects(
    plans.create(
      { plan: 'individual', email: 'Nobody@example.com', customerName: 'a\0b' },
      { merchant: null, client: `broken ${clock.now()}` }
    )
  )
  t.same(
    await database.sql`select count(*)::int as count from challenges`,
    before,
    'the challenge is rolled back with it'
  )
})

t.test('the plan values and refusals are those of the checkout by card', async t => {
  const { buy, account } = await fixture(t)
  await t.rejects(buy(null, { plan: 'l402' }), { status: 400, message: /individual/ })
  const business = await account({ tier: 'l402' })
  await t.rejects(buy(business), { status: 400, message: /Business/ }, 'a larger plan is not traded for a smaller one')
  const byCard = await account({
    tier: 'individual',
    subscription: {
      subscriptionStatus: 'trialing',
      currentPeriodEnd: null,
      billingCustomerId: 'cus_1',
      billingSubscriptionId: 'sub_1'
    }
  })
  await t.rejects(buy(byCard), { status: 400, message: /by card/ }, 'both would be charged')
})

t.test("settled with a merchant's key: the account is on the plan, active, for one month", async t => {
  const { account, buy, settle, now } = await fixture(t, '2027-01-31T12:00:00.000Z')
  const merchant = await account({ flags: { refundsEnabled: true, l402Enabled: false } })
  const made = await buy(merchant, { email: 'other@example.com' })
  t.match(await now(merchant), { tier: 'free' }, 'not before it is paid')
  await settle(made)
  const after = await now(merchant)
  t.match(after, { tier: 'individual', subscriptionStatus: /^active$/, billingSubscriptionId: made.subscriptionId })
  t.equal(iso(after.currentPeriodEnd), '2027-02-28T12:00:00.000Z')
  t.same(
    after.flags,
    { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true },
    'the flags of the plan (decision 77)'
  )
})

t.test('settled twice changes nothing', async t => {
  const { account, buy, settle, now, clock } = await fixture(t)
  const merchant = await account()
  const made = await buy(merchant)
  await Promise.all([settle(made), settle(made), settle(made)])
  const after = await now(merchant)
  t.equal(iso(after.currentPeriodEnd), '2026-12-21T08:30:00.000Z')
  clock.advance(DAY)
  await settle(made)
  t.same(await now(merchant), after)
})

t.test('paying late, after the expiry, still counts once', async t => {
  const { account, buy, settle, now, clock, plans } = await fixture(t)
  const merchant = await account()
  const made = await buy(merchant)
  const token = made.payUrl.slice(-43)
  const late = clock.now() + 3_600_000 * 3
  clock.advance(Date.parse(made.expiresAt) - clock.now() + 60_000)
  t.match(await plans.byPayToken(token), { payable: { status: /^unpaid$/ } }, 'its payment may not be known yet')
  clock.advance(late - clock.now())
  t.match(await plans.byPayToken(token), { payable: { status: /^expired$/, paidAt: null } })
  await settle(made)
  await settle(made)
  t.equal(iso((await now(merchant)).currentPeriodEnd), '2026-12-21T11:30:00.000Z', 'from when it was paid')
  t.match(await plans.byPayToken(token), { payable: { status: /^paid$/, paidAt: clock.now() } })
})

t.test('a month that is paid early is added to the current one, with two invoices paid concurrently too', async t => {
  const { account, buy, settle, now, clock } = await fixture(t, '2027-01-31T12:00:00.000Z')
  const merchant = await account()
  await settle(await buy(merchant))
  clock.advance(DAY)
  const [second, third] = [await buy(merchant), await buy(merchant)]
  await Promise.all([settle(second), settle(third)])
  t.equal(iso((await now(merchant)).currentPeriodEnd), '2027-04-28T12:00:00.000Z')
})

t.test('the flags of the plan are not set again by a renewal (decision 77)', async t => {
  const { account, buy, settle, now, merchants } = await fixture(t)
  const merchant = await account()
  await settle(await buy(merchant))
  await merchants.change(merchant.id, { l402Enabled: false })
  await settle(await buy(merchant))
  t.equal((await now(merchant)).flags.l402Enabled, false)
})

t.test('without a key another month of a plan that the account pays in bitcoin is added to it', async t => {
  const { account, buy, settle, now } = await fixture(t)
  const merchant = await account()
  await settle(await buy(merchant))
  const { currentPeriodEnd } = await now(merchant)
  await settle(await buy(null, { email: merchant.email.toUpperCase() }))
  const after = await now(merchant)
  t.match(after, { tier: 'individual', subscriptionStatus: /^active$/ })
  t.ok((after.currentPeriodEnd ?? 0) > (currentPeriodEnd ?? Infinity))
})

t.test(
  'decision 171: without a key an account that is free, and a plan that is given, larger or paid by card, is left alone: an administrator decides',
  async t => {
    const { account, buy, settle, now, pending } = await fixture(t)
    const facts = {
      subscriptionStatus: 'active',
      currentPeriodEnd: null,
      billingCustomerId: null,
      billingSubscriptionId: null
    }
    for (const [what, merchant] of [
      ['free', await account()],
      ['given', await account({ tier: 'individual', subscription: facts })],
      ['larger', await account({ tier: 'l402', subscription: facts })],
      ['by card', await account({ tier: 'individual', subscription: { ...facts, billingSubscriptionId: 'sub_2' } })]
    ] as const) {
      const made = await buy(null, { email: merchant.email })
      await settle(made)
      t.same(await now(merchant), merchant, `${what}: unchanged`)
      t.ok(
        (await pending.list(false)).some(row => row.billingSubscriptionId === made.subscriptionId),
        `${what}: it waits`
      )
    }
  }
)

t.test(
  'decision 171: without an account it becomes a pending subscription, and a second month is added to it',
  async t => {
    const { buy, settle, pending, plans, merchants, database, clock, now } = await fixture(
      t,
      '2027-01-31T12:00:00.000Z'
    )
    const email = 'late.buyer@example.com'
    const first = await buy(null, { email, customerName: 'Late Buyer' })
    t.notOk(
      (await pending.list(true)).some(row => row.email === email),
      'not before it is paid'
    )
    await settle(first)
    const mine = async () => (await pending.list(true)).filter(row => row.email === email)
    t.match(await mine(), [
      {
        state: 'pending',
        planTier: 'individual',
        customerName: 'Late Buyer',
        subscriptionStatus: 'active',
        billingSubscriptionId: first.subscriptionId,
        currentPeriodEnd: Date.parse('2027-02-28T12:00:00.000Z')
      }
    ])
    const second = await buy(null, { email })
    await settle(second)
    const [row, ...more] = await mine()
    t.same(more, [], 'one subscription, not two')
    t.equal(iso(row?.currentPeriodEnd ?? null), '2027-03-31T12:00:00.000Z')

    // What an approval does, in short.
    const { merchant } = await merchants.create({
      name: 'Late Buyer',
      email,
      tier: 'individual',
      subscription: {
        subscriptionStatus: 'active',
        currentPeriodEnd: row?.currentPeriodEnd ?? null,
        billingCustomerId: null,
        billingSubscriptionId: first.subscriptionId
      }
    })
    if (row === undefined) throw new Error('the subscription is gone')
    await database.transaction(sql => plans.approved(sql, { merchant, subscription: row }))
    clock.advance(DAY)
    await settle(await buy(null, { email }))
    t.equal(
      iso((await now(merchant)).currentPeriodEnd),
      '2027-04-30T12:00:00.000Z',
      "from then on months are the account's"
    )
  }
)

t.test('a client that pays again after an administrator has rejected waits again: no payment goes unseen', async t => {
  const { buy, settle, pending, database, clock } = await fixture(t, '2027-01-10T12:00:00.000Z')
  const email = 'again@example.com'
  const mine = async () => (await pending.list(true)).filter(row => row.email === email)
  await settle(await buy(null, { email }))
  const [rejected] = await mine()
  await database.transaction(async sql => {
    await pending.review(sql, rejected?.id ?? 0, { state: 'rejected', at: clock.now(), reason: null })
  })
  clock.advance(DAY)
  const made = await buy(null, { email })
  await settle(made)
  const waiting = (await mine()).filter(row => row.state === 'pending')
  t.equal(waiting.length, 1)
  t.equal(waiting[0]?.billingSubscriptionId, made.subscriptionId)
  t.equal(
    iso(waiting[0]?.currentPeriodEnd ?? null),
    '2027-02-11T12:00:00.000Z',
    'a month, and nothing of what was rejected'
  )
})

t.test(
  'a renewal of an approved subscription that is paid once the account pays by card waits for the administrator',
  async t => {
    const { buy, settle, pending, plans, merchants, database, clock, now, account } = await fixture(
      t,
      '2027-01-10T12:00:00.000Z'
    )
    const merchant = await account()
    const first = await buy(null, { email: 'other.address@example.com' })
    await settle(first)
    const [row] = (await pending.list(false)).filter(row => row.billingSubscriptionId === first.subscriptionId)
    if (row === undefined) throw new Error('the subscription does not wait')
    await database.transaction(async sql => {
      const subscription = await pending.review(sql, row.id, {
        state: 'approved',
        at: clock.now(),
        merchantId: merchant.id
      })
      await merchants.within(sql).setTier(merchant.id, 'individual')
      await merchants.within(sql).change(merchant.id, {
        subscriptionStatus: 'active',
        currentPeriodEnd: row.currentPeriodEnd,
        billingSubscriptionId: first.subscriptionId
      })
      await plans.approved(sql, { merchant, subscription })
    })
    // As the job of renewals makes it: another invoice of the same subscription.
    const renewal = await buy(null, { email: 'other.address@example.com' })
    await database.sql`update bitcoin_invoices set subscription_id = ${first.subscriptionId} where payment_hash = ${renewal.paymentHash}`
    await merchants.change(merchant.id, { billingSubscriptionId: 'sub_card', subscriptionStatus: 'active' })
    const before = await now(merchant)
    await settle(renewal)
    await settle(renewal)
    t.same(await now(merchant), before, 'a card that is charged is left alone')
    const waiting = (await pending.list(false)).filter(one => one.email === 'other.address@example.com')
    t.equal(waiting.length, 1)
    t.match(waiting[0], {
      planTier: 'individual',
      subscriptionStatus: 'active',
      billingSubscriptionId: /^btc_[A-Za-z0-9_-]{22}$/
    })
    t.not(
      waiting[0]?.billingSubscriptionId,
      first.subscriptionId,
      'a subscription of its own, since the other was reviewed'
    )
    t.equal(iso(waiting[0]?.currentPeriodEnd ?? null), '2027-02-10T12:00:00.000Z')
  }
)

t.test('the months of a buyer who waited for an account count from its approval', async t => {
  const { buy, settle, pending, plans, merchants, database, clock, now } = await fixture(t, '2027-01-31T12:00:00.000Z')
  const approve = async (email: string) => {
    const [row] = (await pending.list(false)).filter(row => row.email === email)
    if (row === undefined) throw new Error('the subscription does not wait')
    const { subscriptionStatus, currentPeriodEnd, billingCustomerId, billingSubscriptionId } = row
    return await database.transaction(async sql => {
      const accounts = merchants.within(sql)
      const facts = { subscriptionStatus, currentPeriodEnd, billingCustomerId, billingSubscriptionId }
      const held = await accounts.byEmail(email)
      const merchant =
        held === null
          ? (await accounts.create({ name: 'Patient', email, tier: 'individual', subscription: facts })).merchant
          : await accounts.change(held.id, facts)
      if (merchant === null) throw new Error('the account is gone')
      await plans.approved(sql, {
        merchant,
        subscription: await pending.review(sql, row.id, { state: 'approved', at: clock.now(), merchantId: merchant.id })
      })
      return merchant
    })
  }

  await t.test('also after the month would have been over, and two of them', async t => {
    const email = 'patient@example.com'
    await settle(await buy(null, { email }))
    clock.advance(40 * DAY)
    await settle(await buy(null, { email }))
    clock.advance(2 * DAY)
    t.equal(iso(clock.now()), '2027-03-14T12:00:00.000Z')
    const merchant = await approve(email)
    t.equal(iso((await now(merchant)).currentPeriodEnd), '2027-05-14T12:00:00.000Z')
    await settle(await buy(null, { email }))
    t.equal(
      iso((await now(merchant)).currentPeriodEnd),
      '2027-06-14T12:00:00.000Z',
      'and the next one is added to them'
    )
  })

  await t.test('added to what the account has paid for meanwhile', async t => {
    const email = 'eager@example.com'
    await settle(await buy(null, { email }))
    clock.advance(DAY)
    const { merchant } = await merchants.create({ name: 'Eager', email })
    await settle(await buy(merchant))
    t.equal(iso((await now(merchant)).currentPeriodEnd), '2027-04-15T12:00:00.000Z')
    await approve(email)
    t.equal(iso((await now(merchant)).currentPeriodEnd), '2027-05-15T12:00:00.000Z')
  })
})

t.test(
  'news of an invoice that is not on record change nothing, and news that cannot be written come again',
  async t => {
    const { plans, account, buy, settle, now, database } = await fixture(t)
    await plans.settled({ paymentHash: 'ab'.repeat(32) })
    const merchant = await account()
    const made = await buy(merchant)
    await database.sql`alter table merchants add constraint no_more check (billing_subscription_id is distinct from ${database.sql.unsafe(`'${made.subscriptionId}'`)})`
    await t.rejects(settle(made), 'so its caller retries')
    await database.sql`alter table merchants drop constraint no_more`
    t.equal((await now(merchant)).tier, 'free')
    await settle(made)
    t.equal((await now(merchant)).tier, 'individual')
  }
)

t.test('the caps on open invoices hold: the newest is handed out again to the same buyer only', async t => {
  const { plans, payee } = await fixture(t)
  const client = 'one household'
  const ids = new Set<string>()
  for (let count = 0; count < 12; count++)
    ids.add(
      (await plans.create({ plan: 'individual', email: 'greedy@example.com' }, { merchant: null, client })).invoiceId
    )
  t.equal(ids.size, 10)
  t.equal(payee.requests.length, 10)
  const other = await plans.create({ plan: 'individual', email: 'neighbour@example.com' }, { merchant: null, client })
  t.notOk(ids.has(other.invoiceId), 'the neighbor pays for their own')
})

t.test('while the provider is down nothing is made, and the response has a Retry-After', async t => {
  const { buy, payee, database } = await fixture(t)
  payee.fault = new Error('away')
  const email = 'unlucky@example.com'
  await t.rejects(buy(null, { email }), { status: 503, message: /invoice/ }, 'retryable')
  t.same([...(await database.sql`select 1 from bitcoin_subscriptions where email = ${email}`)], [])
})
