import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { ChargeState } from '../../lightning/providers/provider.ts'
import type { OnPaymentChange, Payment, PaymentStatus } from './schema.ts'
import { due, moreReceived, next, stepped } from './states.ts'
import type { PaymentStore } from './store.ts'
import { PAYMENT_CHANNEL } from './watch.ts'

/** What is known of a change besides the status. */
export interface ChangeFacts {
  /** When it was paid, in milliseconds since the epoch; now where nobody said. Counts only for the change to `paid`. */
  readonly paidAt?: number | null
  /** What came so far, in satoshis. */
  readonly receivedSats?: number | null
}

/** Which payment is meant. */
export interface PaymentKey {
  readonly merchantId: number
  readonly invoiceId: string
}

/** What changes are made with. */
export interface ChangeParts {
  readonly store: PaymentStore
  readonly database: Database
  readonly clock: Clock
  /** Called for every change, inside its transaction; nobody where it is left out. */
  readonly changed?: OnPaymentChange
  /**
   * Told once of each payment that has become paid, after that was committed; demo payments are none. For figures: it
   * must not throw.
   */
  readonly paid?: (payment: Payment) => void
}

function isSold(status: PaymentStatus): boolean {
  return status === 'paid' || status === 'refunded'
}

/**
 * The one way in which the status of a payment changes: under a lock on its row, with `changed` called once in the
 * same transaction, and told to listeners when that commits. Repeated and outdated news change nothing.
 */
export class PaymentChanges {
  readonly #parts: ChangeParts

  constructor(parts: ChangeParts) {
    this.#parts = parts
  }

  /**
   * Changes a payment that the caller has locked in its own transaction, and answers it as it is then. `tellMerchant`:
   * by webhook, which is so for all but our own refund (decision 56).
   * @throws TypeError for a change that no payment makes; what `changed` throws. Both roll the caller's transaction
   * back
   */
  async apply(
    sql: TransactionSql,
    payment: Payment,
    to: PaymentStatus,
    facts: ChangeFacts,
    tellMerchant: boolean
  ): Promise<Payment> {
    const { store, database, clock } = this.#parts
    const now = clock.now()
    const changed = stepped(
      payment,
      { to, paidAt: facts.paidAt ?? null, receivedSats: facts.receivedSats ?? null },
      now
    )
    await store.update(sql, changed, now)
    await this.#parts.changed?.(sql, { payment: changed, from: payment.status, tellMerchant })
    await database.notify(PAYMENT_CHANNEL, payment.invoiceId, sql)
    return changed
  }

  /**
   * Takes in what the provider says of a payment, asked at `askedAt` (milliseconds); null when there is no such
   * payment.
   */
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
      // More of the money has come, and the status stays as it is.
      now = { ...now, receivedSats }
      await this.#parts.store.update(sql, now, this.#parts.clock.now())
      return now
    })
    // Committed now. What goes on to be refunded at once was paid in between.
    if (after !== null && before !== null && !isSold(before) && isSold(after.status)) this.#parts.paid?.(after)
    return after
  }

  /**
   * Writes down what time alone had done to a payment by `asOf` (milliseconds); null when there is no such payment. An
   * expiry is told to the merchant by this, so it is the caller's to know that the provider was asked (decision 178).
   */
  recordDue(key: PaymentKey, asOf: number): Promise<Payment | null> {
    return this.#locked(key, async (sql, payment) => {
      const step = due(payment, asOf)
      return step === null ? payment : await this.apply(sql, payment, step.to, { paidAt: step.paidAt }, true)
    })
  }

  /**
   * An unpaid payment is expired from now on, and its merchant is told; all others stay as they are. Null when there is
   * no such payment. It is the caller's to know that the provider was asked (decision 178).
   */
  cancel(key: PaymentKey): Promise<Payment | null> {
    return this.#locked(key, async (sql, payment) =>
      payment.status === 'unpaid' ? await this.apply(sql, payment, 'expired', {}, true) : payment
    )
  }

  #locked(key: PaymentKey, run: (sql: TransactionSql, payment: Payment) => Promise<Payment>): Promise<Payment | null> {
    const { store, database } = this.#parts
    return database.transaction(async sql => {
      const payment = await store.lock(sql, key.merchantId, key.invoiceId)
      return payment === null ? null : await run(sql, payment)
    })
  }
}
