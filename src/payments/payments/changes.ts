import { isTest } from '../../engine/operations/operation.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { ChargeState } from '../../lightning/provider-calls/provider.ts'
import type { OnPaymentChange, Payment, PaymentStatus } from './schema.ts'
import type { PaymentKey } from './store.ts'
import type { PaymentStore } from './store-sql.ts'
import { PAYMENT_CHANNEL } from './watch.ts'

export interface ChangeFacts {
  /** Defaults to now. Used only for the change to `paid`. */
  readonly paidAt?: number | null
  readonly receivedSats?: number | null
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
  async observe(key: PaymentKey, seen: ChargeState, polledAt: number): Promise<Payment | null> {
    let before: PaymentStatus | null = null
    const after = await this.#locked(key, async (sql, payment) => {
      before = payment.status
      let now = payment
      for (const { to, paidAt, receivedSats } of next(payment, seen, polledAt)) {
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

/**
 * Transitions of each state (decisions 40, 41 and 56). Added to decision 40: late partial payments become underpaid, so
 * that they can be refunded, and every refundable payment can become `refunded` (contract, Refund: eligibility). No
 * state returns to an earlier one, so that repeated and reordered news do no harm.
 */
const CAN_BECOME: Readonly<Record<PaymentStatus, ReadonlySet<PaymentStatus>>> = Object.freeze({
  unpaid: new Set<PaymentStatus>(['processing', 'paid', 'underpaid', 'expired']),
  processing: new Set<PaymentStatus>(['paid', 'underpaid', 'expired', 'refunded']),
  underpaid: new Set<PaymentStatus>(['paid', 'refunded']),
  paid: new Set<PaymentStatus>(['refunded']),
  expired: new Set<PaymentStatus>(['paid', 'underpaid']),
  refunded: new Set<PaymentStatus>()
})

/** The fields that determine the status of a payment or a plan's invoice. */
export type Timed = Pick<Payment, 'status' | 'confirmsAt' | 'expiresAt' | 'paidAt' | 'receivedSats'>

interface Transition {
  readonly to: PaymentStatus
  /** Null when unknown. */
  readonly paidAt: number | null
  readonly receivedSats: number | null
}

export function canBecome(from: PaymentStatus, to: PaymentStatus): boolean {
  return CAN_BECOME[from].has(to)
}

/**
 * The unrecorded transition that time has made due: a demo's confirmation or an expiry. Null when there is none.
 * An invoice expires at `expiresAt` itself.
 */
export function due(payment: Timed, now: number): Transition | null {
  if (payment.status !== 'unpaid') return null
  if (payment.confirmsAt !== null && payment.confirmsAt <= now)
    return { to: 'paid', paidAt: payment.confirmsAt, receivedSats: null }
  return payment.expiresAt <= now ? { to: 'expired', paidAt: null, receivedSats: null } : null
}

/** Whether an unpaid payment is past its end without its provider's answer: it may have been paid (decision 178). */
export function isUnresolved(payment: Timed, now: number): boolean {
  return due(payment, now)?.to === 'expired'
}

/** Current status for clients (decision 40). */
export function statusAt(payment: Timed, now: number): PaymentStatus {
  return asOf(payment, now).status
}

/** The current payment for clients. Demos confirm themselves by time; an expiry counts once recorded. */
export function asOf<P extends Timed>(payment: P, now: number): P {
  const step = due(payment, now)
  return step?.to === 'paid' ? stepped(payment, step, now) : payment
}

/**
 * The payment after a transition. `paidAt` is the provider's time, else now, and never changes (decision 42).
 * `receivedSats` never shrinks.
 * @throws TypeError for an illegal transition
 */
export function stepped<P extends Timed>(payment: P, step: Transition, now: number): P {
  if (!canBecome(payment.status, step.to))
    throw new TypeError(`a payment that is ${payment.status} cannot become ${step.to}`)
  return {
    ...payment,
    status: step.to,
    paidAt: step.to === 'paid' ? (payment.paidAt ?? step.paidAt ?? now) : payment.paidAt,
    receivedSats: moreReceived(payment, step.receivedSats) ?? payment.receivedSats
  }
}

/** A provider's larger total; null for no news. 0 is none: it would read as "nothing can be refunded". */
export function moreReceived(payment: Timed, receivedSats: number | null): number | null {
  return receivedSats !== null && receivedSats > (payment.receivedSats ?? 0) ? receivedSats : null
}

/**
 * Transitions that a provider's report causes, in order. `askedAt` is in milliseconds: "unpaid" expires a payment only
 * when reported after its end (decision 178).
 */
export function next(payment: Payment, seen: ChargeState, polledAt: number): readonly Transition[] {
  const step = (to: PaymentStatus): Transition => ({
    to,
    paidAt: to === 'paid' ? seen.settledAt : null,
    receivedSats: seen.receivedSats
  })
  switch (seen.status) {
    case 'paid':
    case 'underpaid':
    case 'expired':
      return canBecome(payment.status, seen.status) ? [step(seen.status)] : []
    case 'refunded':
      if (canBecome(payment.status, 'refunded')) return [step('refunded')]
      // Followers must not miss the step through `paid`.
      return canBecome(payment.status, 'paid') ? [step('paid'), step('refunded')] : []
    // Money on its way was sent in time: do not report an expiry.
    case 'processing':
      return canBecome(payment.status, 'processing') ? [step('processing')] : []
    case 'unpaid': {
      const late = due(payment, polledAt)
      return late === null ? [] : [late]
    }
  }
}
