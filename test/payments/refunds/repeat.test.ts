import t, { type Test as T } from 'tap'
import idempotency from '../../../plugins/idempotency.ts'
import { refundOperations } from '../../../src/payments/refunds/operations.ts'
import type { Refunds } from '../../../src/payments/refunds/service.ts'
import { eachDatabase } from '../../support/database.ts'
import { testServices } from '../../support/plugin-harness.ts'
import { caller } from '../payments/fixture.ts'
import { addressOf, fixtureOn, type Fixture, type Json } from './fixture.ts'
import { until } from '../../support/until.ts'

/** A gateway that has just started: nothing is in its state. */
async function started(f: Fixture, refunds: Refunds) {
  const call = await caller(refundOperations(refunds), [{ plugin: idempotency }], { ...testServices(), clock: f.clock })
  return async (key: string, body: Json) => {
    const { status, data, header } = await call(f.merchant, 'POST', '/api/refunds', body, { 'x-idempotency-key': key })
    return { status, replayed: header('x-idempotency-replayed') === 'true', data }
  }
}

void eachDatabase(
  t,
  'a refund under an idempotency key',
  async (t: T, database) => {
    const f = await fixtureOn(database)
    const { provider, clock } = f
    const partial = async (amountSatoshis = 400) => ({
      invoiceId: (await f.payment()).invoiceId,
      refundAddress: addressOf(),
      amountSatoshis
    })
    t.beforeEach(() => {
      provider.fate = () => 'pays'
      provider.meanwhile = () => {}
    })

    await t.test("is sent once, when the gateway was killed before it got the provider's response", async t => {
      const body = await partial()
      const killed = await started(f, f.another())
      // It never hears the answer, and is gone.
      provider.meanwhile = () => new Promise(() => {})
      void killed('kill', body)
      await until(() => provider.asked.length > 0)
      provider.meanwhile = () => {}
      const requests = provider.asked.length
      const again = await (await started(f, f.another()))('kill', body)
      t.match(again, {
        status: 201,
        replayed: true,
        data: { status: 'pending', amountSatoshis: 400, invoiceId: body['invoiceId'] }
      })
      t.equal(provider.asked.length, requests, 'the provider is not called a second time')
    })

    await t.test('is the same refund, in its current state, after any restart and any time', async t => {
      const body = await partial()
      const first = await (await started(f, f.another()))('same', body)
      t.match(first, { status: 201, replayed: false, data: { status: 'confirmed' } })
      const requests = provider.asked.length
      clock.advance(90 * 86_400_000)
      const again = await started(f, f.another())
      t.same(await again('same', body), { ...first, replayed: true })
      t.same(await again('same', body), { ...first, replayed: true }, 'also from the state, with one header')
      t.equal(provider.asked.length, requests)
    })

    await t.test('is free for another body after a day, and then belongs to that', async t => {
      const [first, second, third] = [await partial(), await partial(), await partial()]
      const ask = async (body: Json) => await (await started(f, f.another()))('daily', body)
      const one = await ask(first)
      clock.advance(86_400_000 - 1)
      t.match(await ask(second), { status: 400 })
      clock.advance(1)
      t.match(await ask(first), { status: 201, replayed: true, data: { refundId: one.data['refundId'] } })
      const processes = await Promise.all([second, second, third, third].map(async () => started(f, f.another())))
      const requests = provider.asked.length
      const answers = await Promise.all(processes.map((run, n) => run('daily', n < 2 ? second : third)))
      t.equal(provider.asked.length, requests + 1, 'of two concurrent bodies one has it')
      t.same(answers.map(({ status }) => status).toSorted(), [201, 201, 400, 400])
      t.match(await ask(first), { status: 400 }, 'a late repetition of the first pays nothing')
      t.equal(provider.asked.length, requests + 1)
    })

    await t.test('stays with a refund that may have been sent, for any time', async t => {
      const body = await partial()
      provider.fate = () => 'lost after'
      const ask = async (sent: Json) => await (await started(f, f.another()))('open', sent)
      t.match(await ask(body), { status: 201, data: { status: 'pending' } })
      provider.fate = () => 'pays'
      clock.advance(90 * 86_400_000)
      t.match(await ask({ ...body, amountSatoshis: 300 }), { status: 400 })
    })

    await t.test('is not taken by a request that is refused', async t => {
      const body = await partial()
      const ask = async (sent: Json) => await (await started(f, f.another()))('kept', sent)
      const one = await ask(body)
      clock.advance(2 * 86_400_000)
      t.match(await ask({ ...body, amountSatoshis: 700 }), { status: 400, data: { error: /exceeds/ } })
      t.match(await ask(body), { status: 201, replayed: true, data: { refundId: one.data['refundId'] } })
    })

    await t.test('is requested again when it was refused and nothing was sent (decision 19)', async t => {
      for (const fate of ['refuses', 'is away', 'fails'] as const) {
        const body = await partial()
        provider.fate = () => fate
        t.equal((await (await started(f, f.another()))(fate, body)).status, fate === 'is away' ? 503 : 400)
        provider.fate = () => 'pays'
        t.match(await (await started(f, f.another()))(fate, body), {
          status: 201,
          replayed: false,
          data: { status: 'confirmed' }
        })
      }
    })

    for (const amountSatoshis of [400, 1000])
      await t.test(`is made once by processes that share no state, ${amountSatoshis} of 1000 satoshis`, async t => {
        const body = await partial(amountSatoshis)
        const requests = provider.asked.length
        const processes = await Promise.all(Array.from({ length: 8 }, () => started(f, f.another())))
        const answers = await Promise.all(processes.map(ask => ask(`race ${amountSatoshis}`, body)))
        t.equal(provider.asked.length, requests + 1)
        t.equal(
          new Set(answers.map(({ status, data }) => `${status} ${String(data['refundId'])}`)).size,
          1,
          'all were answered with it'
        )
        t.equal(answers.filter(({ replayed }) => !replayed).length, 1)
      })
  },
  {}
)
