import type { Test as T } from 'tap'
import type { Timer } from '../../src/platform/system/clock.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { Secret } from '../../src/platform/keys/secrets.ts'
import {
  StorePlatformError,
  type NewPlatformOrder,
  type StoreAccess,
  type StorePlatform,
  type StorePlatformFault
} from '../../src/shop/platform.ts'
import { openShopify } from '../../src/shop/shopify/shopify.ts'
import { AddressGuard } from '../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../src/engine/upstream/outbound.ts'
import { startFakeShopify, type FakeShopify } from '../fakes/shopify.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** Milliseconds of one call. */
export const TIMEOUT = 10_000

/** Paused, but for waits that are shorter than a call may take: those are recorded, and end immediately. */
export class SkippingClock extends ManualClock {
  readonly waits: number[] = []

  override after(ms: number, run: () => void): Timer {
    if (ms >= TIMEOUT) return super.after(ms, run)
    this.waits.push(ms)
    const timer = super.after(ms, run)
    setImmediate(() => {
      this.advance(ms)
    })
    return timer
  }
}

/** A fake with a store that it knows. */
export interface ShopifyFixture {
  readonly fake: FakeShopify
  readonly clock: SkippingClock
  readonly platform: StorePlatform
  readonly store: StoreAccess
}

/** Starts a fake, and opens the platform on it. */
export async function shopify(
  t: T,
  options: { readonly apiVersion?: string; readonly store?: Partial<StoreAccess> } = {}
): Promise<ShopifyFixture> {
  const clock = new SkippingClock()
  const fake = await startFakeShopify({ clock })
  t.teardown(() => fake.close())
  const platform = openShopify({
    call: outboundCall(new AddressGuard({ production: false })),
    clock,
    log: silentLog,
    config: { url: fake.url, apiVersion: options.apiVersion ?? '2026-10', timeout: TIMEOUT }
  })
  return { fake, clock, platform, store: { ...storeOf(fake), ...options.store } }
}

/** The fake's shop, opened with the id and secret of an app. */
export function storeOf(fake: FakeShopify): StoreAccess {
  return {
    storefrontId: 1,
    domain: fake.shop.domain,
    clientId: fake.clientId,
    clientSecret: new Secret(fake.clientSecret),
    adminApiToken: null
  }
}

/** The same, opened with a token that lasts. */
export function legacyStoreOf(fake: FakeShopify): StoreAccess {
  return {
    storefrontId: 2,
    domain: fake.shop.domain,
    clientId: null,
    clientSecret: null,
    adminApiToken: new Secret(fake.legacyToken)
  }
}

/** The error that a promise rejects with, which must be a platform's. */
export async function faultOf(promise: Promise<unknown>): Promise<StorePlatformError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof StorePlatformError) return error
    throw error
  }
  throw new Error('it did not fail')
}

/** Its fault alone. */
export async function fault(promise: Promise<unknown>): Promise<StorePlatformFault> {
  return (await faultOf(promise)).fault
}

/** A paid order of two mugs, to New York, with tax. */
export function mugs(fake: FakeShopify, different: Partial<NewPlatformOrder> = {}): NewPlatformOrder {
  const mug = fake.shop.variantOf('Enamel Mug')
  return {
    sourceIdentifier: '0190a5b1-7d3c-7c11-8f5e-3a2b1c0d9e8f',
    email: 'buyer@example.com',
    items: [
      {
        variantId: mug.id,
        productTitle: 'Enamel Mug',
        variantTitle: 'Default Title',
        quantity: 2,
        priceCents: 1299,
        requiresShipping: true
      }
    ],
    shippingAddress: {
      firstName: 'Ada',
      lastName: 'Byron',
      address1: '1 Main Street',
      address2: null,
      city: 'New York',
      province: 'ny',
      zip: '10001',
      country: 'United States',
      phone: null
    },
    countryCode: 'US',
    location: { country: 'US', state: 'NY', zip: '10001' },
    shippingCents: 500,
    taxCents: 231,
    holdId: null,
    tax: { lines: [], isIncluded: false },
    totalCents: 3329,
    paidSats: 34_276,
    paymentHash: 'ab'.repeat(32),
    ...different
  }
}
