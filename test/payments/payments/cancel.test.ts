import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { anInput, fixture } from './fixture.ts'

void t.test('canceling payments', async t => {
  const made = await fixture(t)
  const { call, merchant, primary, payments, store, clock, changes } = made
  const acme = await merchant({ primaryApiKey: new Secret('a key') })
  const create = async (different: object = {}) => {
    const { data } = await call(acme, 'POST', '/api/payments', anInput(different))
    const invoiceId = String(data['invoiceId'])
    const kept = await store.byId(invoiceId)
    if (kept === null) throw new Error('it was not made')
    return { invoiceId, orderId: kept.orderId, chargeId: kept.chargeId, path: `/api/payments/${invoiceId}/cancel` }
  }
  const told = (invoiceId: string) =>
    changes
      .filter(({ payment }) => payment.invoiceId === invoiceId)
      .map(({ payment, from, tellMerchant }) => [from, payment.status, tellMerchant])

  await t.test(
    'an unpaid one is expired immediately, reported by one webhook, however often it is canceled',
    async t => {
      const { path, invoiceId } = await create()
      for (let nth = 0; nth < 3; nth++) {
        const reply = await call(acme, 'POST', path)
        t.same([reply.status, reply.data['status'], reply.data['invoiceId']], [200, 'expired', invoiceId])
      }
      await Promise.all([call(acme, 'POST', path), call(acme, 'POST', path)])
      t.same(told(invoiceId), [['unpaid', 'expired', true]])
      t.equal((await call(null, 'GET', `/api/payments/${invoiceId}/status`)).data['status'], 'expired')
      clock.advance(7_200_000)
      await payments.sweep()
      t.same(told(invoiceId), [['unpaid', 'expired', true]], 'its own end adds nothing')
    }
  )

  await t.test(
    'one past its end is 503 while its provider is down, and then expired without another look-up',
    async t => {
      const { path, invoiceId } = await create()
      clock.advance(3_600_000)
      primary.fault = new ProviderUnavailable('away', 5)
      t.equal((await call(acme, 'POST', path)).status, 503, 'it may have been paid')
      primary.fault = null
      t.equal((await call(acme, 'POST', path)).data['status'], 'expired')
      const before = primary.lookUps
      t.same([(await call(acme, 'POST', path)).data['status'], primary.lookUps], ['expired', before])
      t.same(told(invoiceId), [['unpaid', 'expired', true]])
    }
  )

  await t.test('money that still comes makes it paid, or underpaid', async t => {
    for (const [status, receivedSats] of [
      ['paid', 10_000],
      ['underpaid', 400]
    ] as const) {
      const { path, invoiceId, chargeId } = await create()
      await call(acme, 'POST', path)
      primary.states.set(chargeId, { status, receivedSats, settledAt: null })
      const { data } = await call(acme, 'POST', `/api/payments/${invoiceId}/sync`)
      t.equal(data['status'], status)
      t.same(told(invoiceId), [
        ['unpaid', 'expired', true],
        ['expired', status, true]
      ])
    }
  })

  await t.test(
    'one that is paid, in part, or on its way is not canceled, also when only its provider knows',
    async t => {
      for (const status of ['paid', 'underpaid', 'processing', 'refunded'] as const) {
        const { path, invoiceId, chargeId } = await create()
        primary.states.set(chargeId, { status, receivedSats: 400, settledAt: null })
        for (const known of ['by the provider alone', 'by us too']) {
          const reply = await call(acme, 'POST', path)
          t.same(
            [reply.status, reply.data],
            [
              409,
              {
                error: 'Payment not canceled',
                message: `The payment is ${status}: only an unpaid one can be canceled.`
              }
            ],
            `${status}, known ${known}`
          )
        }
        t.equal((await store.byId(invoiceId))?.status, status)
      }
    }
  )

  await t.test('a demo is canceled before it has confirmed itself, and not after', async t => {
    const early = await create({ amount: 0 })
    t.equal((await call(acme, 'POST', early.path)).data['status'], 'expired')
    const late = await create({ amount: 0 })
    clock.advance(5_000)
    t.equal((await call(acme, 'POST', late.path)).status, 409)
    await payments.sweep()
    t.equal((await store.byId(early.invoiceId))?.status, 'expired')
  })
})
