import t from 'tap'
import { SandboxBilling, type TakeNotification } from '../../src/plans/sandbox/sandbox.ts'
import type { BillingEvent, CheckoutRequest } from '../../src/plans/provider.ts'
import { systemRandom } from '../../src/platform/system/ids.ts'
import { openAnyDatabase } from '../support/database.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { DAY } from './fixture.ts'

t.test('the sandbox of billing', async t => {
  const database = await openAnyDatabase(t)
  const clock = new ManualClock()
  const open = (): {
    readonly sandbox: SandboxBilling
    readonly heard: BillingEvent[]
    readonly take: TakeNotification
  } => {
    const sandbox = new SandboxBilling({
      database,
      clock,
      random: systemRandom,
      publicUrl: () => 'https://gateway.example'
    })
    const heard: BillingEvent[] = []
    const take: TakeNotification = async (signature, body) => {
      heard.push(sandbox.readEvent(signature, body))
    }
    return { sandbox, heard, take }
  }
  const { sandbox, heard, take } = open()
  let keys = 0
  const request = (): CheckoutRequest => ({
    plan: 'individual',
    email: 'buyer@example.com',
    customerName: 'Buyer',
    merchantId: null,
    customerId: null,
    trialDays: 30,
    successUrl: 'https://shop.example/done',
    cancelUrl: 'https://shop.example/left',
    idempotencyKey: `key-${++keys}`
  })
  const complete = async (different: Partial<CheckoutRequest> = {}): Promise<string> => {
    const { sessionId } = await sandbox.createCheckout({ ...request(), ...different })
    await sandbox.complete(sessionId, take)
    const subscriptionId = heard.at(-1)?.subscriptionId
    if (subscriptionId === undefined || subscriptionId === null) throw new Error('a completed checkout is reported')
    return subscriptionId
  }

  await t.test(
    'a checkout is a page with a secret address; completing it reports a subscription, twice completed the same one',
    async t => {
      const { sessionId, checkoutUrl } = await sandbox.createCheckout(request())
      t.equal(checkoutUrl, `https://gateway.example/billing/sandbox/${sessionId}`)
      t.match(sessionId, /^cs_sandbox_[A-Za-z0-9_-]{43}$/)
      t.match(await sandbox.session(sessionId), {
        kind: 'checkout',
        completed: false,
        trialDays: 30,
        email: 'buyer@example.com'
      })
      t.equal(await sandbox.complete(sessionId, take), true)
      t.equal(await sandbox.complete(sessionId, take), true)
      const [first, second] = heard
      t.match(first, { type: 'checkout.session.completed', subscriptionId: /^sub_sandbox_/ })
      t.equal(second?.subscriptionId, first?.subscriptionId)
      t.match(await sandbox.session(sessionId), { completed: true })
      t.match(await sandbox.subscription(first?.subscriptionId ?? ''), {
        status: /^trialing$/,
        plan: 'individual',
        email: 'buyer@example.com',
        currentPeriodEnd: clock.now() + 30 * DAY
      })
    }
  )

  await t.test('one idempotency key makes one session', async t => {
    const wanted = request()
    const [one, other] = await Promise.all([sandbox.createCheckout(wanted), sandbox.createCheckout(wanted)])
    t.equal(one.sessionId, other.sessionId)
  })

  await t.test(
    'without a trial it is active immediately; trials end and periods are renewed automatically',
    async t => {
      const paid = await complete({ trialDays: 0 })
      const trial = await complete({ trialDays: 14 })
      t.match(await sandbox.subscription(paid), { status: /^active$/, currentPeriodEnd: clock.now() + 30 * DAY })
      const start = clock.now()
      clock.advance(14 * DAY)
      t.match(await sandbox.subscription(trial), { status: /^active$/, currentPeriodEnd: start + 44 * DAY })
      clock.advance(100 * DAY)
      t.match(await sandbox.subscription(trial), { status: /^active$/, currentPeriodEnd: start + 134 * DAY })
      t.match(await sandbox.subscription(paid), { status: /^active$/, currentPeriodEnd: start + 120 * DAY })
    }
  )

  await t.test('the portal shows and cancels what its customer has; canceled stays canceled', async t => {
    const subscriptionId = await complete()
    const { customerId = '' } = (await sandbox.subscription(subscriptionId)) ?? {}
    const sessionId = (await sandbox.portal(customerId, 'https://shop.example/account')).split('/').at(-1) ?? ''
    t.match(await sandbox.session(sessionId), {
      kind: 'portal',
      returnUrl: 'https://shop.example/account',
      subscriptions: [{ subscriptionId, status: /^trialing$/ }]
    })
    t.equal(await sandbox.cancel(sessionId, take), true)
    t.match(heard.at(-1), { type: 'customer.subscription.deleted', subscriptionId })
    clock.advance(40 * DAY)
    t.match(await sandbox.subscription(subscriptionId), { status: /^canceled$/ })
    await t.rejects(sandbox.portal('cus_unknown', 'https://shop.example'), { name: 'BillingError', fault: 'refused' })
  })

  await t.test(
    'the portal has the card fail and work again: past_due is not renewed automatically, and what is canceled stays so',
    async t => {
      const subscriptionId = await complete({ trialDays: 0 })
      const { customerId = '' } = (await sandbox.subscription(subscriptionId)) ?? {}
      const portal = async (): Promise<string> =>
        (await sandbox.portal(customerId, 'https://shop.example/account')).split('/').at(-1) ?? ''
      t.equal(await sandbox.fail(await portal(), take), true)
      t.match(heard.at(-1), { type: 'customer.subscription.updated', subscriptionId })
      t.match(await sandbox.subscription(subscriptionId), { status: 'past_due' })
      clock.advance(40 * DAY)
      t.match(await sandbox.subscription(subscriptionId), { status: 'past_due' })
      t.equal(await sandbox.recover(await portal(), take), true)
      t.match(await sandbox.subscription(subscriptionId), { status: 'active' })
      await sandbox.cancel(await portal(), take)
      await sandbox.recover(await portal(), take)
      t.match(await sandbox.subscription(subscriptionId), { status: 'canceled' })
      t.equal(await sandbox.fail('bps_sandbox_unknown', take), false)
    }
  )

  await t.test('a known customer stays the same one', async t => {
    const { customerId = '' } = (await sandbox.subscription(await complete())) ?? {}
    t.match(await sandbox.subscription(await complete({ customerId, merchantId: 7 })), { customerId, merchantId: 7 })
  })

  await t.test('everything survives a restart but earlier signatures, which only the sandbox has', async t => {
    const { sessionId } = await sandbox.createCheckout(request())
    const subscriptionId = await complete()
    const sent: Array<readonly [string, Uint8Array]> = []
    await sandbox.complete(sessionId, async (...signed) => {
      sent.push(signed)
    })
    const again = open()
    t.match(await again.sandbox.subscription(subscriptionId), { subscriptionId })
    t.equal(await again.sandbox.complete(sessionId, again.take), true)
    t.equal(again.heard.length, 1)
    const [[signature, body] = ['', Buffer.alloc(0)]] = sent
    t.match(sandbox.readEvent(signature, body), { subscriptionId: /^sub_/ })
    t.throws(() => again.sandbox.readEvent(signature, body), { fault: 'signature' })
    t.throws(() => sandbox.readEvent(signature, Buffer.concat([body, Buffer.from(' ')])), { fault: 'signature' })
    t.throws(() => sandbox.readEvent(null, body), { fault: 'signature' })
    clock.advance(301_000)
    t.throws(() => sandbox.readEvent(signature, body), { fault: 'signature' }, 'after five minutes')
  })

  await t.test('pages end: a checkout after a day, a portal after an hour', async t => {
    const { sandbox: other, take: taken } = open()
    const { sessionId } = await other.createCheckout(request())
    await other.complete(sessionId, taken)
    const [row] = await database.sql<{ customer: string }[]>`
      select s.customer_id as customer from sandbox_billing_sessions b join sandbox_subscriptions s using (subscription_id) where b.session_id = ${sessionId}`
    const portal = (await other.portal(row?.customer ?? '', 'https://shop.example')).split('/').at(-1) ?? ''
    clock.advance(3_600_000)
    t.equal(await other.session(portal), null)
    t.equal(await other.cancel(portal, taken), false)
    t.not(await other.session(sessionId), null)
    clock.advance(DAY)
    t.equal(await other.session(sessionId), null)
    t.equal(await other.complete(sessionId, taken), false)
  })
})
