import type { TimeSpan } from '../../engine/operations/keyset.ts'
import type { Idempotency } from '../../engine/message/idempotency.ts'
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

export type PaymentKey = Pick<Payment, 'merchantId' | 'invoiceId'>

/** A due payment, also the cursor of the list. */
export interface DuePayment extends PaymentKey {
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

/** The id is taken by another payment or plan invoice: draw another. */
export class InvoiceIdTaken extends Error {
  override name = 'InvoiceIdTaken'
}

/** Whether a text can be an invoice id; the database rejects queries with some others. */
export function isInvoiceId(text: string): boolean {
  return /^[1-9]\d{14}$/.test(text)
}
