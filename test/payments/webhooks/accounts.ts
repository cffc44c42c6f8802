import { testMerchants, testPlans, testSealer } from '../../support/merchants.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import type { Merchants } from '../../../src/accounts/merchants/service.ts'
import type { Clock } from '../../../src/platform/system/clock.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import { WebhookEndpoints } from '../../../src/payments/webhooks/endpoints.ts'
import { Webhooks, type WebhooksDependencies } from '../../../src/payments/webhooks/service.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../../src/engine/upstream/outbound.ts'
import { WebhookStore } from '../../../src/payments/webhooks/store.ts'

/** What signs the webhooks of `anAccount`. */
export const secretText = 'a secret that the merchant chose'
let accounts = 0

/** The further endpoints of accounts, of which a plan allows four. */
export function endpointsOf(database: Database, clock: Clock, production = false): WebhookEndpoints {
  const store = new WebhookStore(database)
  const merchants = testMerchants(database, clock, {
    plans: () => ({ ...testPlans, free: { ...testPlans.free, webhookEndpoints: 5 } })
  })
  return new WebhookEndpoints({
    database,
    store,
    merchants,
    sealer: testSealer,
    clock,
    random: systemRandom,
    production
  })
}

/** Webhooks of one gateway. */
export function webhooksOf({
  database,
  clock,
  ...different
}: Pick<WebhooksDependencies, 'database' | 'clock' | 'jobs'> & Partial<WebhooksDependencies>): Webhooks {
  return new Webhooks({
    store: new WebhookStore(database),
    endpoints: endpointsOf(database, clock),
    database,
    call: outboundCall(new AddressGuard({ production: false })),
    clock,
    random: systemRandom,
    log: silentLog,
    metrics: new Metrics(),
    ...different
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
