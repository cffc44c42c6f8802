import type { AdminStore } from '../../web/admin/store.ts'
import type { ApprovedSubscription } from '../../web/admin/schema.ts'
import type { Challenge } from '../../selling/holding/store.ts'
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
import { checkMayBuy, runningPeriod, takesPayment } from './accounts.ts'
import type { PlanInvoices } from './invoices.ts'
import { added, extended, monthsUntil, type Period } from './period.ts'
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

/** What plans paid in bitcoin are sold with. */
export interface BitcoinPlansParts {
  readonly store: BitcoinStore
  readonly invoices: Pick<PlanInvoices, 'make'>
  /** Where a subscription without an account waits for an administrator. */
  readonly pending: Pick<AdminStore, 'insert'>
  readonly database: Database
  readonly merchants: Merchants
  readonly prices: Quotes
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  publicUrl(): string
  /** What the plans allow, for the words of the feed. */
  caps(): ListedCaps
  /** Milliseconds for which an invoice of the platform is payable. */
  expiry(): number
  /** Who is paid, for people. */
  payee(): string
  /** Told once of each invoice that was paid, after that was committed, in satoshis; for figures: it must not throw. */
  readonly sold?: (amountSats: number) => void
}

/** Of a list: there is one for each month. */
const MOST_LISTED = 100

/** Who buys. */
export interface Buyer {
  /** By its key; null for anybody. */
  readonly merchant: Merchant | null
  /** The client's network, whose open invoices are counted (decision 32). */
  readonly client: string
}

/**
 * Plans that are paid by Lightning, one calendar month at a time (contract, Billing and checkout; decisions 165 and
 * 167).
 */
export class BitcoinPlans {
  readonly #parts: BitcoinPlansParts

  constructor(parts: BitcoinPlansParts) {
    this.#parts = parts
  }

