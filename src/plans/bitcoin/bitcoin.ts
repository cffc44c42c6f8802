import { iso } from '../../engine/formats/iso-time.ts'
import type { SqlAdminStore } from '../../web/admin/store.ts'
import type { ApprovedSubscription } from '../../web/admin/schema.ts'
import type { Challenge } from '../../selling/holding/challenge.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import { knownDecimal } from '../../lightning/money/decimal.ts'
import { atPrice, type Quotes } from '../../lightning/money/prices.ts'
import type { Payable } from '../../web/pay/payable.ts'
import { PAYMENT_CHANNEL } from '../../payments/payments/watch.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { BITCOIN_PREFIX } from '../../accounts/merchants/plans.ts'
import { checkMayBuy, runningPeriod, takesPayment, added, extended, monthsUntil, type Period } from './period.ts'
import type { PlanInvoices } from './invoices.ts'
import type {
  BitcoinInvoice,
  BitcoinPricingView,
  BitcoinSubscription,
  BitcoinSubscriptionInput,
  BitcoinSubscriptionView,
  PlanInvoicesView
} from './schema.ts'
import type { BitcoinStore } from './store.ts'
import { listedPlans, parseSoldPlan, type ListedCaps } from '../plans.ts'

/** What plans in bitcoin are sold and renewed with. */
export interface BitcoinServices {
  readonly store: BitcoinStore
  readonly invoices: PlanInvoices
  readonly merchants: Merchants
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  publicUrl(): string
  payee(): string
}

interface BitcoinPlansOptions extends BitcoinServices {
  /** Holds a subscription without an account until an administrator approves it. */
  readonly pending: SqlAdminStore
  readonly prices: Quotes
  readonly random: Random
  caps(): ListedCaps
  /** Called once for each paid invoice, after the commit, in satoshis; for metrics. Must not throw. */
  readonly sold?: (amountSats: number) => void
}

const MOST_LISTED = 100

export interface Buyer {
  /** By API key; null without one. */
  readonly merchant: Merchant | null
  /** The client's network, whose open invoices are counted (decision 32). */
  readonly client: string
}

/**
 * Plans that are paid by Lightning, one calendar month at a time (contract, Billing and checkout; decisions 165 and
 * 167).
 */
export class BitcoinPlans {
  readonly #options: BitcoinPlansOptions

  constructor(options: BitcoinPlansOptions) {
    this.#options = options
  }

