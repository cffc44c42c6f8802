import t from 'tap'
import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { Payout } from '../../../src/lightning/provider-calls/provider.ts'
import { passing } from '../balances/fixture.ts'
import { eachDatabase } from '../../support/database.ts'
import { returnInvoice } from './fixture.ts'
import { PAID, setting } from './refund-fixture.ts'

const MINUTE = 60_000
const NO_ROUTE = new ProviderRefused('request', 'No route.')

const UNSENT: ReadonlyArray<readonly [why: string, fault: Error, wait: number]> = [
  ['the node refuses connections', new NothingSent('away', 5, undefined, 'network'), 10_000],
  ['the look-up before the payment times out', new ProviderUnavailable('late', 5, undefined, 'timeout'), 10_000],
  ['the provider limits calls', new ProviderUnavailable('429', 90, undefined, 'rate'), 90_000],
  ['the key was replaced at the node', new ProviderRefused('key', 'bad macaroon'), 10_000],
  ['the key may not pay', new ProviderRefused('scope', 'offchain:write'), 10_000]
]
void eachDatabase(t, 'a refund that was certainly not sent is retried until it is', async (t, database) => {
  const { clock, provider, refunds, other, store, open } = setting(t, database)
  for (const [why, fault, wait] of UNSENT)
    for (const by of ['client', 'idle'] as const)
      await t.test(`${why} (${by})`, async t => {
        const id = await open()
        provider.sent.length = 0
        provider.fails(fault)
        if (by === 'client') {
          await refunds.close(id, 'client', 'c')
          t.same(await refunds.refund(id), { refundSats: 100, refundStatus: 'failed' })
        } else {
          clock.advance(400_000)
          await refunds.sweep()
        }
        t.match(await store.find(id), { refundStatus: null, refundFault: fault.message, refundSats: 0 })
        clock.advance(wait - 1)
        await Promise.all([refunds.begin(), other.refunds.begin()])
        t.equal(provider.sent.length, 1, 'not before its time')
        for (let hour = 0; hour < 4; hour++) {
          clock.advance(15 * MINUTE)
          await Promise.all([refunds.begin(), other.refunds.begin()])
        }
        t.match(await store.find(id), { refundStatus: null, refundRefusals: 0 })
        t.match(await store.list('stuck', clock.now() - 10 * MINUTE, { skip: 0, take: 10 }), [{ id }])
        const tries = provider.sent.length
        provider.pays()
        clock.advance(15 * MINUTE)
        const all = [refunds.begin(), other.refunds.begin(), refunds.refund(id), other.refunds.refund(id)]
        await passing(t, clock, database, Promise.all<unknown>(all))
        t.equal(provider.sent.length, tries + 1)
        t.match(await store.find(id), { refundStatus: 'confirmed', refundSats: 100, refundedMsat: 100_000 })
        t.same(await refunds.refund(id), { refundSats: 100, refundStatus: 'succeeded' })
        t.match(await store.counts(clock.now()), { stuck: 0 })
      })
})

void eachDatabase(t, 'a refund that the node could not pay is retried ten times, then fails', async (t, database) => {
  const { clock, provider, refunds, overrides, store, open } = setting(t, database)
  const id = await open()
  provider.fails(NO_ROUTE)
  await refunds.close(id, 'client', 'c')
  t.same(await refunds.refund(id), { refundSats: 100, refundStatus: 'failed' })
  for (let n = 0; n < 20; n++) {
    clock.advance(15 * MINUTE)
    await refunds.begin()
  }
  t.equal(provider.sent.length, 10)
  t.equal(new Set(provider.sent.map(({ reference }) => reference)).size, 10)
  t.match(await store.find(id), { refundStatus: 'failed', refundFault: 'No route.', refundedMsat: 0 })
  provider.pays()
  t.match(await overrides.sendAgain(id, null), { refundStatus: 'confirmed', refundSats: 100 })
})

void eachDatabase(t, 'a refund that the provider took and then could not send is retried', async (t, database) => {
  const { closed, clock, provider, refunds, store, open } = setting(t, database)
  const id = await open()
  provider.pay = () => Promise.resolve({ ...PAID, status: 'processing' })
  await closed(id)
  clock.advance(MINUTE)
  const failed: Payout = { ...PAID, status: 'failed', processedAt: clock.now() }
  provider.known = () => Promise.resolve(failed)
  await refunds.followUp()
  t.match(await store.find(id), { refundStatus: null, refundRefusals: 1, refundPayoutId: null })
  provider.pays()
  clock.advance(MINUTE)
  await refunds.begin()
  t.match(await store.find(id), { refundStatus: 'confirmed' })
  t.equal(provider.sent.length, 2)
})

