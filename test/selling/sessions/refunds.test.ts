import t from 'tap'
import { PayoutUncertain, ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { Payout } from '../../../src/lightning/provider-calls/provider.ts'
import { passing, reserved, settled, use, written } from '../balances/fixture.ts'
import { eachDatabase } from '../../support/database.ts'
import { returnInvoice } from './fixture.ts'
import { PAID, setting } from './refund-fixture.ts'
import { until } from '../../support/until.ts'

void eachDatabase(t, 'a session that rests is closed after its idle time and paid back, once', async (t, database) => {
  const { clock, provider, store, refunds, other, open } = setting(t, database)
  const [idle, used] = [await open(), await open()]
  clock.advance(200_000)
  await store.touch(used, clock.now())
  clock.advance(131_000)
  await Promise.all([refunds.sweep(), other.refunds.sweep(), refunds.sweep()])
  t.match(await store.find(idle), { closedBy: 'idle', refundStatus: 'confirmed', refundSats: 100, refundFeeSats: 1 })
  t.match(await store.find(idle), { depositedMsat: 100_000, spentMsat: 0, refundedMsat: 100_000 })
  t.match(await store.find(used), { closedAt: null })
  t.equal(provider.sent.length, 1)
  clock.advance(200_000)
  await refunds.sweep()
  t.match(await store.find(used), { closedBy: 'idle' })
  t.equal(provider.sent.length, 2)
})

void eachDatabase(
  t,
  'a session is not idle while a request of it is in flight, and ends before its invoice',
  async (t, database) => {
    const { clock, ledger, refunds, store, open } = setting(t, database)
    const id = await open()
    const held = await reserved(ledger, id, 5_000)
    await written(clock, [ledger], 400_000)
    await refunds.sweep()
    t.match(await store.find(id), { closedAt: null })
    await settled(ledger, held, 5_000)
    await written(clock, [ledger], 20_000)
    await store.touch(id, clock.now())
    clock.leap(30 * 86_400_000)
    await store.touch(id, clock.now())
    await refunds.sweep()
    t.match(await store.find(id), { closedBy: 'end', refundSats: 95 })
  }
)

for (const nearest of ['the gateway that serves its last request', 'another gateway'] as const)
  void eachDatabase(
    t,
    `of any number of closers one closes, and one refund is sent immediately: ${nearest}`,
    async (t, database) => {
      const { clock, provider, refunds, other, ledger, store, open } = setting(t, database)
      await Promise.all([ledger.start(), other.ledger.start()])
      const id = await open()
      const held = await reserved(ledger, id, 7_000)
      const first = nearest === 'another gateway' ? other.refunds : refunds
      const closed = await Promise.all([
        first.close(id, 'client', 'c1'),
        first.close(id, 'client', 'c2'),
        first.close(id, 'operator')
      ])
      t.equal(closed.filter(Boolean).length, 1)
      t.notOk((await refunds.close(id, 'operator')) || (await other.refunds.close(id, 'operator')))
      t.match(await other.ledger.reserve(id, 1), { kind: 'refused', why: 'closed' })
      const told = [refunds.refund(id), other.refunds.refund(id), refunds.begin(), other.refunds.begin()]
      await ledger.settle(held, 6_500, use())
      const answers = await passing(t, clock, database, Promise.all(told))
      t.equal(provider.sent.length, 1, 'once all gateways have let go of it')
      t.same(
        answers.map(answer => answer?.refundStatus),
        ['succeeded', 'succeeded', undefined, undefined],
        'and each closer gets that, whichever sent it'
      )
      t.match(provider.sent[0], { amountSats: 93, destination: { type: 'ln' } }, 'in whole satoshis')
      t.match(await store.find(id), { spentMsat: 6_500, refundedMsat: 93_000, refundStatus: 'confirmed', heldMsat: 0 })
      t.match(await refunds.refund(id), { refundSats: 93, refundStatus: 'succeeded' })
    }
  )

void eachDatabase(t, 'a close while another gateway sends the refund returns its outcome', async (t, database) => {
  const { clock, provider, refunds, other, store, open } = setting(t, database)
  const [paid, lost] = [await open(), await open()]
  for (const id of [paid, lost]) await refunds.close(id, 'client', 'c')
  const payouts = [Promise.withResolvers<Payout>(), Promise.withResolvers<Payout>()]
  provider.pay = () => payouts[provider.sent.length - 1]?.promise ?? Promise.reject(new Error('sent a third time'))
  const sending = other.refunds.begin()
  await until(() => provider.sent.length >= 1)
  const told = passing(t, clock, database, refunds.refund(paid))
  payouts[0]?.resolve(PAID)
  t.match(await told, { refundSats: 100, refundStatus: 'succeeded' }, 'once the node has paid')
  await until(() => provider.sent.length >= 2)
  payouts[1]?.reject(new PayoutUncertain(new Error('reset')))
  await sending
  const requests = clock.now()
  t.match(await passing(t, clock, database, refunds.refund(lost)), { refundSats: 100, refundStatus: 'failed' })
  t.ok(
    clock.now() - requests >= 60_000 - 1_000 && clock.now() - requests < 70_000,
    'until it cannot be on its way any more'
  )
  t.match(await store.find(lost), { refundStatus: 'pending' })
})

void eachDatabase(t, 'a refund whose outcome is not known is looked up and never sent again', async (t, database) => {
  const { clock, provider, ended, refunds, overrides, store, open } = setting(t, database)
  const id = await open()
  provider.loses()
  await refunds.close(id, 'client', 'c')
  t.same(await refunds.refund(id), { refundSats: 100, refundStatus: 'failed' }, 'the protocol has no other term')
  t.match(await store.find(id), { refundStatus: 'pending', refundedMsat: 0 })
  await refunds.begin()
  const from = new Date(clock.now() + 600_000).toISOString()
  const conflict = { status: 409, message: new RegExp(`^It is looked up; .* from ${from} on\\.$`) }
  await t.rejects(overrides.sendAgain(id, null), conflict)
  await t.rejects(overrides.settle(id, { outcome: 'not-sent', settledBy: 'Ada', reason: 'x' }), conflict)
  clock.advance(61_000)
  provider.known = () => Promise.reject(new ProviderUnavailable('away'))
  await refunds.followUp()
  const looked = provider.looked.length
  await refunds.followUp()
  t.equal(provider.looked.length, looked, 'not again before its next time')
  t.match(await store.find(id), { refundStatus: 'pending' })
  clock.advance(61_000)
  provider.known = () => Promise.resolve({ ...PAID, status: 'processing' })
  await refunds.followUp()
  t.match(await store.find(id), { refundStatus: 'processing', refundPayoutId: 'p1' })
  provider.knows()
  clock.advance(1_000_000)
  await refunds.followUp()
  t.match(await store.find(id), { refundStatus: 'confirmed', refundedMsat: 100_000 })
  t.same(ended, ['confirmed 100'])
  t.equal(provider.sent.length, 1)
  t.ok(provider.looked.every(({ reference }) => reference === provider.sent[0]?.reference))
})

void eachDatabase(
  t,
  'a refund that never reached a provider that may pay twice is failed after ten minutes, and stuck until it is sent again by hand',
  async (t, database) => {
    const { closed, clock, provider, refunds, overrides, store, open } = setting(t, database)
    provider.once = false
    const id = await open()
    provider.loses()
    await closed(id)
    clock.advance(61_000)
    await refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'pending' })
    clock.advance(600_000)
    await refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'failed', refundFault: /never heard/, refundedMsat: 0 })
    const lost = clock.now() - 600_000
    t.match(await store.list('stuck', lost, { skip: 0, take: 10 }), [{ id }])
    t.match(await store.counts(lost), { open: 0, stuck: 1 })
    await refunds.begin()
    t.equal(provider.sent.length, 1, 'it is never sent automatically')
    provider.pays()
    const invoice = returnInvoice({ at: clock.now() })
    await t.rejects(overrides.sendAgain(id, returnInvoice({ at: clock.now(), network: 'mainnet' })), { status: 400 })
    t.match(await overrides.sendAgain(id, invoice), {
      refundStatus: 'confirmed',
      refundSats: 100,
      returnInvoice: invoice
    })
    t.not(provider.sent[1]?.reference, provider.sent[0]?.reference)
    await t.rejects(overrides.sendAgain(id, null), { status: 409 })
    t.equal(provider.sent.length, 2)
  }
)

