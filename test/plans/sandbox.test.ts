import t from 'tap'
import { SandboxBilling } from '../../src/plans/sandbox/sandbox.ts'
import type { CheckoutRequest } from '../../src/plans/provider.ts'
import { systemRandom } from '../../src/platform/system/ids.ts'
import { openAnyDatabase } from '../support/database.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { DAY } from './fixture.ts'

t.test('the sandbox of billing', async t => {
  const clock = new ManualClock()
  const sandbox = new SandboxBilling({
    database: await openAnyDatabase(t),
    clock,
    random: systemRandom,
    publicUrl: () => 'https://gateway.example'
  })
  const heard: string[] = []
  const take = async (subscriptionId: string) => {
    heard.push(subscriptionId)
  }
  let keys = 0
  const checkout = (different: Partial<CheckoutRequest> = {}) =>
    sandbox.createCheckout({
      plan: 'individual',
      email: 'buyer@example.com',
      customerName: 'Buyer',
      merchantId: null,
      customerId: null,
      trialDays: 30,
      successUrl: 'https://shop.example/done',
      cancelUrl: 'https://shop.example/left',
      idempotencyKey: `key-${++keys}`,
      ...different
    })
  const complete = async (different: Partial<CheckoutRequest> = {}): Promise<string> => {
    await sandbox.complete((await checkout(different)).sessionId, take)
    return heard.at(-1) ?? ''
  }
  const portalOf = async (subscriptionId: string): Promise<string> => {
    const { customerId = '' } = (await sandbox.subscription(subscriptionId)) ?? {}
    return (await sandbox.portal(customerId, 'https://shop.example/account')).split('/').at(-1) ?? ''
  }

  await t.test('completing a checkout reports its subscription, twice completed the same one', async t => {
    const { sessionId } = await checkout()
    t.equal(await sandbox.complete(sessionId, take), true)
    t.equal(await sandbox.complete(sessionId, take), true)
    t.equal(heard[0], heard[1])
    t.match(await sandbox.subscription(heard[0] ?? ''), { email: 'buyer@example.com', plan: 'individual' })
  })

  await t.test('one idempotency key makes one session', async t => {
    const [one, other] = await Promise.all([checkout({ idempotencyKey: 'same' }), checkout({ idempotencyKey: 'same' })])
    t.equal(one.sessionId, other.sessionId)
  })

  await t.test(
    'without a trial it is active immediately; trials end and periods are renewed automatically',
    async t => {
      const paid = await complete({ trialDays: 0 })
      const trial = await complete({ trialDays: 14 })
      const start = clock.now()
      t.match(await sandbox.subscription(trial), { status: /^trialing$/, currentPeriodEnd: start + 14 * DAY })
      t.match(await sandbox.subscription(paid), { status: /^active$/, currentPeriodEnd: start + 30 * DAY })
      clock.advance(14 * DAY)
      t.match(await sandbox.subscription(trial), { status: /^active$/, currentPeriodEnd: start + 44 * DAY })
      clock.advance(100 * DAY)
      t.match(await sandbox.subscription(trial), { status: /^active$/, currentPeriodEnd: start + 134 * DAY })
      t.match(await sandbox.subscription(paid), { status: /^active$/, currentPeriodEnd: start + 120 * DAY })
    }
  )

  await t.test(
    'the portal has the card fail and work again: past_due is not renewed automatically, and what is canceled stays so',
    async t => {
      const subscriptionId = await complete({ trialDays: 0 })
      const status = async () => (await sandbox.subscription(subscriptionId))?.status
      t.equal(await sandbox.turn(await portalOf(subscriptionId), 'fail', take), true)
      t.equal(heard.at(-1), subscriptionId)
      clock.advance(40 * DAY)
      t.equal(await status(), 'past_due')
      t.equal(await sandbox.turn(await portalOf(subscriptionId), 'recover', take), true)
      t.equal(await status(), 'active')
      await sandbox.turn(await portalOf(subscriptionId), 'cancel', take)
      await sandbox.turn(await portalOf(subscriptionId), 'recover', take)
      clock.advance(40 * DAY)
      t.equal(await status(), 'canceled')
      t.equal(await sandbox.turn('bps_sandbox_unknown', 'fail', take), false)
    }
  )

  await t.test('a known customer stays the same one, and an unknown one has no portal', async t => {
    const { customerId = '' } = (await sandbox.subscription(await complete())) ?? {}
    t.match(await sandbox.subscription(await complete({ customerId, merchantId: 7 })), { customerId, merchantId: 7 })
    await t.rejects(sandbox.portal('cus_unknown', 'https://shop.example'), { name: 'BillingError', fault: 'refused' })
  })

  await t.test('pages end: a checkout after a day, a portal after an hour', async t => {
    const { sessionId } = await checkout()
    await sandbox.complete(sessionId, take)
    const portal = await portalOf(heard.at(-1) ?? '')
    clock.advance(3_600_000)
    t.equal(await sandbox.session(portal), null)
    t.equal(await sandbox.turn(portal, 'cancel', take), false)
    t.not(await sandbox.session(sessionId), null)
    clock.advance(DAY)
    t.equal(await sandbox.session(sessionId), null)
    t.equal(await sandbox.complete(sessionId, take), false)
  })
})
