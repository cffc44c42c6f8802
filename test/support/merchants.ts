import { Merchants } from '../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../src/accounts/merchants/store.ts'
import { KeyRing, Sealer, Secret } from '../../src/platform/keys/secrets.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import type { Database } from '../../src/platform/database/database.ts'
import { ManualClock } from './manual-clock.ts'

export const testSealer = new Sealer(new KeyRing(new Secret('a master secret of 32 bytes or more')))

export const testPlans = {
  free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 },
  individual: { webhookEndpoints: 5 },
  l402: { webhookEndpoints: 5 }
}

/** The accounts of a database. */
export function testMerchants(
  database: Database,
  clock: Clock = new ManualClock(),
  different: Partial<ConstructorParameters<typeof Merchants>[0]> = {}
): Merchants {
  return new Merchants({
    store: new MerchantStore(database),
    sealer: testSealer,
    clock,
    plans: () => testPlans,
    ...different
  })
}
