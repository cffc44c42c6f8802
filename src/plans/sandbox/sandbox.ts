import type { PlanTier } from '../../accounts/merchants/plans.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import {
  BillingError,
  type BilledPrice,
  type BilledSubscription,
  type BillingProvider,
  type CheckoutRequest
} from '../provider.ts'
import { planPricesUsd } from '../plans.ts'

export interface SandboxBillingOptions {
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  publicUrl(): string
}

/** Receives the id of a subscription that changed. */
export type TakeNotification = (subscriptionId: string) => Promise<void>

export type SandboxSession =
  | {
      readonly kind: 'checkout'
      readonly plan: PlanTier
      readonly email: string
      readonly trialDays: number
      readonly successUrl: string
      readonly cancelUrl: string
      readonly completed: boolean
    }
  | { readonly kind: 'portal'; readonly returnUrl: string; readonly subscriptions: readonly BilledSubscription[] }

type KeptCheckout = Omit<CheckoutRequest, 'idempotencyKey'>

interface SessionRow {
  readonly kind: SandboxSession['kind']
  readonly request: unknown
  readonly subscription_id: string | null
  readonly customer_id: string | null
}

interface SubscriptionRow {
  readonly subscription_id: string
  readonly customer_id: string
  readonly merchant_id: number | null
  readonly email: string
  readonly customer_name: string | null
  readonly plan_tier: PlanTier
  readonly status: string
  readonly current_period_end: Date
  readonly started_at: Date
}

const DAY = 86_400_000
/** The sandbox's month. */
const PERIOD = 30 * DAY
/** Milliseconds for which the pages of a checkout and of a portal are valid. */
const CHECKOUT_LIFE = DAY
const PORTAL_LIFE = 3_600_000
/** Buttons of a portal: the status that each sets, and those that it changes. */
const TURNS = {
  cancel: ['canceled', ['active', 'trialing', 'past_due']],
  fail: ['past_due', ['active', 'trialing']],
  recover: ['active', ['past_due']]
} as const satisfies Readonly<Record<string, readonly [to: string, from: readonly string[]]>>
export type PortalButton = keyof typeof TURNS

/**
 * A billing provider for development that charges nothing: its checkout is a page with one button. State is kept in the
 * database. Trials end and periods renew silently, as if notifications were lost. Actions on its pages are reported in the
 * process alone.
 */
export class SandboxBilling implements BillingProvider {
  readonly kind = 'sandbox'
  readonly #options: SandboxBillingOptions

  constructor(options: SandboxBillingOptions) {
    this.#options = options
  }

