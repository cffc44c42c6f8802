import type { Database } from '../../platform/database/database.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { randomToken } from '../../platform/system/ids.ts'
import { openSandboxShop } from '../sandbox/sandbox.ts'
import { SqlIntegrationStore } from './integration-store.ts'
import { Storefronts } from './integrations.ts'

interface Around {
  readonly clock: Clock
  readonly database: Database
  readonly sealer: Sealer
  readonly publicUrl: string
}

/**
 * Opens a sandbox store for the first merchant, to have something to buy. Does nothing where the merchant has a store
 * or the slug is taken. Call it from one process.
 */
export async function openFirstStore(
  { clock, database, sealer, publicUrl }: Around,
  merchantId: number,
  slug: string
): Promise<void> {
  const storefronts = new Storefronts({
    store: new SqlIntegrationStore(database),
    sealer,
    clock,
    platform: openSandboxShop({ database, clock }),
    // The sandbox sends no notifications.
    jobs: null,
    publicUrl: () => publicUrl
  })
  if ((await storefronts.ofMerchant(merchantId)) !== null || (await storefronts.bySlug(slug)) !== null) return
  await storefronts.create(merchantId, {
    slug,
    storefrontDomain: 'demo.example.com',
    adminApiToken: `sandbox-${randomToken(12)}`,
    domesticShippingUsd: 4.9,
    freeShippingEnabled: true,
    freeShippingThresholdUsd: 50,
    listInRegistry: true,
    registryDescription: 'The shop of the sandbox: a few goods to try a purchase with'
  })
}