void eachDatabase(t, 'a refund whose outcome was lost can be settled manually', async (t, database) => {
  const { clock, provider, refunds, overrides, store, open } = setting(t, database)
  const lost = await open()
  provider.loses()
  await refunds.close(lost, 'idle')
  await refunds.refund(lost)
  clock.advance(601_000)
  const word = { outcome: 'sent', settledBy: 'Ada', reason: 'The node lists it.' } as const
  t.match(await overrides.settle(lost, word), { refundStatus: 'confirmed', settledBy: 'Ada', refundedMsat: 100_000 })
  await t.rejects(overrides.settle(lost, word), { status: 409 })
  const told = { refundSats: 100, refundStatus: 'succeeded' } as const
  t.same(await store.tell(lost, told), told)
  t.same(await store.tell(lost, { refundSats: 0, refundStatus: 'failed' }), told, 'the final state')
  const unknown = 'ab'.repeat(32)
  await t.rejects(overrides.settle(unknown, word), { status: 404 })
  t.notOk(await refunds.close(unknown, 'operator'))
})

/** A gateway dies at a point of a refund; the provider knows its outcome by then. */
const DEATHS = {
  'before its request went out': { isKnown: false },
  'after its request was answered, before that was written': { isKnown: true }
} as const

for (const [point, { isKnown }] of Object.entries(DEATHS))
  void eachDatabase(
    t,
    `a gateway that dies ${point} leaves a refund that others end, sent once`,
    async (t, database) => {
      const { clock, provider, refunds, other, store, open } = setting(t, database)
      const id = await open()
      provider.pay = () => new Promise<never>(() => {})
      await refunds.close(id, 'client', 'c')
      void refunds.refund(id)
      await until(() => provider.sent.length > 0)
      provider.pays()
      if (isKnown) provider.knows()
      clock.advance(59_000)
      await other.refunds.followUp()
      t.equal(provider.looked.length, 0, 'not while it may be on its way')
      clock.advance(2_000)
      await Promise.all([other.refunds.followUp(), other.refunds.followUp()])
      t.match(await store.find(id), { refundStatus: 'confirmed', refundedMsat: 100_000 })
      t.equal(provider.sent.length, isKnown ? 1 : 2)
      t.same(provider.sent.at(-1), provider.sent[0], 'by the same request, which is paid once')
      clock.advance(1_000_000)
      await other.refunds.followUp()
      t.equal(provider.sent.length, isKnown ? 1 : 2)
    }
  )