  /** The listed plans with their prices in satoshis. @throws Unavailable 503 "Price feed unavailable" */
  async pricing(): Promise<BitcoinPricingView> {
    const { price, expiresAt } = await this.#options.prices.quote('USD')
    const quoteExpiresAt = iso(expiresAt)
    return {
      plans: listedPlans(this.#options.caps(), 0).map(plan => ({
        ...plan,
        features: [...plan.features],
        priceSats: plan.priceUsd === 0 ? 0 : atPrice(knownDecimal(String(plan.priceUsd)), price),
        quoteExpiresAt
      }))
    }
  }

  /**
   * Makes an invoice for one period. The response does not reveal whether an account has the address.
   * @throws ShortError 400 for a plan or account that cannot buy; Unavailable 503; RateLimited 429
   */
  async create(input: BitcoinSubscriptionInput, { merchant, client }: Buyer): Promise<BitcoinSubscriptionView> {
    const { clock, random, store, invoices } = this.#options
    const plan = parseSoldPlan(input.plan)
    if (merchant !== null) checkMayBuy(merchant)
    const subscription: BitcoinSubscription = {
      id: BITCOIN_PREFIX + randomToken(16, random),
      email: merchant?.email ?? input.email.trim().toLowerCase(),
      customerName: input.customerName ?? null,
      plan,
      merchantId: merchant?.id ?? null,
      state: 'incomplete',
      currentPeriodEnd: null,
      anchorDay: null,
      reminded: null,
      createdAt: clock.now()
    }
    const { invoice } = await invoices.make({
      subscription,
      keyed: merchant !== null,
      clientKey: merchant === null ? client : `merchant:${merchant.id}`,
      // Open invoices of anonymous buyers must not block accounts.
      place: merchant === null ? 'plans' : `plans:${merchant.id}`,
      record: sql => store.insertSubscription(sql, subscription)
    })
    return {
      subscriptionId: invoice.subscriptionId,
      invoiceId: invoice.invoiceId,
      lightningInvoice: invoice.invoice,
      paymentHash: invoice.paymentHash,
      amountSats: invoice.amountSats,
      payUrl: payUrl(this.#options.publicUrl(), invoice),
      expiresAt: iso(invoice.expiresAt)
    }
  }

  /**
   * Called when the provider reports an invoice as paid; idempotent. Credits the month to the key's account, else to
   * the account with the address. Without one, or where the payment must not change it, an administrator decides
   * (decision 171). Rejects when the write fails, so that the caller retries.
   */
  async settled({ paymentHash }: Pick<Challenge, 'paymentHash'>): Promise<void> {
    const { store, database, clock, log, sold } = this.#options
    const amountSats = await database.transaction(async sql => {
      await store.serialize(sql)
      const found = await store.byPaymentHash(sql, paymentHash)
      if (found === null) {
        log.error({ paymentHash }, 'a plan was paid whose invoice is not on record')
        return null
      }
      const { invoice, subscription } = found
      if (invoice.paidAt !== null) return null
      await this.#activate(sql, subscription)
      await store.paid(sql, invoice.invoiceId, clock.now())
      await database.notify(PAYMENT_CHANNEL, invoice.invoiceId, sql)
      return invoice.amountSats
    })
    if (amountSats !== null) sold?.(amountSats)
  }

  /**
   * Hook `OnApproved`, in its transaction: assigns an approved bitcoin subscription to the account. Its months count
   * from now, after any time already paid: the plan could not be used while it waited.
   */
  async approved(
    sql: TransactionSql,
    { merchant, subscription }: Pick<ApprovedSubscription, 'merchant' | 'subscription'>
  ): Promise<void> {
    const { store, clock, merchants } = this.#options
    const id = subscription.billingSubscriptionId
    const own = id === null || !id.startsWith(BITCOIN_PREFIX) ? null : await store.byId(sql, id)
    if (own === null) return
    const now = clock.now()
    // The row was written with the first payment.
    const months = monthsUntil(subscription.createdAt, own.currentPeriodEnd ?? subscription.createdAt)
    let period = extended(await store.paidPeriod(sql, merchant.id, own.id), now)
    for (let more = 1; more < months; more++) period = added(period)
    await merchants.within(sql).change(merchant.id, { currentPeriodEnd: period.end })
    await store.activate(sql, own.id, period, merchant.id)
    await store.replaceOthers(sql, merchant.id, own.id)
  }

  async invoices({ id }: Pick<Merchant, 'id'>): Promise<PlanInvoicesView> {
    const { store, clock, publicUrl } = this.#options
    const now = clock.now()
    const invoices = await store.ofMerchant(id, MOST_LISTED)
    return {
      invoices: invoices.map(invoice => ({
        invoiceId: invoice.invoiceId,
        description: invoice.description,
        status: statusOf(invoice, now),
        priceUsd: invoice.priceUsd,
        amountSats: invoice.amountSats,
        createdAt: iso(invoice.createdAt),
        expiresAt: iso(invoice.expiresAt),
        paidAt: iso(invoice.paidAt),
        payUrl: payUrl(publicUrl(), invoice)
      }))
    }
  }

  async byPayToken(token: string): Promise<{ readonly payable: Payable; readonly payee: string } | null> {
    const { store, clock, payee } = this.#options
    const invoice = await store.byPayToken(token)
    return invoice === null ? null : { payable: payableOf(invoice, clock.now()), payee: payee() }
  }

  // Locks rows in the order of an approval: pending subscription, account, bitcoin subscription.
  async #activate(sql: TransactionSql, subscription: BitcoinSubscription): Promise<void> {
    const merchants = this.#options.merchants.within(sql)
    const { merchantId, email } = subscription
    const merchant = merchantId === null ? await merchants.byEmail(email) : await merchants.byId(merchantId)
    if (merchant === null || !(await this.#give(sql, merchant.id, subscription)))
      await this.#wait(sql, subscription, merchant !== null)
  }

  /** Adds the month to the account; false when the payment must not change it. */
  async #give(sql: TransactionSql, id: number, subscription: BitcoinSubscription): Promise<boolean> {
    const { store, clock } = this.#options
    const merchants = this.#options.merchants.within(sql)
    await store.lockMerchant(sql, id)
    const merchant = await merchants.byId(id)
    if (merchant === null || !takesPayment(merchant, subscription)) return false
    const { plan } = subscription
    const period = extended(runningPeriod(merchant, plan, subscription), clock.now())
    // A change of plan sets the flags; afterwards they are independent (decision 77).
    if (merchant.storedTier !== plan) await merchants.setTier(id, plan)
    await merchants.change(id, {
      subscriptionStatus: 'active',
      currentPeriodEnd: period.end,
      billingSubscriptionId: subscription.id
    })
    await store.activate(sql, subscription.id, period, id)
    await store.replaceOthers(sql, id, subscription.id)
    return true
  }

  /**
   * Leaves the month to an administrator. A second payment of a waiting buyer is added to the first (see `approved`).
   */
  async #wait(sql: TransactionSql, subscription: BitcoinSubscription, alone: boolean): Promise<void> {
    const { store, pending, clock, random } = this.#options
    const { email, plan } = subscription
    const now = clock.now()
    if (subscription.currentPeriodEnd !== null) {
      // A renewal: its subscription may have been reviewed already, so this month waits as a new one.
      const renewed: BitcoinSubscription = {
        ...subscription,
        id: BITCOIN_PREFIX + randomToken(16, random),
        merchantId: null,
        state: 'incomplete',
        currentPeriodEnd: null,
        anchorDay: null,
        reminded: null,
        createdAt: now
      }
      await store.insertSubscription(sql, renewed)
      return await this.#wait(sql, renewed, true)
    }
    const held = alone ? null : await store.waiting(sql, email, plan)
    const target = held ?? subscription
    const paid = held === null ? null : periodOf(held)
    const period = paid === null ? extended(null, now) : added(paid)
    const row = await pending.insert(
      {
        email,
        customerName: target.customerName,
        planTier: plan,
        subscriptionStatus: 'active',
        currentPeriodEnd: period.end,
        billingCustomerId: null,
        billingSubscriptionId: target.id
      },
      now,
      sql
    )
    // Approved meanwhile.
    if (
      row.linkedMerchantId !== null &&
      (await this.#give(sql, row.linkedMerchantId, { ...target, merchantId: row.linkedMerchantId }))
    )
      return
    // Reviewed meanwhile: this payment needs a review of its own.
    if (row.state !== 'pending') return await this.#wait(sql, subscription, true)
    await store.activate(sql, target.id, period, null)
    if (target.id !== subscription.id) await store.replace(sql, subscription.id)
  }
}

