import t from 'tap'
import { BillingError } from '../../src/plans/provider.ts'
import { Recheck } from '../../src/plans/subscriptions.ts'
import { subscriptionGate } from '../../src/accounts/merchants/gate.ts'
import type { Merchant } from '../../src/accounts/merchants/schema.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { openAnyDatabase } from '../support/database.ts'
import { DAY, fixture, subId } from './fixture.ts'
import { until } from '../support/until.ts'

t.test(
  'Trialing past period end? Also "period expired"; the gate checks billing once more before refusing (decision 83)',
  async t => {
    const database = await openAnyDatabase(t)
    const f = fixture(database)
    const { clock, provider, cards, store, account, merchant, stands } = f
    const recheck = new Recheck({ subscriptions: cards, store, merchants: f.merchants, clock, log: silentLog })
    const gating = subscriptionGate(one => recheck.ask(one))
    const expired = { error: 'Subscription period expired', status: 403 }

    /** An account whose period ends a second ago, by what it shows. */
    const ended = async (status = 'active') => {
      const { id } = await account()
      const { subscriptionId } = stands({
        subscriptionId: subId(),
        merchantId: id,
        status,
        currentPeriodEnd: clock.now() - 1000
      })
      await cards.refresh(subscriptionId)
      return { one: await merchant(id), subscriptionId }
    }
    const refusal = async (one: Merchant) => await gating.refusal(one, null, clock.now())

    for (const status of ['active', 'trialing']) {
      await t.test(`${status}, and renewed in the meantime: it passes, and what was learnt is kept`, async t => {
        const { one, subscriptionId } = await ended(status)
        stands({ subscriptionId, status: 'active', currentPeriodEnd: clock.now() + 30 * DAY })
        t.equal(await refusal(one), null)
        t.match(await merchant(one.id), { subscriptionStatus: /^active$/, currentPeriodEnd: clock.now() + 30 * DAY })
      })
    }

    await t.test('not renewed: refused, and not checked again for a minute', async t => {
      const { one, subscriptionId } = await ended()
      const before = provider.requests
      for (let request = 0; request < 5; request++) t.match(await refusal(one), expired)
      t.equal(provider.requests, before + 1)
      clock.advance(60_000)
      stands({ subscriptionId, currentPeriodEnd: clock.now() + DAY })
      t.equal(await refusal(one), null)
      t.equal(provider.requests, before + 2)
    })

    await t.test('of concurrent requests one asks, and all of them learn', async t => {
      const { one, subscriptionId } = await ended()
      stands({ subscriptionId, currentPeriodEnd: clock.now() + DAY })
      const before = provider.requests
      t.strictSame(
        await Promise.all(Array.from({ length: 20 }, () => refusal(one))),
        Array.from({ length: 20 }, () => null)
      )
      t.equal(provider.requests, before + 1)
    })

    await t.test(
      'an unavailable provider, or an error of any kind, is no 500: the account is judged by what is known',
      async t => {
        for (const error of [
          new BillingError('away', 'for the test'),
          new BillingError('refused', 'for the test'),
          new TypeError('for the test')
        ]) {
          const { one } = await ended()
          provider.answering = () => Promise.reject(error)
          t.match(await refusal(one), expired, String(error))
          provider.answering = async () => {}
        }
      }
    )

    await t.test(
      'a provider that hangs holds a request for three seconds; what it says later counts for the next',
      async t => {
        const { one, subscriptionId } = await ended()
        stands({ subscriptionId, currentPeriodEnd: clock.now() + DAY })
        const slow = Promise.withResolvers<void>()
        const before = provider.requests
        provider.answering = () => slow.promise
        const pending = refusal(one)
        await until(() => provider.requests !== before)
        clock.advance(3_000)
        t.match(await pending, expired)
        slow.resolve()
        provider.answering = async () => {}
        await until(async () => (await merchant(one.id)).currentPeriodEnd !== one.currentPeriodEnd)
        t.equal(await refusal(await merchant(one.id)), null)
      }
    )

    await t.test('an account that pays in bitcoin has nothing to check, unless it also has a card', async t => {
      const { one, subscriptionId } = await ended()
      const bitcoin = { ...one, billingSubscriptionId: 'btc_1' }
      const other = await account({
        tier: 'individual',
        subscription: {
          subscriptionStatus: 'active',
          currentPeriodEnd: clock.now() - 1,
          billingCustomerId: null,
          billingSubscriptionId: 'btc_2'
        }
      })
      const before = provider.requests
      t.match(await refusal(other), expired)
      t.equal(provider.requests, before)
      stands({ subscriptionId, currentPeriodEnd: clock.now() + DAY })
      t.equal(await refusal(bitcoin), null)
      t.equal(provider.requests, before + 1)
    })
  }
)
