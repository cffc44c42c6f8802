import { testMerchants, testSealer } from '../../support/merchants.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { Merchants } from '../../../src/accounts/merchants/service.ts'
import type { Clock } from '../../../src/platform/system/clock.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { WebhookEndpoints } from '../../../src/payments/webhooks/endpoints.ts'
import { WebhookStore } from '../../../src/payments/webhooks/store.ts'

/** What signs the webhooks of `anAccount`. */
export const secretText = 'a secret that the merchant chose'
let accounts = 0

/** The accounts, as webhooks ask for them. */
export function accountsOf(database: Database, clock: Clock): Merchants {
  return testMerchants(database, clock)
}

/** The further endpoints of accounts, of which a plan allows four. */
export function endpointsOf(database: Database, clock: Clock, production = false): WebhookEndpoints {
  return new WebhookEndpoints({
    database,
    store: new WebhookStore(database),
    merchants: {
      caps: () => ({ endpoints: null, challengesPerMonth: null, maxPriceSats: null, webhookEndpoints: 5 })
    },
    sealer: testSealer,
    clock,
    random: systemRandom,
    production
  })
}

/** A new account whose webhooks go to `url`, signed with `secretText`. */
export async function anAccount(merchants: Merchants, url: string | null): Promise<Merchant> {
  const { merchant } = await merchants.create({
    name: 'Acme',
    email: `acme-${++accounts}-${process.pid}-${Date.now()}@example.com`
  })
  if (url === null) return merchant
  const changed = await merchants.changeWebhook(merchant.id, { url, secret: new Secret(secretText) })
  if (changed === null) throw new Error('the account is gone')
  return changed.merchant
}
