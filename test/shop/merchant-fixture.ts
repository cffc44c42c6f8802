import { testMerchants } from '../support/merchants.ts'
import type { Test as T } from 'tap'
import type { Database } from '../../src/platform/database/database.ts'
import { KeyRing, Sealer, Secret } from '../../src/platform/keys/secrets.ts'
import { IntegrationStore } from '../../src/shop/stores/integration-store.ts'
import { Storefronts } from '../../src/shop/stores/integrations.ts'
import { StorePlatformError, type ShopInfo, type StoreAccess, type StorePlatform } from '../../src/shop/platform.ts'
import { openSandboxShop } from '../../src/shop/sandbox/sandbox.ts'
import { openTestDatabase } from '../support/database.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** Stores over one embedded database and a platform that says what a test has it say. */
export interface StoresFixture {
  readonly database: Database
  readonly clock: ManualClock
  readonly sealer: Sealer
  readonly platform: ScriptedPlatform
  readonly storefronts: Storefronts
  /** Id of a new account. */
  merchant(): Promise<number>
  /** Runs what was enqueued and not run yet, and answers how many jobs that were. */
  runJobs(): Promise<number>
}

/** The sandbox in the clothes of the real platform, whose next answers a test can replace. */
export class ScriptedPlatform {
  /** What `shopInfo` answers or throws instead of the sandbox's answer. */
  next: ShopInfo | StorePlatformError | null = null
  /** With what it was asked, in the order of the calls. */
  readonly asked: StoreAccess[] = []
  readonly subscribed: Array<{ readonly storefrontId: number; readonly address: string }> = []
  readonly platform: StorePlatform

  constructor(sandbox: StorePlatform) {
    this.platform = {
      kind: 'shopify',
      shopInfo: async store => {
        this.asked.push(store)
        const { next } = this
        if (next instanceof StorePlatformError) throw next
        return next ?? (await sandbox.shopInfo(store))
      },
      subscribe: async ({ storefrontId }, address) => {
        if (this.next instanceof StorePlatformError) throw this.next
        this.subscribed.push({ storefrontId, address })
      },
      catalog: store => sandbox.catalog(store),
      available: (store, items) => sandbox.available(store, items),
      calculate: (store, question) => sandbox.calculate(store, question),
      hold: (store, request) => sandbox.hold(store, request),
      release: (store, holdId) => sandbox.release(store, holdId),
      createOrder: (store, order) => sandbox.createOrder(store, order),
      findOrder: (store, id) => sandbox.findOrder(store, id),
      fulfilments: (store, ids) => sandbox.fulfilments(store, ids),
      readNotification: (store, headers, body) => sandbox.readNotification(store, headers, body)
    }
  }
}

/** Opens them; closed when the test ends. */
export async function openStores(t: T): Promise<StoresFixture> {
  const clock = new ManualClock()
  const database = await openTestDatabase(t, { clock })
  const sealer = new Sealer(new KeyRing(new Secret('a'.repeat(64))))
  const platform = new ScriptedPlatform(openSandboxShop({ database, clock }))
  const merchants = testMerchants(database, clock)
  const waiting: object[] = []
  const storefronts = new Storefronts({
    store: new IntegrationStore(database),
    sealer,
    clock,
    platform: platform.platform,
    publicUrl: () => 'https://pay.example.com',
    jobs: {
      enqueue: (_sql, _name, data) => {
        waiting.push(data)
        return Promise.resolve()
      }
    }
  })
  const [subscribing] = storefronts.jobs
  let made = 0
  return {
    database,
    clock,
    sealer,
    platform,
    storefronts,
    merchant: async () => (await merchants.create({ name: 'a', email: `a${++made}@example.com` })).merchant.id,
    runJobs: async () => {
      const due = waiting.splice(0)
      for (const data of due) await subscribing?.run({ id: 'a', data }, new AbortController().signal)
      return due.length
    }
  }
}