  /** The listed plans with their prices in satoshis. @throws Unavailable 503 "Price feed unavailable" */
  async pricing(): Promise<BitcoinPricingView> {
    const { price, expiresAt } = await this.#parts.prices.quote('USD')
    const quoteExpiresAt = new Date(expiresAt).toISOString()
    return {
      plans: listedPlans(this.#parts.caps(), 0).map(plan => ({
        ...plan,
        features: [...plan.features],
        priceSats: plan.priceUsd === 0 ? 0 : atPrice(knownDecimal(String(plan.priceUsd)), price),
        quoteExpiresAt
      }))
    }
  }

  /**
   * Makes an invoice for one period. Nothing in the response tells whether an account has the address.
   * @throws ShortError 400 for a plan that is not sold so, or an account that may not buy it; Unavailable 503;
   *   RateLimited 429
   */
  async create(input: BitcoinSubscriptionInput, { merchant, client }: Buyer): Promise<BitcoinSubscriptionView> {
    const { clock, random, store, invoices } = this.#parts
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
      // What strangers leave open must not keep accounts from paying.
      place: merchant === null ? 'plans' : `plans:${merchant.id}`,
      expiry: this.#parts.expiry(),
      record: sql => store.insertSubscription(sql, subscription)
    })
    return {
      subscriptionId: invoice.subscriptionId,
      invoiceId: invoice.invoiceId,
      lightningInvoice: invoice.invoice,
      paymentHash: invoice.paymentHash,
      amountSats: invoice.amountSats,
      payUrl: payUrl(this.#parts.publicUrl(), invoice),
      expiresAt: new Date(invoice.expiresAt).toISOString()
    }
  }

  /**
   * The provider says that an invoice was paid: gives its month, once, also when it comes late or twice. The account is
   * the key's, else that with the address; where there is none, or where the payment must not move it, an administrator
   * is given the subscription (decision 171). Rejects when that could not be written, so that the news come again.
   */
  async settled({ paymentHash }: Pick<Challenge, 'paymentHash'>): Promise<void> {
    const { store, database, clock, log, sold } = this.#parts
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
   * An administrator has approved a subscription: if it is one of ours, it is the account's from here on, and renewed.
   * Its months count from now, behind what the account has paid for meanwhile: nobody could use them while they waited.
   * For the hook `OnApproved`, in its transaction.
   */
  async approved(
    sql: TransactionSql,
    { merchant, subscription }: Pick<ApprovedSubscription, 'merchant' | 'subscription'>
  ): Promise<void> {
    const { store, clock, merchants } = this.#parts
    const id = subscription.billingSubscriptionId
    const own = id === null || !id.startsWith(BITCOIN_PREFIX) ? null : await store.byId(sql, id)
    if (own === null) return
    const now = clock.now()
    // It was written when the first of them was paid.
    const months = monthsUntil(subscription.createdAt, own.currentPeriodEnd ?? subscription.createdAt)
    let period = extended(await store.paidPeriod(sql, merchant.id, own.id), now)
    for (let more = 1; more < months; more++) period = added(period)
    await merchants.within(sql).setSubscription(merchant.id, { currentPeriodEnd: period.end })
    await store.activate(sql, own.id, period, merchant.id)
    await store.replaceOthers(sql, merchant.id, own.id)
  }

  /** The invoices of an account's plan. */
  async invoices({ id }: Pick<Merchant, 'id'>): Promise<PlanInvoicesView> {
    const { store, clock, publicUrl } = this.#parts
    const now = clock.now()
    const invoices = await store.ofMerchant(id, MOST_LISTED)
    return {
      invoices: invoices.map(invoice => ({
        invoiceId: invoice.invoiceId,
        description: invoice.description,
        status: statusOf(invoice, now),
        priceUsd: invoice.priceUsd,
        amountSats: invoice.amountSats,
        createdAt: new Date(invoice.createdAt).toISOString(),
        expiresAt: new Date(invoice.expiresAt).toISOString(),
        paidAt: invoice.paidAt === null ? null : new Date(invoice.paidAt).toISOString(),
        payUrl: payUrl(publicUrl(), invoice)
      }))
    }
  }

  /** What the pay page of an invoice shows; null for a token that is none. */
  async byPayToken(token: string): Promise<Payable | null> {
    const invoice = await this.#parts.store.byPayToken(token)
    return invoice === null ? null : payableOf(invoice, this.#parts.clock.now())
  }

  payee(): string {
    return this.#parts.payee()
  }

  // Rows are locked in the order in which an approval locks them: pending subscription, account, our own.
  async #activate(sql: TransactionSql, subscription: BitcoinSubscription): Promise<void> {
    const merchants = this.#parts.merchants.within(sql)
    const { merchantId, email } = subscription
    const merchant = merchantId === null ? await merchants.byEmail(email) : await merchants.byId(merchantId)
    if (merchant === null || !(await this.#give(sql, merchant.id, subscription)))
      await this.#wait(sql, subscription, merchant !== null)
  }

  /** Adds the month to the account; false when the payment must not move it. */
  async #give(sql: TransactionSql, id: number, subscription: BitcoinSubscription): Promise<boolean> {
    const { store, clock } = this.#parts
    const merchants = this.#parts.merchants.within(sql)
    await store.lockMerchant(sql, id)
    const merchant = await merchants.byId(id)
    if (merchant === null || !takesPayment(merchant, subscription)) return false
    const { plan } = subscription
    const period = extended(runningPeriod(merchant, plan, subscription), clock.now())
    // The flags of a plan are set when it changes; from then on they live on their own (decision 77).
    if (merchant.storedTier !== plan) await merchants.setTier(id, plan)
    await merchants.setSubscription(id, {
      subscriptionStatus: 'active',
      currentPeriodEnd: period.end,
      billingSubscriptionId: subscription.id
    })
    await store.activate(sql, subscription.id, period, id)
    await store.replaceOthers(sql, id, subscription.id)
    return true
  }

  /**
   * Leaves the month to an administrator. A second payment of one buyer who waits is added to the first, whose months
   * do not pass meanwhile (see `approved`).
   */
  async #wait(sql: TransactionSql, subscription: BitcoinSubscription, alone: boolean): Promise<void> {
    const { store, pending, clock, random } = this.#parts
    const { email, plan } = subscription
    const now = clock.now()
    if (subscription.currentPeriodEnd !== null) {
      // A renewal. Its subscription was an account's, and may have been reviewed, which nothing is twice: this month
      // waits by itself.
      const anew: BitcoinSubscription = {
        ...subscription,
        id: BITCOIN_PREFIX + randomToken(16, random),
        merchantId: null,
        currentPeriodEnd: null,
        anchorDay: null,
        createdAt: now
      }
      await store.insertSubscription(sql, anew)
      return await this.#wait(sql, anew, true)
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
    // Approved a moment ago, and so the account's.
    if (
      row.linkedMerchantId !== null &&
      (await this.#give(sql, row.linkedMerchantId, { ...target, merchantId: row.linkedMerchantId }))
    )
      return
    // Reviewed a moment ago: whatever became of that one, nobody has seen this payment.
    if (row.state !== 'pending') return await this.#wait(sql, subscription, true)
    await store.activate(sql, target.id, period, null)
    if (target.id !== subscription.id) await store.replace(sql, subscription.id)
  }
}

/** Milliseconds after its end for which an invoice does not read expired, since news of its payment may be late. */
const LATE_NEWS = 15 * 60_000

function statusOf({ paidAt, expiresAt }: BitcoinInvoice, now: number): 'unpaid' | 'paid' | 'expired' {
  if (paidAt !== null) return 'paid'
  return expiresAt + LATE_NEWS <= now ? 'expired' : 'unpaid'
}

/** The page of an invoice. */
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