  async createCheckout(
    request: CheckoutRequest
  ): Promise<{ readonly sessionId: string; readonly checkoutUrl: string }> {
    const { idempotencyKey, ...wanted } = request
    const kept: KeptCheckout = wanted
    const sessionId = await this.#insert('cs_sandbox_', 'checkout', kept, null, idempotencyKey)
    return { sessionId, checkoutUrl: this.#address(sessionId) }
  }

  async price(): Promise<BilledPrice> {
    return {
      priceId: 'price_sandbox_individual',
      amount: planPricesUsd.individual * 100,
      currency: 'usd',
      every: { interval: 'month', count: 1 },
      isActive: true
    }
  }

  async portal(customerId: string, returnUrl: string): Promise<string> {
    const { database } = this.#options
    const known = await database.sql`select 1 from sandbox_subscriptions where customer_id = ${customerId} limit 1`
    if (known.length === 0) throw new BillingError('refused', 'the sandbox knows no such customer')
    return this.#address(await this.#insert('bps_sandbox_', 'portal', { returnUrl }, customerId, null))
  }

  async subscription(subscriptionId: string): Promise<BilledSubscription | null> {
    return await this.#options.database.transaction(async tx => {
      const [row] = await tx<
        SubscriptionRow[]
      >`select * from sandbox_subscriptions where subscription_id = ${subscriptionId} for update`
      return row === undefined ? null : await this.#asOfNow(tx, row)
    })
  }

  readEvent(): never {
    throw new BillingError('signature', 'The signature of the notification is not valid, or it is too old.')
  }

  /** The content of a session's page; null when unknown or expired. */
  async session(sessionId: string): Promise<SandboxSession | null> {
    return await this.#options.database.transaction(async tx => {
      const row = await this.#find(tx, sessionId)
      if (row === null) return null
      if (row.kind === 'checkout')
        return { kind: 'checkout', ...checkoutOf(row), completed: row.subscription_id !== null }
      return { kind: 'portal', returnUrl: returnUrlOf(row), subscriptions: await this.#ofCustomer(tx, row) }
    })
  }

  /** Completes a checkout; idempotent. False when there is none. */
  async complete(sessionId: string, take: TakeNotification): Promise<boolean> {
    const { database, clock, random } = this.#options
    const subscriptionId = await database.transaction(async tx => {
      const row = await this.#find(tx, sessionId)
      if (row?.kind !== 'checkout') return null
      if (row.subscription_id !== null) return row.subscription_id
      const { plan, email, customerName, merchantId, customerId, trialDays } = checkoutOf(row)
      const created = {
        subscription: `sub_sandbox_${token(random)}`,
        customer: customerId ?? `cus_sandbox_${token(random)}`
      }
      const now = clock.now()
      await tx`
        insert into sandbox_subscriptions (subscription_id, customer_id, merchant_id, email, customer_name, plan_tier, status, current_period_end, started_at)
        values (
          ${created.subscription}, ${created.customer}, ${merchantId}, ${email}, ${customerName}, ${plan}, ${trialDays === 0 ? 'active' : 'trialing'},
          ${new Date(now + (trialDays === 0 ? PERIOD : trialDays * DAY))}, ${new Date(now)})`
      await tx`update sandbox_billing_sessions set subscription_id = ${created.subscription} where session_id = ${sessionId}`
      return created.subscription
    })
    if (subscriptionId === null) return false
    await take(subscriptionId)
    return true
  }

  /** Has the subscriptions of a portal's customer change; idempotent. False for an unknown portal. */
  async turn(sessionId: string, button: PortalButton, take: TakeNotification): Promise<boolean> {
    const [to, from] = TURNS[button]
    const turned = await this.#options.database.transaction(async tx => {
      const row = await this.#find(tx, sessionId)
      if (row?.kind !== 'portal') return null
      return await tx<{ id: string }[]>`
        update sandbox_subscriptions set status = ${to} where customer_id = ${row.customer_id} and status = any(${[...from]}) returning subscription_id as id`
    })
    if (turned === null) return false
    for (const { id } of turned) await take(id)
    return true
  }

  #address(sessionId: string): string {
    return `${this.#options.publicUrl()}/billing/sandbox/${sessionId}`
  }

  async #insert(
    prefix: string,
    kind: SandboxSession['kind'],
    request: object,
    customerId: string | null,
    idempotencyKey: string | null
  ): Promise<string> {
    const { database, clock, random } = this.#options
    const now = clock.now()
    await database.sql`delete from sandbox_billing_sessions where created_at < ${new Date(now - CHECKOUT_LIFE)}`
    const [row] = await database.sql<{ id: string }[]>`
      insert into sandbox_billing_sessions (session_id, kind, request, customer_id, idempotency_key, created_at)
      values (${prefix + randomToken(32, random)}, ${kind}, ${database.sql.json({ ...request })}, ${customerId}, ${idempotencyKey}, ${new Date(now)})
      on conflict (idempotency_key) do update set idempotency_key = excluded.idempotency_key
      returning session_id as id`
    // An insert with an update for its conflict answers one row or throws.
    return row!.id
  }

  async #find(tx: TransactionSql, sessionId: string): Promise<SessionRow | null> {
    const [row] = await tx<Array<SessionRow & { readonly created_at: Date }>>`
      select kind, request, subscription_id, customer_id, created_at from sandbox_billing_sessions where session_id = ${sessionId} for update`
    if (row === undefined) return null
    const life = row.kind === 'checkout' ? CHECKOUT_LIFE : PORTAL_LIFE
    return this.#options.clock.now() - row.created_at.getTime() < life ? row : null
  }

  async #ofCustomer(tx: TransactionSql, { customer_id: customerId }: SessionRow): Promise<BilledSubscription[]> {
    const rows = await tx<
      SubscriptionRow[]
    >`select * from sandbox_subscriptions where customer_id = ${customerId} order by started_at desc for update`
    const read: BilledSubscription[] = []
    for (const row of rows) read.push(await this.#asOfNow(tx, row))
    return read
  }

  async #asOfNow(tx: TransactionSql, row: SubscriptionRow): Promise<BilledSubscription> {
    const now = this.#options.clock.now()
    const end = row.current_period_end.getTime()
    const isDue = row.status !== 'canceled' && row.status !== 'past_due' && end <= now
    const currentPeriodEnd = isDue ? end + (Math.floor((now - end) / PERIOD) + 1) * PERIOD : end
    const status = isDue ? 'active' : row.status
    if (isDue)
      await tx`update sandbox_subscriptions set status = ${status}, current_period_end = ${new Date(currentPeriodEnd)} where subscription_id = ${row.subscription_id}`
    return {
      subscriptionId: row.subscription_id,
      customerId: row.customer_id,
      status,
      currentPeriodEnd,
      startedAt: row.started_at.getTime(),
      plan: row.plan_tier,
      merchantId: row.merchant_id,
      email: row.email,
      customerName: row.customer_name
    }
  }
}

function token(random: Random): string {
  return Buffer.from(random(12)).toString('hex')
}

function checkoutOf({ request }: SessionRow): KeptCheckout {
  return request as KeptCheckout /* only createCheckout writes requests of checkouts */
}

function returnUrlOf({ request }: SessionRow): string {
  return (request as { readonly returnUrl: string }) /* only portal writes those of portals */.returnUrl
}
