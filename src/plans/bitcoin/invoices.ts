import type { Minting } from '../../selling/minting/minting.ts'
import { UNROUTED, type Offer } from '../../selling/offers/offer.ts'
import type { Challenge } from '../../selling/holding/challenge.ts'
import type { ChallengeStore } from '../../selling/holding/store.ts'
import { planNames } from '../../accounts/merchants/plans.ts'
import { atPrice, type Quotes } from '../../lightning/money/prices.ts'
import { knownDecimal } from '../../lightning/money/decimal.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { numericId, randomToken, type Random } from '../../platform/system/ids.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { BitcoinInvoice, BitcoinSubscription } from './schema.ts'
import { InvoiceIdTaken } from '../../payments/payments/store.ts'
import type { BitcoinStore } from './store.ts'
import { planPricesUsd, type SoldPlan } from '../plans.ts'

interface PlanInvoicesOptions {
  readonly challengeStore: ChallengeStore
  readonly minting: Minting
  readonly store: BitcoinStore
  readonly database: Database
  readonly prices: Quotes
  readonly clock: Clock
  readonly random: Random
}

interface PlanInvoiceRequest {
  readonly subscription: Pick<BitcoinSubscription, 'id' | 'plan' | 'email'>
  readonly clientKey: string
  readonly place: string
  /** Requested with an account's key, or by a job. */
  readonly keyed: boolean
  /** An hour when left out. */
  readonly expiry?: number
  /** Writes dependent rows in the invoice's transaction, before the invoice. */
  readonly record: (sql: TransactionSql, invoice: BitcoinInvoice) => Promise<void>
}

const PATH = '/api/bitcoin/create-subscription'
/** Attempts to draw an unused invoice id. */
const DRAWS = 5

/** Makes invoices for plans: by the platform's provider, at the current price, one for each period. */
export class PlanInvoices {
  readonly #options: PlanInvoicesOptions

  constructor(options: PlanInvoicesOptions) {
    this.#options = options
  }

  /**
   * Makes an invoice in one transaction with its challenge and `request.record`. A client with too many open invoices for
   * one buyer gets the newest of them again.
   * @throws Unavailable 503 without price, provider or database; RateLimited 429 for too many open invoices
   */
  async make(request: PlanInvoiceRequest): Promise<{ readonly invoice: BitcoinInvoice; readonly again: boolean }> {
    const { challengeStore, database, minting, prices, store } = this.#options
    const { price } = await prices.quote('USD')
    const { plan } = request.subscription
    const priceUsd = planPricesUsd[plan]
    const created: { invoice: BitcoinInvoice | null } = { invoice: null }
    const { challenge, again } = await minting.mint(offerOf(request, atPrice(knownDecimal(String(priceUsd)), price)), {
      clientKey: request.clientKey,
      digest: null,
      keyed: request.keyed,
      record: async challenge => {
        created.invoice = await this.#numbered(challenge, request, priceUsd, async (sql, invoice) => {
          await challengeStore.insert(sql, challenge)
          await request.record(sql, invoice)
          await store.insertInvoice(sql, invoice)
        })
      }
    })
    if (created.invoice !== null) return { invoice: created.invoice, again: false }
    const found = await store.byPaymentHash(database.sql, challenge.paymentHash)
    if (found === null) throw new Error('a challenge of a plan has no invoice')
    return { invoice: found.invoice, again }
  }

  async #numbered(
    challenge: Pick<
      Challenge,
      'paymentHash' | 'amountSats' | 'invoice' | 'providerKind' | 'createdAt' | 'expiresAt' | 'description'
    >,
    request: PlanInvoiceRequest,
    priceUsd: number,
    write: (sql: TransactionSql, invoice: BitcoinInvoice) => Promise<void>
  ): Promise<BitcoinInvoice> {
    const { random, database } = this.#options
    for (let draw = 1; ; draw++) {
      const invoice: BitcoinInvoice = {
        invoiceId: numericId(random),
        subscriptionId: request.subscription.id,
        paymentHash: challenge.paymentHash,
        payToken: randomToken(32, random),
        priceUsd,
        amountSats: challenge.amountSats,
        description: challenge.description,
        invoice: challenge.invoice,
        // Challenges keep the kind's name as text; providers have configured kinds only.
        kind: challenge.providerKind as KindName,
        createdAt: challenge.createdAt,
        expiresAt: challenge.expiresAt,
        paidAt: null
      }
      try {
        await database.transaction(sql => write(sql, invoice))
        return invoice
      } catch (error) {
        if (!(error instanceof InvoiceIdTaken) || draw === DRAWS) throw error
      }
    }
  }
}

function describePlan(plan: SoldPlan): string {
  return `${planNames[plan]}, one month`
}

function offerOf({ subscription, place, expiry = 3_600_000 }: PlanInvoiceRequest, amountSats: number): Offer {
  const seconds = Math.max(1, Math.floor(expiry / 1000))
  return {
    amountSats,
    source: 'subscription',
    service: 'subscription:0',
    merchantId: null,
    proxyId: null,
    place,
    path: PATH,
    tokenPath: PATH,
    wildcard: false,
    method: 'POST',
    // Two buyers behind one address must not share an invoice.
    query: JSON.stringify([subscription.plan, subscription.email]),
    tokenValiditySeconds: seconds,
    invoiceExpirySeconds: seconds,
    description: describePlan(subscription.plan),
    payee: 'platform',
    ...UNROUTED
  }
}