void eachDatabase(
  t,
  'the client pays the routing fee of its refund, and as little as a route takes',
  async (t, database) => {
    const { provider, refunds, store, open } = setting(t, database)
    const close = async (msat: number, fee: number) => {
      provider.sent.length = 0
      provider.pay = () =>
        (provider.sent.at(-1)?.feeLimitSats ?? 0) >= fee ? Promise.resolve(PAID) : Promise.reject(NO_ROUTE)
      const id = await open(msat)
      await refunds.close(id, 'client', 'c')
      const told = await refunds.refund(id)
      for (const { amountSats, feeLimitSats = 0 } of provider.sent)
        t.ok(amountSats >= 1 && amountSats + feeLimitSats <= msat / 1000, `${amountSats} + ${feeLimitSats} of ${msat}`)
      return { told, spent: (await store.find(id))?.spentMsat, tries: provider.sent.length }
    }
    t.match(await close(100_000, 0), { told: { refundSats: 100, refundStatus: 'succeeded' }, tries: 1, spent: 0 })
    t.match(await close(100_000, 2), { told: { refundSats: 98, refundStatus: 'succeeded' }, tries: 2 })
    t.match(await close(100_000, 10), { told: { refundSats: 90, refundStatus: 'succeeded' }, tries: 3 })
    t.match(await close(1_000_000, 50), { told: { refundSats: 950, refundStatus: 'succeeded' }, tries: 3 })
    t.match(await close(8_000, 4), { told: { refundSats: 4, refundStatus: 'succeeded' } }, 'never more than half')
    t.match(await close(1_000, 0), { told: { refundSats: 1, refundStatus: 'succeeded' } })
    t.match(await close(1_000, 1), { told: { refundSats: 1, refundStatus: 'failed' } })
    t.match(await close(1_000_000, 51), { told: { refundStatus: 'failed' }, tries: 3 }, 'and no limit is higher')
  }
)

void eachDatabase(t, 'a provider without a fee limit is sent the rest less its highest fee', async (t, database) => {
  const { provider, refunds, store, open } = setting(t, database)
  provider.mostFee = { sats: 4, percent: 0.4 }
  const [large, small] = [await open(1_000_000), await open(5_000)]
  for (const id of [large, small]) await refunds.close(id, 'client', 'c')
  t.same(await refunds.refund(large), { refundSats: 992, refundStatus: 'succeeded' })
  t.same(await refunds.refund(small), { refundSats: 0, refundStatus: 'skipped' })
  t.equal(provider.sent.length, 1)
  t.match(await store.find(small), { refundStatus: 'skipped' })
})

void eachDatabase(
  t,
  'a refund fails when its invoice expires before it is sent, and goes to another',
  async (t, database) => {
    const { closed, clock, provider, refunds, overrides, store, open } = setting(t, database)
    const id = await open(100_000, returnInvoice({ at: clock.now(), expirySeconds: 1_800 }))
    provider.fails(new NothingSent('away'))
    await closed(id)
    clock.advance(31 * MINUTE)
    provider.pays()
    await refunds.begin()
    t.equal(provider.sent.length, 1, 'the provider is not called')
    t.match(await store.find(id), { refundStatus: 'failed', refundFault: /expired/ })
    t.same(await refunds.refund(id), { refundSats: 100, refundStatus: 'failed' })
    t.match(await store.list('stuck', 0, { skip: 0, take: 10 }), [{ id }])
    const invoice = returnInvoice({ at: clock.now() })
    t.match(await overrides.sendAgain(id, invoice), { refundStatus: 'confirmed', returnInvoice: invoice })
    await t.rejects(overrides.sendAgain(id, returnInvoice({ at: clock.now() })), { status: 409 })
  }
)

void eachDatabase(
  t,
  'an operator ends the retries of a refund, or settles one paid by other means',
  async (t, database) => {
    const { closed, clock, provider, refunds, overrides, store, open } = setting(t, database)
    const [ended, paid] = [await open(), await open()]
    provider.fails(new NothingSent('away'))
    for (const id of [ended, paid]) {
      await closed(id)
    }
    const words = { settledBy: 'Ada', reason: 'x' }
    t.match(await overrides.settle(ended, { ...words, outcome: 'not-sent' }), { refundStatus: 'failed' })
    t.match(await overrides.settle(paid, { ...words, outcome: 'sent' }), {
      refundStatus: 'confirmed',
      refundedMsat: 100_000
    })
    clock.advance(15 * MINUTE)
    await refunds.begin()
    t.equal(provider.sent.length, 2)
    await t.rejects(overrides.settle(ended, { ...words, outcome: 'not-sent' }), { status: 409 })
    t.match(await overrides.settle(ended, { ...words, outcome: 'sent' }), { refundStatus: 'confirmed' })
    t.match(await store.find(ended), { refundedMsat: 100_000 })
  }
)
