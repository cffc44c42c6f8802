import { canBecome, statusAt } from '../payments/states.ts'
import { REFUNDABLE_STATUSES, type Payment, type PaymentStatus } from '../payments/schema.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/providers/provider.ts'

/** Money that came in and may be given back: a merchant's payment, or what was paid for an order of its store. */
export interface RefundSource {
  /** Id of the payment, or of the store's order. */
  readonly invoiceId: string
  readonly merchantId: number
  readonly slot: ProviderSlot
  /** Where the money came in, which is where it goes out (decision 54). */
  readonly kind: KindName | 'demo'
  readonly chargeId: string
  readonly network: InvoiceNetwork
  /** Most that can be given back, in satoshis (decision 55). */
  readonly capSats: number
  /** Why nothing of it can be given back now, in words for the merchant; null when it can. */
  readonly refusal: string | null
}

/** Where refundable money is found. `now` in milliseconds. */
export interface RefundSources {
  /** The merchant's own, or null. */
  get(merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /**
   * The same, its row locked until the transaction ends: whoever adds or changes a refund holds it, so that sums are
   * right and nothing else becomes of the money meanwhile.
   */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /** Confirmed refunds have reached what came in (decision 56). The row is locked. */
  refunded(sql: TransactionSql, source: RefundSource): Promise<void>
}

/** Several of them as one: of one id the first that knows it. */
export function allSources(...all: readonly RefundSources[]): RefundSources {
  const owner = new WeakMap<RefundSource, RefundSources>()
  const first = async (ask: (one: RefundSources) => Promise<RefundSource | null>): Promise<RefundSource | null> => {
    for (const one of all) {
      const found = await ask(one)
      if (found === null) continue
      owner.set(found, one)
      return found
    }
    return null
  }
  return {
    get: (merchantId, invoiceId, now) => first(one => one.get(merchantId, invoiceId, now)),
    lock: (sql, merchantId, invoiceId, now) => first(one => one.lock(sql, merchantId, invoiceId, now)),
    refunded: async (sql, source) => {
      await owner.get(source)?.refunded(sql, source)
    }
  }
}

/** What refunds need of payments. */
export interface RefundedPayments {
  /** The merchant's own payment, or null. One that reads unpaid was looked up at its provider first. */
  refundable(merchantId: number, invoiceId: string): Promise<Payment | null>
  /** The same, its row locked until the transaction ends. */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null>
  /** The one function through which a payment's status changes. */
  applyChange(
    sql: TransactionSql,
    payment: Payment,
    to: PaymentStatus,
    facts: Readonly<Record<string, never>>,
    tellMerchant: boolean
  ): Promise<unknown>
}

/** Payments as money that can be given back. */
export function paymentSources(payments: RefundedPayments): RefundSources {
  return {
    get: async (merchantId, invoiceId, now) => sourceOf(await payments.refundable(merchantId, invoiceId), now),
    lock: async (sql, merchantId, invoiceId, now) => sourceOf(await payments.lock(sql, merchantId, invoiceId), now),
    refunded: async (sql, { merchantId, invoiceId }) => {
      const payment = await payments.lock(sql, merchantId, invoiceId)
      // One that was processing may have expired since; its refund is confirmed all the same.
      if (payment !== null && canBecome(payment.status, 'refunded'))
        await payments.applyChange(sql, payment, 'refunded', {}, false)
    }
  }
}

function sourceOf(payment: Payment | null, now: number): RefundSource | null {
  if (payment === null) return null
  const { invoiceId, merchantId, slot, kind, chargeId, network } = payment
  return {
    invoiceId,
    merchantId,
    slot,
    kind,
    chargeId,
    network,
    capSats: payment.receivedSats ?? payment.amountSats ?? 0,
    refusal: refusalOf(payment, now)
  }
}

function refusalOf(payment: Payment, now: number): string | null {
  if (payment.kind === 'demo') return 'A demo payment cannot be refunded: no money was paid.'
  const status = statusAt(payment, now)
  return REFUNDABLE_STATUSES.has(status)
    ? null
    : `Invoice is not refundable: its status is ${status}; it must be paid, underpaid or processing.`
}
