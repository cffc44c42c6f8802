import { canBecome, statusAt } from '../payments/changes.ts'
import { REFUNDABLE_STATUSES, type Payment, type PaymentStatus } from '../payments/schema.ts'
import type { InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'

/** Refundable money: a payment of a merchant, or an order of its store. */
export interface RefundSource {
  /** Id of the payment or store order. */
  readonly invoiceId: string
  readonly merchantId: number
  readonly slot: ProviderSlot
  /** Provider kind that received the money and sends the refund (decision 54). */
  readonly kind: KindName | 'demo'
  readonly chargeId: string
  readonly network: InvoiceNetwork
  /** Most that can be refunded, in satoshis (decision 55). */
  readonly capSats: number
  /** Why nothing can be refunded now, for the merchant; null when it can. */
  readonly refusal: string | null
}

/** Finds refundable money. `now` in milliseconds. */
export interface RefundSources {
  /** Null for another merchant's. */
  get(merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /**
   * The same with a row lock until the transaction ends. Every change of a refund takes it, so that sums stay correct.
   */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /** Called on the locked row when confirmed refunds reach the received amount (decision 56). */
  refunded(sql: TransactionSql, source: RefundSource): Promise<void>
}

/** The first that knows an id wins. */
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

interface RefundedPayments {
  /** The merchant's payment, or null. An unpaid one was looked up at its provider first. */
  refundable(merchantId: number, invoiceId: string): Promise<Payment | null>
  /** The same with a row lock until the transaction ends. */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null>
  applyChange(
    sql: TransactionSql,
    payment: Payment,
    to: PaymentStatus,
    facts: Readonly<Record<string, never>>,
    tellMerchant: boolean
  ): Promise<unknown>
}

export function paymentSources(payments: RefundedPayments): RefundSources {
  return {
    get: async (merchantId, invoiceId, now) => sourceOf(await payments.refundable(merchantId, invoiceId), now),
    lock: async (sql, merchantId, invoiceId, now) => sourceOf(await payments.lock(sql, merchantId, invoiceId), now),
    refunded: async (sql, { merchantId, invoiceId }) => {
      const payment = await payments.lock(sql, merchantId, invoiceId)
      // It may have expired while processing; its refund is confirmed anyway.
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
