import type { KeysetPage, TimeSpan } from '../../engine/operations/keyset.ts'
import type { Idempotency, Kept } from '../../engine/message/idempotency.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import type { ProviderSlot } from '../../lightning/providers/account.ts'
import type { KindName } from '../../lightning/providers/provider.ts'
import type { Payment, PaymentStatus } from './schema.ts'

/** The operations that make payments; an idempotency key counts for one of them. */
export type PaymentMaker = 'payment' | 'checkout-session'

/** An idempotency key and the operation that it counts for. */
export interface PaymentKeyUse extends Idempotency {
  readonly operation: PaymentMaker
}

/** How long an order id is held for one create. */
export interface Reservation {
  readonly merchantId: number
  readonly orderId: string
  /** Random; only its holder can give it back. */
  readonly reservationId: string
  /** Milliseconds since the epoch. From then on another create may take the order id: the process has died. */
  readonly heldUntil: number
  /** The key that the payment will have. */
  readonly idempotency?: PaymentKeyUse | null
}

/**
 * What came of an attempt: done; the order id is somebody else's; it is held by a request with the same idempotency key
 * and body or another body; or the merchant is inactive or gone.
 */
export type CreateOutcome = 'done' | 'taken' | 'running' | 'reused' | 'inactive'

/** What is due, and where a list of it goes on. Times in milliseconds since the epoch. */
export interface DuePayment {
  readonly invoiceId: string
  readonly merchantId: number
  readonly at: number
}

/** Selects payments past their end whose expiry is not recorded. Times in milliseconds since the epoch. */
export type Unexpired =
  /** Ended by `by` outside the seats that a poller asks about (`polled`), or by `answerless` in any seat. */
  | { readonly by: number; readonly answerless: number; readonly polled: readonly ProviderSeatName[] }
  /** Ended by `by`, of one account in one seat. */
  | { readonly by: number; readonly merchantId: number; readonly seat: ProviderSeatName }

/** A slot and the kind of provider in it. */
export type ProviderSeatName = `${ProviderSlot} ${KindName}`

/** Which payments are listed. */
export interface PaymentFilter {
  /** Null for those of all merchants. */
  readonly merchantId: number | null
  /** As `statusAt` has it at `now`. */
  readonly status: PaymentStatus | null
  /** When they were made. */
  readonly period: TimeSpan
  /** Stands in the order id, the description, or the customer's name or address, in either case; or is the invoice id. */
  readonly text: string | null
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Where payments are kept. */
export interface PaymentStore {
  /**
   * Holds an order id that no payment of the merchant has and that no create of now holds. Of any number of creates
   * with one order id at once, one at most holds it; one whose time is over is replaced. Never inside a transaction, as
   * `insert`.
   */
  reserve(reservation: Reservation, now: number): Promise<CreateOutcome>
  /** Gives the order id back; nothing when the reservation is no longer this one. */
  release(reservation: Reservation): Promise<void>
  /**
   * Writes a payment and drops its reservation, both or neither; `taken` when the reservation has been lost to another
   * create. @throws InvoiceIdTaken, which leaves the reservation as it was; IdempotencyKeyTaken
   */
  insert(payment: Payment, reservation: Reservation): Promise<CreateOutcome>
  /** The merchant's payment, its row locked until the caller's transaction ends; null when there is none. */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string): Promise<Payment | null>
  /** Writes status, `paidAt` and what was received of a payment that the caller has locked. */
  update(sql: TransactionSql, payment: Payment, now: number): Promise<void>
  get(merchantId: number, invoiceId: string): Promise<Payment | null>
  /** Whoever's it is. */
  byId(invoiceId: string): Promise<Payment | null>
  byOrder(merchantId: number, orderId: string): Promise<Payment | null>
  /** Newest first. */
  list(filter: PaymentFilter, page: KeysetPage): Promise<Payment[]>
  /** What an idempotency key has made; null for nothing. */
  byKey(merchantId: number, operation: PaymentMaker, key: string): Promise<Kept<Payment> | null>
  byPayToken(payToken: string): Promise<Payment | null>
  byPaymentHash(paymentHash: string): Promise<Payment | null>
  /** Demo payments that should have confirmed themselves by `now`, those after `after` first due first. */
  unconfirmed(now: number, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /**
   * Payments of these that are still written as unpaid, those after `after` first expired first; demo payments are not
   * among them.
   */
  unexpired(of: Unexpired, after: DuePayment | null, limit: number): Promise<DuePayment[]>
  /**
   * When the next payment after `now` and by `until` changes by time: a demo confirms itself, or one outside the `polled`
   * seats expires. Null when there is none.
   */
  nextDue(now: number, until: number, polled: readonly ProviderSeatName[]): Promise<number | null>
  /** Gives back order ids whose hold ended before this time; at most `limit`. Returns how many. */
  purgeReservations(before: number, limit: number): Promise<number>
}

/** Another payment, or invoice of a plan, has the id: draw another. */
export class InvoiceIdTaken extends Error {
  override name = 'InvoiceIdTaken'
}

/**
 * Whether a text can be the id of a payment: the database is not asked for others, some of which it could not even
 * read.
 */
export function isInvoiceId(text: string): boolean {
  return /^[1-9]\d{14}$/.test(text)
}
