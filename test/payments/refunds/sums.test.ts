import fc from 'fast-check'
import t, { type Test as T } from 'tap'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import type { Refund } from '../../../src/payments/refunds/schema.ts'
import { eachDatabase } from '../../support/database.ts'
import type { HeaderFate } from './fake-provider.ts'
import { addressOf, fixtureOn, type Fixture } from './fixture.ts'

const refundAddress = addressOf()

/** What was sent and is not known to have come back, in satoshis. */
function sentFor(f: Fixture, refunds: readonly Refund[]) {
  const own = new Set(refunds.map(refund => refund.refundId))
  return f.provider.sent
    .filter(({ reference }) => own.has(reference) && f.provider.payouts.get(reference)?.status !== 'failed')
    .reduce((sum, { amountSats }) => sum + amountSats, 0)
}

function sum(refunds: readonly Refund[], of: (refund: Refund) => boolean) {
  return refunds.filter(of).reduce((total, { amountSats }) => total + amountSats, 0)
}

function wasSentTwice(f: Fixture) {
  return new Set(f.provider.asked.map(request => request.reference)).size !== f.provider.asked.length
}

void eachDatabase(t, 'partial refunds never add up to more than was paid', async (t: T, database) => {
  const f = await fixtureOn(database)
  const { provider, merchant } = f

  const fates: ReadonlyArray<[name: string, isCertain: boolean, fate: (request: PayoutRequest) => HeaderFate]> = [
    ['and every answer arrives', true, () => 'pays'],
    ['and every answer is lost', true, () => 'lost after'],
    ['and a third is refused', false, request => (Number(request.reference) % 3 === 0 ? 'refuses' : 'pays')]
  ]
  for (const [name, isCertain, fate] of fates) {
    await t.test(
      `200 concurrent partial refunds against one payment, from two processes, ${name}: the sum never passes what was paid`,
      async t => {
        provider.fate = fate
        const payment = await f.payment({ amountSats: 1000 })
        const processes = [f.refunds, f.another()]
        const tried = await Promise.allSettled(
          Array.from({ length: 200 }, async (_, index) => {
            const refunds = processes[index % 2]
            return await refunds?.create(merchant, { invoiceId: payment.invoiceId, refundAddress, amountSatoshis: 7 })
          })
        )
        const rows = await f.refunds.ofInvoice(merchant, payment.invoiceId)
        const held = sum(rows, refund => refund.status !== 'failed')
        // What is refused later holds its amount until then, so that not as many as would fit may have been let in.
        if (isCertain) t.equal(held, 142 * 7, 'as many as fit')
        t.ok(held > 0 && held <= 1000, 'and none more')
        t.equal(sentFor(f, rows), held)
        t.equal(tried.filter(one => one.status === 'fulfilled').length * 7, held)
        for (const one of tried)
          if (one.status === 'rejected')
            t.match(one.reason, { status: 400, message: /exceeds the payment|balance is too low/ })
        t.notOk(wasSentTwice(f))
      }
    )
  }

  await t.test('concurrent full refunds, without amount on the alternate provider: one gets it all', async t => {
    provider.fate = () => 'pays'
    const payment = await f.payment({ amountSats: 1000, slot: 'alternate' })
    const tried = await Promise.allSettled(
      Array.from({ length: 20 }, () => f.refunds.create(merchant, { invoiceId: payment.invoiceId, refundAddress }))
    )
    t.equal(tried.filter(one => one.status === 'fulfilled').length, 1)
    t.equal((await f.stored(payment.invoiceId)).status, 'refunded')
  })

  await t.test(
    'whatever happens in whatever order, what is held and what was sent stay within what was paid',
    async t => {
      type Step =
        | { readonly kind: 'create'; readonly amounts: readonly number[]; readonly fate: HeaderFate }
        | { readonly kind: 'sync'; readonly which: number }
        | { readonly kind: 'provider'; readonly which: number; readonly status: 'processing' | 'confirmed' | 'failed' }
        | { readonly kind: 'wait'; readonly minutes: number }
      const step: fc.Arbitrary<Step> = fc.oneof(
        {
          weight: 4,
          arbitrary: fc.record({
            kind: fc.constant('create'),
            amounts: fc.array(fc.integer({ min: 1, max: 1100 }), { minLength: 1, maxLength: 3 }),
            fate: fc.constantFrom<HeaderFate>(
              'pays',
              'takes',
              'lost after',
              'lost before',
              'refuses',
              'is away',
              'breaks after'
            )
          })
        },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('sync'), which: fc.nat(30) }) },
        {
          weight: 2,
          arbitrary: fc.record({
            kind: fc.constant('provider'),
            which: fc.nat(30),
            status: fc.constantFrom('processing', 'confirmed', 'failed')
          })
        },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait'), minutes: fc.integer({ min: 1, max: 12 }) }) }
      )
      const take = async (invoiceId: string, rows: readonly Refund[], one: Step) => {
        const chosen =
          one.kind === 'sync' || one.kind === 'provider' ? rows[one.which % Math.max(rows.length, 1)] : undefined
        switch (one.kind) {
          case 'create':
            provider.fate = () => one.fate
            await Promise.allSettled(
              one.amounts.map(amountSatoshis =>
                f.refunds.create(merchant, { invoiceId, refundAddress, amountSatoshis })
              )
            )
            return
          case 'sync':
            if (chosen !== undefined)
              await Promise.all([f.refunds.sync(merchant, chosen.refundId), f.refunds.sync(merchant, chosen.refundId)])
            return
          case 'provider': {
            const held = provider.payouts.get(chosen?.refundId ?? '')
            // A provider's own final status holds too.
            if (held !== undefined && (held.status === 'pending' || held.status === 'processing'))
              provider.payouts.set(chosen?.refundId ?? '', { ...held, status: one.status })
            return
          }
          case 'wait':
            f.clock.advance(one.minutes * 60_000)
            await f.refunds.followUp(f.clock.now())
        }
      }
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async steps => {
          const payment = await f.payment({ amountSats: 1000 })
          const wasFinal = new Map<string, string>()
          for (const one of steps) {
            await take(payment.invoiceId, await f.refunds.ofInvoice(merchant, payment.invoiceId), one)
            const rows = await f.refunds.ofInvoice(merchant, payment.invoiceId)
            if (sum(rows, refund => refund.status !== 'failed') > 1000) throw new Error('more is held than was paid')
            if (sentFor(f, rows) > 1000) throw new Error('more was sent than was paid')
            if (wasSentTwice(f)) throw new Error('a refund was sent twice')
            const isWhole = sum(rows, refund => refund.status === 'confirmed') >= 1000
            if (((await f.stored(payment.invoiceId)).status === 'refunded') !== isWhole)
              throw new Error('the payment reads refunded when it is not, or does not when it is')
            for (const { refundId, status } of rows) {
              if ((wasFinal.get(refundId) ?? status) !== status) throw new Error('a final status changed')
              if (status === 'confirmed' || status === 'failed') wasFinal.set(refundId, status)
            }
          }
        }),
        { numRuns: 30 }
      )
      t.pass('no counterexample')
    }
  )
})
