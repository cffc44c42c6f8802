import type { Test as T } from 'tap'
import { adminOperations } from '../../../src/web/admin/operations.ts'
import type { NewPendingSubscription, OnApproved } from '../../../src/web/admin/schema.ts'
import { SqlAdminStore } from '../../../src/web/admin/store.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { accountView } from '../../../src/accounts/merchants/account.ts'
import { Merchants } from '../../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import { ManualClock } from '../../support/manual-clock.ts'

export type Json = Record<string, unknown>

export type AdminFixture = Awaited<ReturnType<typeof administration>>

export const plans = {
  free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1 },
  individual: { webhookEndpoints: 5 },
  l402: { webhookEndpoints: 5 }
}

let count = 0

/** The operations of the administration, called through the engine but without the plugins in front of them. */
export async function administration(
  database: Database,
  options: { readonly approved?: OnApproved; readonly production?: boolean; readonly accounts?: MerchantStore } = {}
) {
  const clock = new ManualClock()
  const sealer = new Sealer(new KeyRing(new Secret('a master secret of 32 bytes or more')))
  const merchants = new Merchants({
    store: options.accounts ?? new MerchantStore(database),
    sealer,
    clock,
    plans: () => plans
  })
  const store = new SqlAdminStore(database)
  const upstream = new InternalUpstream(
    adminOperations({
      database,
      store,
      merchants,
      clock,
      production: options.production ?? false,
      account: merchant => accountView(merchant, plans, made.proxies),
      ...(options.approved === undefined ? {} : { approved: options.approved })
    })
  )
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  /**
   * Calls an operation as the administrator; an object becomes JSON, a string goes out as it is, left out there is no
   * body. `data` is the JSON, an empty object where there is none.
   */
  const call = async (method: string, target: string, body?: object | string) => {
    const result = await chain.run({
      method,
      target,
      principal: { kind: 'admin', id: 'admin' },
      ...(body === undefined
        ? {}
        : {
            headers: { 'content-type': 'application/json' },
            body: typeof body === 'string' ? body : JSON.stringify(body)
          })
    })
    return {
      status: result.status,
      data: result.text === '' ? {} : (result.json() as Json),
      text: result.text,
      header: (name: string) => result.headers.get(name) ?? null
    }
  }
  const made = {
    call,
    clock,
    database,
    merchants,
    sealer,
    store,
    /** What each account is said to have. */
    proxies: { count: 0, active: 0 },
    /** Makes an account over the operation and answers its id and key. */
    async account(more: object = {}) {
      const email = `shop-${++count}@example.com`
      const { status, data } = await call('POST', '/api/admin/merchants', { name: 'Shop', email, ...more })
      if (status !== 201) throw new Error(`no account was made: ${status} ${JSON.stringify(data)}`)
      return { id: Number(data['merchantId']), email: String(data['email']), apiKey: String(data['apiKey']) }
    },
    pending: async (different: Partial<NewPendingSubscription> = {}) =>
      await store.insert(
        {
          email: `buyer-${++count}@example.com`,
          customerName: 'Ada Buyer',
          billingCustomerId: `cus_${count}`,
          billingSubscriptionId: `sub_${count}`,
          planTier: 'individual',
          subscriptionStatus: 'trialing',
          currentPeriodEnd: Date.parse('2026-12-21T00:00:00.000Z'),
          ...different
        },
        clock.now()
      ),
    /** The account, which must be there. */
    async merchant(id: number) {
      const merchant = await merchants.byId(id)
      if (merchant === null) throw new Error(`there is no merchant ${id}`)
      return merchant
    },
    /** Everything that the tables hold of an account and of pending subscriptions, as text. */
    async stored() {
      const [rows] = await database.sql`
        select (select coalesce(string_agg(m::text, ' '), '') from merchants m) || (select coalesce(string_agg(p::text, ' '), '') from pending_subscriptions p) as everything`
      return String(rows?.['everything'])
    }
  }
  return made
}

/** The fields of an answer that ticks a row off: exactly these. */
export function sameKeys(t: T, data: unknown, names: readonly string[], what: string): void {
  t.same(Object.keys(data as object).sort(), [...names].sort(), what)
}
