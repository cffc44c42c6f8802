import { testMerchants, testPlans } from '../../support/merchants.ts'
import t from 'tap'
import type { Context } from '../../../src/engine/message/context.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import { merchantOperations } from '../../../src/accounts/merchants/operations.ts'
import { providerKeyOperations } from '../../../src/accounts/merchants/provider-operations.ts'
import { Merchants } from '../../../src/accounts/merchants/service.ts'
import { ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { KeyVerdict } from '../../../src/lightning/provider-calls/provider.ts'
import { eachDatabase } from '../../support/database.ts'
import { aMerchant } from './a-merchant.ts'

function setUp(merchants: Merchants, production: boolean, validate: () => Promise<KeyVerdict | null>) {
  const operations = [
    ...merchantOperations({
      merchants,
      production,
      plans: () => testPlans,
      publicUrl: () => 'https://gw.example',
      countProxies: async () => ({ count: 0, active: 0 }),
      hasPaidPayment: async () => true,
      hasChallenge: async () => false
    }),
    ...providerKeyOperations({
      merchants,
      validate,
      keyFault: () => null,
      validateKey: async () => (await validate()) ?? { isValid: false, message: 'There is none.' }
    })
  ]
  /** Calls a handler as the engine would, for an account that authentication has just found. */
  return async (id: string, body: object | null = null) => {
    const operation = operations.find(one => one.id === id)
    if (operation === undefined) throw new Error(`there is no operation ${id}`)
    // All that the handlers look at.
    const ctx = { principal: { kind: 'merchant', id: '7', merchant: aMerchant() } } as unknown as Context
    return await operation.handle({ ctx, body, params: {}, query: {} } as never)
  }
}

void eachDatabase(t, "edges of merchants' operations", async (t, database) => {
  const merchants = testMerchants(database)
  const none = async () => null

  await t.test(
    'Merchant settings | 404 | {error: Merchant not found}: the account vanished after its key was checked',
    async t => {
      const call = setUp(merchants, false, none)
      for (const [id, body] of [
        ['setPrimaryKey', { primaryApiKey: 'a-primary-key' }],
        ['setAlternateKey', { alternateApiKey: 'an-alternate-key' }],
        ['setPaymentProvider', { provider: 'primary' }],
        ['setWebhook', { webhookUrl: 'https://shop.example/hook' }],
        ['regenerateKey', null]
      ] as const)
        await t.rejects(call(id, body), { status: 404, message: 'Merchant not found' }, id)
    }
  )

  await t.test('validate endpoints return HTTP 200 when the provider cannot be asked', async t => {
    const call = setUp(merchants, false, () => Promise.reject(new ProviderUnavailable()))
    for (const id of ['validatePrimaryKey', 'validateAlternateKey'])
      t.match(await call(id), { status: 200, body: { isValid: false, message: /could not be asked/ } })
  })

  await t.test('a fault that says nothing of the key is no verdict on it', async t => {
    const call = setUp(merchants, false, () =>
      Promise.reject(new Unavailable('Service unavailable', 'The database is down.'))
    )
    await t.rejects(call('validatePrimaryKey'), { status: 503 })
  })
})
