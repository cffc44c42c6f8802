import type { InvoiceNetwork } from '../lightning/bolt11.ts'
import type { Currency } from '../money/currencies.ts'
import type { TransactionSql } from '../platform/database.ts'
import type { ProviderSlot } from '../providers/account.ts'
import type { ProviderKind } from '../providers/provider.ts'

/** The states of a payment (contract, States: Payment; decisions 39 and 40). */
export type PaymentStatus = 'unpaid' | 'processing' | 'paid' | 'underpaid' | 'expired' | 'refunded'

/** A merchant's payment as it is kept. Times in milliseconds since the epoch. */
export interface Payment {
  /** 15 random digits (decision 10). */
  readonly invoiceId: string
  readonly merchantId: number
  /** The merchant's own, unique for it. */
  readonly orderId: string
  /** As it was last written; `statusAt` says how it reads now. */
  readonly status: PaymentStatus
  /** Plain decimal in `currency`; `0` for a demo payment. */
  readonly amount: string
  readonly currency: Currency
  readonly description: string | null
  readonly customerEmail: string | null
  readonly customerName: string | null
  readonly successUrl: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  /** Random; it alone opens the pay page. */
  readonly payToken: string
  readonly slot: ProviderSlot
  readonly kind: ProviderKind | 'demo'
  readonly chargeId: string
  /** BOLT 11. */
  readonly invoice: string
  /** 64 lower-case hex characters. */
  readonly paymentHash: string
  readonly network: InvoiceNetwork
  readonly onchainAddress: string | null
  readonly checkoutUrl: string | null
  /** What the invoice asks for, in satoshis; null for a demo payment, whose invoice has no amount. */
  readonly amountSats: number | null
  /** What the provider says came, in satoshis; null while it has said nothing. */
  readonly receivedSats: number | null
  readonly createdAt: number
  readonly expiresAt: number
  /** When a demo payment confirms itself; null for all others. */
  readonly confirmsAt: number | null
  readonly paidAt: number | null
}

/** A payment's status has changed. */
export interface PaymentChange {
  /** As it is now. */
  readonly payment: Payment
  readonly from: PaymentStatus
  /** Whether the merchant is to be told by webhook: all but our own change to `refunded` (decisions 56 and 157). */
  readonly tellMerchant: boolean
}

/**
 * Called for each change of a status inside the transaction that writes it, exactly once: the one place for webhooks, whose
 * rows must stand or fall with the change. Use only the handle passed in. What it throws rolls the change back.
 */
export type OnPaymentChange = (sql: TransactionSql, change: PaymentChange) => Promise<void>
