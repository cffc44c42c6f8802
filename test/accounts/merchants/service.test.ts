import { testMerchants } from '../../support/merchants.ts'
import * as fc from 'fast-check'
import t, { type Test as T } from 'tap'
import { firstRunMerchant } from '../../../src/accounts/merchants/first-run.ts'
import { gate, subscriptionGate } from '../../../src/accounts/merchants/gate.ts'
import type { SubscriptionFacts } from '../../../src/accounts/merchants/schema.ts'
import { merchantsChannel } from '../../../src/accounts/merchants/store.ts'
import { generateApiKey } from '../../../src/platform/keys/api-key.ts'
import { type Database } from '../../../src/platform/database/database.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { providerOf } from '../../../src/lightning/providers/slot-keys.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function setUp(database: Database) {
  const clock = new ManualClock()
  const merchants = testMerchants(database, clock)
  return { merchants, clock }
}

/** The value, which must be there. */
function there<V>(value: V | null | undefined) {
  if (value === null || value === undefined) throw new Error('expected a value')
  return value
}

void eachDatabase(t, 'accounts', async (t: T, database) => {
  const { merchants, clock } = setUp(database)
  let count = 0
  const fresh = () => merchants.create({ name: 'Shop', email: `shop${++count}@example.com` })

  await t.test(
    'an account made without a plan is free, active, l402 on and the other flags off (decision 76)',
    async t => {
      const { merchant, apiKey } = await merchants.create({ name: 'Acme', email: ' Acme@Example.COM ' })
      t.match(merchant, {
        name: 'Acme',
        email: 'acme@example.com',
        storedTier: 'free',
        tier: 'free',
        subscriptionStatus: 'active',
        currentPeriodEnd: null,
        isActive: true,
        flags: { refundsEnabled: false, multiCurrencyEnabled: false, l402Enabled: true },
        providerChoice: null,
        primaryKey: null,
        alternateKey: null,
        webhookUrl: null,
        createdAt: clock.now(),
        keyCreatedAt: clock.now(),
        keyRotatedAt: null
      })
      t.type(merchant.id, 'number')
      t.same((await merchants.holderOf(apiKey.reveal()))?.merchant, merchant)
      t.same(await merchants.byId(merchant.id), merchant)
      t.same(await merchants.byEmail('ACME@example.com'), merchant)
    }
  )

  await t.test('malformed, unknown, half-right, replaced and deactivated keys all give nothing', async t => {
    const { merchant, apiKey } = await fresh()
    const text = apiKey.reveal()
    const last = text.endsWith('A') ? 'B' : 'A'
    for (const wrong of [
      '',
      'x',
      'bg_',
      text.slice(0, -1),
      `${text} `,
      `${text.slice(0, -1)}${last}`,
      generateApiKey().key.reveal(),
      text.toUpperCase()
    ]) {
      t.equal(await merchants.holderOf(wrong), null, JSON.stringify(wrong))
    }
    await merchants.deactivate(merchant.id)
    t.equal(await merchants.holderOf(text), null)
    await merchants.reactivate(merchant.id)
    t.equal(there(await merchants.holderOf(text)).merchant.id, merchant.id)
  })

  await t.test('l402Enabled is false whenever isActive is false, and comes back; both acts are repeatable', async t => {
    const { merchant } = await fresh()
    await merchants.deactivate(merchant.id)
    const off = there(await merchants.deactivate(merchant.id))
    t.match(off, { isActive: false, flags: { l402Enabled: false } })
    await merchants.reactivate(merchant.id)
    t.match(there(await merchants.reactivate(merchant.id)), { isActive: true, flags: { l402Enabled: true } })
    t.equal(await merchants.deactivate(2_000_000_000), null)
  })

  await t.test(
    'saving a primary key writes the choice primary only where there is none; alternate never does',
    async t => {
      const one = (await fresh()).merchant
      t.equal(
        there(await merchants.setProviderKey(one.id, 'alternate', new Secret('alternate-key'))).providerChoice,
        null
      )
      t.equal(providerOf(there(await merchants.byId(one.id))), 'alternate', 'the only key decides')
      const both = there(await merchants.setProviderKey(one.id, 'primary', new Secret('primary-key')))
      t.equal(both.providerChoice, 'primary', 'even over a lone alternate key')
      const two = (await fresh()).merchant
      await merchants.change(two.id, { providerChoice: 'alternate' })
      const kept = there(await merchants.setProviderKey(two.id, 'primary', new Secret('primary-key')))
      t.equal(kept.providerChoice, 'alternate', 'an explicit choice is never overwritten')
      t.equal(providerOf(kept), 'alternate', 'an explicit choice of a slot without a key is kept')
      const three = await merchants.create({
        name: 'P',
        email: 'primary@example.com',
        primaryApiKey: new Secret('primary-key')
      })
      t.equal(three.merchant.providerChoice, 'primary')
      for (const { id } of [one, three.merchant]) {
        await merchants.setProviderKey(id, 'alternate', new Secret('alternate-key'))
        const left = there(await merchants.removeProviderKey(id, 'primary'))
        t.equal(providerOf(left), 'alternate', 'without the key its choice is taken back')
      }
      const four = (await fresh()).merchant
      await merchants.setProviderKey(four.id, 'primary', new Secret('primary-key'))
      await merchants.change(four.id, { providerChoice: 'primary' })
      t.equal(
        there(await merchants.removeProviderKey(four.id, 'primary')).providerChoice,
        'primary',
        'an explicit one stays'
      )
    }
  )

  await t.test(
    'whatever is set and cleared in whatever order, the URL is the last one and always has its secret',
    async () => {
      const { merchant } = await fresh()
      const part = (values: readonly string[]) =>
        fc.option(fc.option(fc.constantFrom(...values), { nil: undefined }), { nil: null })
      const change = fc.record({
        url: part(['https://a.example/', 'https://b.example/']),
        secret: part(['a secret of sixteen', 'another of sixteen'])
      })
      await fc.assert(
        fc.asyncProperty(fc.array(change, { maxLength: 6 }), async changes => {
          let url = there(await merchants.changeWebhook(merchant.id, { url: null, secret: null })).merchant.webhookUrl
          let secret: string | null = null
          for (const { url: newUrl, secret: newSecret } of changes) {
            const { merchant: after, issued } = there(
              await merchants.changeWebhook(merchant.id, {
                ...(newUrl === undefined ? {} : { url: newUrl }),
                ...(newSecret === undefined ? {} : { secret: newSecret === null ? null : new Secret(newSecret) })
              })
            )
            if (newUrl !== undefined) url = newUrl
            if (newSecret !== undefined) secret = newSecret
            const needed = url !== null && secret === null
            if (needed !== (issued !== null)) return false
            secret = issued?.reveal() ?? secret
            if (after.webhookUrl !== url || (merchants.webhookSecret(after)?.reveal() ?? null) !== secret) return false
          }
          return true
        }),
        { numRuns: 30 }
      )
    }
  )

  await t.test('of webhook URLs set concurrently only the one that is kept returns its secret', async t => {
    const { merchant } = await fresh()
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, n) => merchants.changeWebhook(merchant.id, { url: `https://shop.example/${n}` }))
    )
    const issued = all.flatMap(changed => changed?.issued?.reveal() ?? [])
    t.equal(issued.length, 1)
    t.same(issued, [there(merchants.webhookSecret(there(await merchants.byId(merchant.id)))).reveal()])
  })

  await t.test('an account made with a webhook URL has a secret for it', async t => {
    const { merchant } = await merchants.create({
      name: 'W',
      email: 'webhook@example.com',
      webhookUrl: 'https://shop.example/hook'
    })
    t.match(there(merchants.webhookSecret(merchant)).reveal(), /^whsec_[A-Za-z0-9_-]{43}$/)
  })

  await t.test('every write notifies the listeners of its account', async t => {
    const { merchant } = await fresh()
    const heard = Promise.withResolvers<string>()
    const stop = await database.listen(merchantsChannel, payload => {
      heard.resolve(payload)
    })
    t.teardown(stop)
    await merchants.deactivate(merchant.id)
    t.equal(await heard.promise, String(merchant.id))
  })

  await t.test(
    'the first-run merchant: individual, active, all three flags on, sandbox key saved (decision 75)',
    async t => {
      const first = there(await firstRunMerchant(merchants, null, true, false))
      const merchant = there(await merchants.holderOf(first.apiKey.reveal())).merchant
      t.match(merchant, {
        id: first.id,
        tier: 'individual',
        isActive: true,
        flags: { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true }
      })
      t.not(merchant.primaryKey, null)
      for (const feature of ['refunds', 'multi_currency', 'l402'] as const)
        t.equal(gate(merchant, feature, clock.now()), null, feature)
      t.equal(await firstRunMerchant(merchants, first, true, true), first, 'URLs from the keys file are unchanged')
      const elsewhere = { id: first.id + 1000, apiKey: first.apiKey }
      for (const known of [null, elsewhere])
        t.equal(await firstRunMerchant(merchants, known, true, false), null, 'another data folder gets no key')
      t.equal(there(await merchants.holderOf(first.apiKey.reveal())).merchant.id, first.id, 'the key still works')
      const again = there(await firstRunMerchant(merchants, null, true, true))
      t.equal(again.id, first.id, 'a lost keys file does not make a second account')
      t.equal(await merchants.holderOf(first.apiKey.reveal()), null)
      t.equal(there(await merchants.holderOf(again.apiKey.reveal())).merchant.id, first.id)
    }
  )

  await t.test('billing is queried again before an ended period is refused (decision 83)', async t => {
    let requests = 0
    let renewed: SubscriptionFacts | null = null
    const { merchants, clock } = setUp(database)
    const gating = subscriptionGate(async ({ id }) => {
      requests++
      return renewed === null ? null : await merchants.change(id, renewed)
    })
    const { merchant } = await merchants.create({ name: 'R', email: 'renewal@example.com', tier: 'individual' })
    const ended = there(await merchants.change(merchant.id, { currentPeriodEnd: clock.now() - 1 }))
    t.match(await gating.refusal(ended, null, clock.now()), { error: 'Subscription period expired' })
    t.equal(requests, 1)
    renewed = {
      subscriptionStatus: 'active',
      currentPeriodEnd: clock.now() + 1000,
      billingCustomerId: null,
      billingSubscriptionId: null
    }
    t.equal(await gating.refusal(ended, null, clock.now()), null)
    t.equal(there(await merchants.byId(merchant.id)).currentPeriodEnd, clock.now() + 1000, 'the learned value is kept')
    t.match(await gating.refusal({ ...ended, subscriptionStatus: 'canceled' }, null, clock.now()), {
      error: 'Subscription not active'
    })
    t.equal(requests, 2, 'other refusals do not ask')
  })
})
