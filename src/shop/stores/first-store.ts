import { randomToken } from '../../platform/system/ids.ts'
import type { Storefronts } from './integrations.ts'

/** The store that a newcomer finds open. */
export const FIRST_STORE = 'demo'

/**
 * Opens a store of the sandbox for the first merchant, so that there is something to buy at once. A store that stands
 * is left alone, as it is and whatever its slug. Call it from one process.
 */
export async function firstStore(storefronts: Storefronts, merchantId: number): Promise<void> {
  if ((await storefronts.ofMerchant(merchantId)) !== null) return
  // It may be another account's already.
  if ((await storefronts.bySlug(FIRST_STORE)) !== null) return
  await storefronts.create(merchantId, {
    slug: FIRST_STORE,
    storefrontDomain: 'demo.example.com',
    adminApiToken: `sandbox-${randomToken(12)}`,
    domesticShippingUsd: 4.9,
    freeShippingEnabled: true,
    freeShippingThresholdUsd: 50,
    listInRegistry: true,
    registryDescription: 'The shop of the sandbox: a few goods to try a purchase with'
  })
}
