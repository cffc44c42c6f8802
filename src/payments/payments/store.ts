import type { KeysetPage, ListTotal, TimeSpan } from '../../engine/operations/keyset.ts'
import type { Idempotency, Kept } from '../../engine/message/idempotency.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KindName } from '../../lightning/provider-calls/provider.ts'
import type { Payment, PaymentStatus } from './schema.ts'

/** Operations that make payments; each has its own idempotency keys. */
export type PaymentMaker = 'payment' | 'checkout-session'

export interface PaymentKeyUse extends Idempotency {
  readonly operation: PaymentMaker
}

export interface Reservation {
  readonly merchantId: number
  readonly orderId: string
  /** Random; authorizes the release. */
  readonly reservationId: string
  /** Afterward another create may take over: the process has died. */
  readonly heldUntil: number
  readonly idempotency?: PaymentKeyUse | null
}

/**
 * Result of a create: done; order id taken; held by a request with the same idempotency key and body, or another body;
 * merchant inactive or gone.
 */
export type CreateOutcome = 'done' | 'taken' | 'running' | 'reused' | 'inactive'

/** A due payment, also the cursor of the list. */
export interface DuePayment {
  readonly invoiceId: string
  readonly merchantId: number
  readonly at: number
}

/** Filter of payments past their end without a recorded expiry. */
export type Unexpired =
  | { readonly by: number; readonly answerless: number; readonly polled: readonly ProviderSeatName[] }
  /** Ended by `by`, of one account in one seat. */
  | { readonly by: number; readonly merchantId: number; readonly seat: ProviderSeatName }

export type ProviderSeatName = `${ProviderSlot} ${KindName}`

export interface PaymentFilter {
  /** Null: all merchants. */
  readonly merchantId: number | null
  /** `statusAt` at `now`. */
  readonly status: PaymentStatus | null
  readonly period: TimeSpan
  /** Case-insensitive substring of order id, description, customer name or address; or the invoice id. */
  readonly text: string | null
  readonly now: number
}

export interface PaymentStore {
  /**
   * Holds an unused order id; of concurrent creates at most one holds it. An expired hold is replaced. Never call
   * inside a transaction; the same for `insert`.
   */
  reserve(reservation: Reservation, now: number): Promise<CreateOutcome>
  release(reservation: Reservation): Promise<void>
  /**
   * Writes a payment and drops its reservation atomically; `taken` when another create took the reservation.
   * @throws InvoiceIdTaken, which keeps the reservation; IdempotencyKeyTaken
   */
  insert(payment: Payment, reservation: Reservation): Promise<CreateOutcome>
  lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null>
  /** Writes status, `paidAt` and `receivedSats` of a locked payment. */
  update(sql: TransactionSql, payment: Payment, now: number): Promise<void>
  get(merchantId: number, invoiceId: string): Promise<Payment | null>
  byId(invoiceId: string): Promise<Payment | null>
  byOrder(merchantId: number, orderId: string): Promise<Payment | null>
  /** Newest first. */
  list(filter: PaymentFilter, page: KeysetPage): Promise<Payment[]>
  /** Count of at most `MOST_SUMMED`, and what came in for them. */
  sum(filter: PaymentFilter): Promise<ListTotal>
  byKey(merchantId: number, operation: PaymentMaker, key: string): Promise<Kept<Payment> | null>
  byPayToken(payToken: string): Promise<Payment | null>
  byPaymentHash(paymentHash: string): Promise<Payment | null>
  unconfirmed(now: number, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /** Matching payments still stored as unpaid, first expired first, after `after`; without demo payments. */
  unexpired(of: Unexpired, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /**
   * When the next payment falls due after `now` and by `until`: a demo, or an expiry outside the `polled` seats. Null
   * for none.
   */
  nextDue(now: number, until: number, polled: readonly ProviderSeatName[]): Promise<number | null>
  /** Deletes at most `limit` reservations that ended before this time; returns their number. */
  purgeReservations(before: number, limit: number): Promise<number>
}

/** The id is taken by another payment or plan invoice: draw another. */
export class InvoiceIdTaken extends Error {
  override name = 'InvoiceIdTaken'
}

/** Whether a text can be an invoice id; the database rejects queries with some others. */
export function isInvoiceId(text: string): boolean {
  return /^[1-9]\d{14}$/.test(text)
}
