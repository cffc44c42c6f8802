import { isTest } from '../../engine/operations/roles.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { ChargeState } from '../../lightning/provider-calls/provider.ts'
import type { OnPaymentChange, Payment, PaymentStatus } from './schema.ts'
import { due, moreReceived, next, stepped } from './states.ts'
import type { PaymentStore } from './store.ts'
import { PAYMENT_CHANNEL } from './watch.ts'

export interface ChangeFacts {
  /** Milliseconds since the epoch; defaults to now. Used only for the change to `paid`. */
  readonly paidAt?: number | null
  /** Total received, in satoshis. */
  readonly receivedSats?: number | null
}

export interface PaymentKey {
  readonly merchantId: number
  readonly invoiceId: string
}

export interface ChangeDependencies {
  readonly store: PaymentStore
  readonly database: Database
  readonly clock: Clock
  readonly changed?: OnPaymentChange
  /** Called after the commit of each payment's change to paid, without demos and tests. For metrics: must not throw. */
  readonly paid?: (payment: Payment) => void
}

function isSold(status: PaymentStatus): boolean {
  return status === 'paid' || status === 'refunded'
}

/**
 * The only way to change a payment's status: under a row lock, with `changed` called in the transaction and listeners
 * notified by its commit. Repeated and outdated news change nothing.
 */
export class PaymentChanges {
  readonly #dependencies: ChangeDependencies

  constructor(dependencies: ChangeDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Changes a payment that the caller has locked, and returns it. `tellMerchant` is false only for our own refund
   * (decision 56).
   * @throws TypeError for an illegal transition; what `changed` throws. Both roll back.
   */
  async apply(
    sql: TransactionSql,
    payment: Payment,
    to: PaymentStatus,
    facts: ChangeFacts,
    tellMerchant: boolean
  ): Promise<Payment> {
    const { store, database, clock } = this.#dependencies
    const now = clock.now()
    const changed = stepped(
      payment,
      { to, paidAt: facts.paidAt ?? null, receivedSats: facts.receivedSats ?? null },
      now
    )
    await store.update(sql, changed, now)
    await this.#dependencies.changed?.(sql, { payment: changed, from: payment.status, tellMerchant })
    await database.notify(PAYMENT_CHANNEL, payment.invoiceId, sql)
    return changed
  }

  /** Records a provider's answer to a request made at `askedAt` (milliseconds); null for an unknown payment. */
  async observe(key: PaymentKey, seen: ChargeState, askedAt: number): Promise<Payment | null> {
    let before: PaymentStatus | null = null
    const after = await this.#locked(key, async (sql, payment) => {
      before = payment.status
      let now = payment
      for (const { to, paidAt, receivedSats } of next(payment, seen, askedAt)) {
        now = await this.apply(sql, now, to, { paidAt, receivedSats }, true)
      }
      const receivedSats = moreReceived(now, seen.receivedSats)
      if (receivedSats === null) return now
      now = { ...now, receivedSats }
      await this.#dependencies.store.update(sql, now, this.#dependencies.clock.now())
      return now
    })
    // After the commit. A payment refunded in one step was paid in between.
    if (after !== null && before !== null && !isSold(before) && isSold(after.status) && !isTest(after.merchantId))
      this.#dependencies.paid?.(after)
    return after
  }

  /**
   * Records a transition due by `asOf` (milliseconds); null for an unknown payment. Notifies the merchant of an expiry,
   * so the caller must have asked the provider (decision 178).
   */
  recordDue(key: PaymentKey, asOf: number): Promise<Payment | null> {
    return this.#locked(key, async (sql, payment) => {
      const step = due(payment, asOf)
      return step === null ? payment : await this.apply(sql, payment, step.to, { paidAt: step.paidAt }, true)
    })
  }

  /**
   * Expires an unpaid payment now and notifies its merchant; others stay unchanged. Null for an unknown payment. The
   * caller must have asked the provider (decision 178).
   */
  cancel(key: PaymentKey): Promise<Payment | null> {
    return this.#locked(key, async (sql, payment) =>
      payment.status === 'unpaid' ? await this.apply(sql, payment, 'expired', {}, true) : payment
    )
  }

  #locked(key: PaymentKey, run: (sql: TransactionSql, payment: Payment) => Promise<Payment>): Promise<Payment | null> {
    const { store, database } = this.#dependencies
    return database.transaction(async sql => {
      const payment = await store.lock(sql, key.merchantId, key.invoiceId)
      return payment === null ? null : await run(sql, payment)
    })
  }
}
