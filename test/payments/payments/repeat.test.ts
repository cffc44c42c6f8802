import t from 'tap'
import idempotency from '../../../plugins/idempotency.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { paymentOperations } from '../../../src/payments/payments/operations.ts'
import type { Payments } from '../../../src/payments/payments/service.ts'
import { testServices } from '../../support/plugin-harness.ts'
import { anInput, caller, fixture, type Fixture } from './fixture.ts'
import { until } from '../../support/until.ts'

const paths = ['/api/payments', '/api/checkout/sessions'] as const

/** A gateway that has just started: nothing is in its state. */
async function started(f: Fixture, merchant: Merchant, payments: Payments = f.another()) {
  const call = await caller(paymentOperations(payments), [{ plugin: idempotency }], {
    ...testServices(),
    clock: f.clock
  })
  return async (path: string, key: string, body: object) => {
    const { status, data, header } = await call(merchant, 'POST', path, body, { 'idempotency-key': key })
    return { status, replayed: header('x-idempotency-replayed') === 'true', data }
  }
}

void t.test('a repeated key gets the payment that it made, after any restart and any time', async t => {
  const f = await fixture(t)
  const acme = await f.merchant()
  for (const path of paths) {
    const input = anInput()
    const first = await (await started(f, acme))(path, 'same', input)
    t.match(first, { status: 201, replayed: false })
    const requests = f.primary.requests.length
    const again = await (await started(f, acme))(path, 'same', input)
    t.same(again, { ...first, replayed: true }, path)
    t.equal(f.primary.requests.length, requests, 'no second invoice was made')
  }
  f.clock.advance(90 * 86_400_000)
  const input = anInput()
  const first = await (await started(f, acme))(paths[0], 'old', input)
  f.clock.advance(90 * 86_400_000)
  const again = await (await started(f, acme))(paths[0], 'old', input)
  t.match(
    again,
    { status: 201, replayed: true, data: { invoiceId: first.data['invoiceId'], status: 'expired' } },
    'as it now is'
  )
})

void t.test(
  'a key with another body is 400 after a restart too, and counts for one operation of one merchant',
  async t => {
    const f = await fixture(t)
    const acme = await f.merchant()
    const other = await f.merchant()
    const input = anInput()
    t.equal((await (await started(f, acme))(paths[0], 'k', input)).status, 201)
    const refused = await (await started(f, acme))(paths[0], 'k', anInput())
    t.match(refused, { status: 400, data: { error: 'Idempotency key was already used with a different request.' } })
    t.match(
      await (
        await started(f, acme)
      )(paths[1], 'k', anInput()),
      { status: 201, replayed: false },
      'another operation'
    )
    t.match(await (await started(f, other))(paths[0], 'k', input), { status: 201, replayed: false }, 'another merchant')
  }
)

void t.test('a key is free for another body after a day, and then belongs to that', async t => {
  const f = await fixture(t)
  const acme = await f.merchant()
  for (const path of paths) {
    const ask = async (input: object) => await (await started(f, acme))(path, 'daily', input)
    const [first, second, third] = [anInput(), anInput(), anInput()]
    const one = await ask(first)
    f.clock.advance(86_400_000 - 1)
    t.match(await ask(second), { status: 400 })
    f.clock.advance(1)
    t.match(await ask(first), { status: 201, replayed: true, data: { invoiceId: one.data['invoiceId'] } })
    const answers = await Promise.all([second, third].map(ask))
    t.same(answers.map(({ status }) => status).toSorted(), [201, 400])
    t.match(await ask(first), { status: 400 })
    f.clock.advance(86_400_000)
    t.match(await ask(first), { status: 400, data: { error: /orderId already exists/ } })
  }
})

void t.test(
  'a repetition of a request that was killed waits until that is over, and then makes the payment',
  async t => {
    const f = await fixture(t)
    const acme = await f.merchant()
    const input = anInput()
    f.primary.gate = new Promise(() => {})
    void (await started(f, acme))(paths[0], 'killed', input)
    await until(() => f.primary.requests.length > 0)
    f.primary.gate = null
    const again = await started(f, acme)
    t.match(await again(paths[0], 'killed', input), { status: 503, data: { error: 'Request in progress' } })
    t.match(await again(paths[0], 'killed', { ...input, amount: 0.5 }), {
      status: 400,
      data: { error: /different request/ }
    })
    t.match(await again(paths[0], 'another', input), { status: 400, data: { error: /orderId already exists/ } })
    f.clock.advance(120_000)
    t.match(await again(paths[0], 'killed', input), { status: 201, replayed: false })
  }
)

void t.test('a refused request leaves its key free', async t => {
  const f = await fixture(t)
  const acme = await f.merchant()
  const input = anInput()
  f.primary.fault = new Error('the provider breaks')
  t.equal((await (await started(f, acme))(paths[0], 'refused', input)).status, 500)
  f.primary.fault = null
  t.match(await (await started(f, acme))(paths[0], 'refused', input), { status: 201, replayed: false })
})

void t.test('processes that share no state make one payment under one key', async t => {
  const f = await fixture(t)
  const acme = await f.merchant()
  const processes = await Promise.all(Array.from({ length: 6 }, () => started(f, acme)))
  const input = anInput()
  const answers = await Promise.all(processes.map(ask => ask(paths[0], 'race', input)))
  const created = answers.filter(({ status }) => status === 201)
  t.equal(new Set(created.map(({ data }) => data['invoiceId'])).size, 1)
  t.ok(
    answers.every(({ status }) => status === 201 || status === 503),
    answers.map(({ status }) => status).join()
  )
})