/**
 * Milliseconds after its expiry for which an invoice does not read as expired, since reports of payment may be late.
 */
const LATE_NEWS = 15 * 60_000

function statusOf({ paidAt, expiresAt }: BitcoinInvoice, now: number): 'unpaid' | 'paid' | 'expired' {
  if (paidAt !== null) return 'paid'
  return expiresAt + LATE_NEWS <= now ? 'expired' : 'unpaid'
}

export function payUrl(publicUrl: string, { payToken }: Pick<BitcoinInvoice, 'payToken'>): string {
  return `${publicUrl}/pay/${payToken}`
}

function periodOf({ currentPeriodEnd, anchorDay }: BitcoinSubscription): Period | null {
  return currentPeriodEnd === null || anchorDay === null ? null : { end: currentPeriodEnd, anchorDay }
}

function payableOf(invoice: BitcoinInvoice, now: number): Payable {
  const { invoiceId, payToken, priceUsd, amountSats, description, kind, createdAt, expiresAt, paidAt } = invoice
  return {
    invoiceId,
    payToken,
    status: statusOf(invoice, now),
    amount: String(priceUsd),
    currency: 'USD',
    description,
    successUrl: null,
    kind,
    invoice: invoice.invoice,
    onchainAddress: null,
    amountSats,
    receivedSats: null,
    createdAt,
    expiresAt,
    confirmsAt: null,
    paidAt
  }
}
