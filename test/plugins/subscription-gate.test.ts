import t from 'tap'
import subscriptionGate from '../../plugins/subscription-gate.ts'
import { type SubscriptionGate } from '../../src/index.ts'
import { harness } from '../../src/engine/pipeline/harness.ts'
import { gate, type GatedFeature } from '../../src/accounts/merchants/gate.ts'
import type { Merchant } from '../../src/accounts/merchants/schema.ts'
import { aMerchant } from '../accounts/merchants/a-merchant.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { principalOfKey } from '../../src/accounts/merchants/principal.ts'

function principal(merchant: Merchant) {
  return principalOfKey(merchant)
}

/** `later` answers with a promise, as when billing is asked. */
function setUp(config: { feature?: GatedFeature } = {}, later = false) {
  const gating: SubscriptionGate = {
    refusal: (merchant, feature, now) =>
      later ? Promise.resolve(gate(merchant, feature, now)) : gate(merchant, feature, now)
  }
  return harness([{ plugin: subscriptionGate, config }], {
    services: { subscriptionGate: gating, clock: new ManualClock() }
  })
}

t.test('a merchant in good standing passes', async t => {
  for (const later of [false, true]) {
    t.equal((await (await setUp({ feature: 'l402' }, later)).run({ principal: principal(aMerchant()) })).status, 200)
  }
})

t.test('a refusal is 403 with exactly the relevant members, and nothing goes upstream', async t => {
  for (const later of [false, true]) {
    const chain = await setUp({ feature: 'refunds' }, later)
    const result = await chain.run({ principal: principal(aMerchant({ flags: { refundsEnabled: false } })) })
    t.equal(result.status, 403)
    t.equal(result.upstream, null)
    t.equal(result.headers.get('content-type'), 'application/json; charset=utf-8')
    t.same(result.json(), {
      error: 'Feature not available',
      message: 'Refunds are not enabled for this account. Please contact support.',
      action_required: 'contact_support',
      current_plan: 'individual',
      required_plan: null,
      feature: 'refunds'
    })
  }
})

t.test('a chain that forgot auth is a fault of the file: 500, never a pass', async t => {
  const chain = await setUp()
  for (const request of [{}, { principal: { kind: 'admin', id: 'admin' } as const }]) {
    const result = await chain.run(request)
    t.equal(result.status, 500)
    t.match((result.faults[0]?.cause as Error | undefined)?.message, /auth: \{ as: merchant \}/)
  }
})

t.test('only known features may be named', async t => {
  // A wrong name on purpose.
  await t.rejects(setUp({ feature: 'refund' as GatedFeature }), /refund/)
})