void eachDatabase(
  t,
  'a request that is lost repeatedly starts over once it is surely no longer on its way, until the operator settles it',
  async (t, database) => {
    const { closed, clock, provider, refunds, overrides, store, open } = setting(t, database)
    const id = await open()
    provider.loses()
    await closed(id)
    for (let minute = 0; minute < 10; minute++) {
      clock.advance(60_000)
      await refunds.followUp()
    }
    clock.advance(1)
    const sent = provider.sent.length
    t.ok(sent > 2, `sent ${sent} times`)
    t.equal(new Set(provider.sent.map(({ reference }) => reference)).size, 1)
    const word = { outcome: 'not-sent', settledBy: 'Ada', reason: 'It is not there.' } as const
    t.match(await store.list('stuck', clock.now() - 600_000, { skip: 0, take: 10 }), [{ id, refundStatus: 'pending' }])
    await t.rejects(overrides.settle(id, word), { status: 409 }, 'the last request may still be on its way')
    clock.advance(600_000)
    await refunds.followUp()
    t.equal(provider.sent.length, sent)
    t.match(await store.find(id), { refundStatus: null, refundFault: /never heard/, refundRefusals: 1 })
    await refunds.begin()
    t.match(provider.sent.at(-1), { amountSats: 98, feeLimitSats: 2 })
    clock.advance(600_000)
    t.match(await overrides.settle(id, word), { refundStatus: 'failed', settledBy: 'Ada' })
  }
)

void eachDatabase(
  t,
  'a gateway that wakes late sends nothing, and its refusal undoes no request of another',
  async (t, database) => {
    const { clock, provider, refunds, other, store, open } = setting(t, database)
    const id = await open()
    const late = Promise.withResolvers<Payout>()
    provider.pay = () => late.promise
    await refunds.close(id, 'client', 'c')
    const told = refunds.refund(id)
    await until(() => provider.sent.length > 0)
    clock.advance(61_000)
    provider.loses()
    for (let time = 0; time < 2; time++) await other.refunds.followUp()
    t.same([provider.sent.length, provider.looked.length], [2, 1])
    late.reject(new ProviderRefused('request', 'No route.'))
    await told
    t.match(await store.find(id), { refundStatus: 'pending' }, 'the second request may have paid')
    provider.knows()
    clock.advance(61_000)
    await other.refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'confirmed' })
  }
)

void eachDatabase(
  t,
  'a refusal of a second request says nothing of the first while that may be on its way',
  async (t, database) => {
    const { closed, clock, provider, refunds, overrides, store, open } = setting(t, database)
    const id = await open()
    provider.loses()
    await closed(id)
    provider.fails(new ProviderRefused('request', 'No route.'))
    clock.advance(61_000)
    await refunds.followUp()
    t.equal(provider.sent.length, 2)
    t.match(await store.find(id), { refundStatus: 'pending' })
    await t.rejects(overrides.sendAgain(id, null), { status: 409 })
    provider.knows()
    clock.advance(61_000)
    await refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'confirmed' })
  }
)

void eachDatabase(
  t,
  'a refund that was lost while all gateways were down for an hour is sent again',
  async (t, database) => {
    const { clock, provider, refunds, other, store, open } = setting(t, database)
    const [hour, month] = [await open(), await open()]
    provider.pay = () => new Promise<never>(() => {})
    for (const id of [hour, month]) {
      await refunds.close(id, 'client', 'c')
      void refunds.refund(id)
    }
    await until(() => provider.sent.length >= 2)
    provider.pays()
    await database.sql`update sessions set refund_begun_at = refund_begun_at - interval '2 days',
      refund_asked_at = refund_asked_at - interval '2 days' where id = ${month}`
    clock.leap(3_600_000)
    await other.refunds.followUp()
    t.match(await store.find(hour), { refundStatus: 'confirmed' })
    t.match(await store.find(month), { refundStatus: 'failed' }, 'a node may have forgotten what it paid long ago')
    t.equal(provider.sent.length, 3)
  }
)

void eachDatabase(
  t,
  'a refund whose answer was lost is not taken for failed because an earlier one to the same invoice had failed',
  async (t, database) => {
    const { closed, clock, provider, refunds, store, open } = setting(t, database)
    provider.once = false
    const earlier: Payout = { ...PAID, status: 'failed', processedAt: clock.now() }
    clock.advance(2_000)
    const id = await open()
    provider.loses()
    provider.known = () => Promise.resolve(earlier)
    await closed(id)
    clock.advance(61_000)
    await refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'pending', refundPayoutId: null })
    provider.knows()
    clock.advance(61_000)
    await refunds.followUp()
    t.match(await store.find(id), { refundStatus: 'confirmed' })
  }
)
