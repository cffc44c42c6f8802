/** What the API's responses hold, as far as the pages show it; decimals are the texts that the API wrote. */
import type { Payment, PaymentStatus } from '../../payments/payments/schema.ts'

export interface PaymentItem {
  readonly invoiceId: string
  readonly orderId: string
  readonly status: PaymentStatus
  readonly amount: number | string
  readonly currency: Payment['currency']
  readonly description?: string
  readonly paymentHash: string
  readonly lightningInvoice: string
  readonly payUrl?: string
  /** Only in lists. */
  readonly amountSats?: number | null
  readonly receivedSats?: number | null
  readonly createdAt: string
  readonly expiresAt: string
  readonly paidAt?: string | null
  readonly customerEmail?: string
  readonly customerName?: string
}

export interface RefundItem {
  readonly refundId: string
  readonly invoiceId: string
  readonly status: string
  readonly amountSatoshis: number
  readonly feeSatoshis: number
  readonly refundAddress: string
  readonly refundType: string
  readonly transactionHash: string | null
  readonly createdAt: string
  readonly processedAt: string | null
  readonly reason: string | null
  readonly message?: string
}

export interface SaleItem {
  readonly soldAt: string
  readonly source: string
  readonly resource: string
  readonly description: string
  readonly proxyId: string | null
  readonly scheme: string | null
  readonly sats: number
  readonly price: string | null
  readonly state: string
  readonly isRevoked: boolean
  readonly paymentHash: string
}

export interface EarningsSums {
  readonly by: 'hour' | 'day' | 'month'
  readonly of: string
  readonly from: string
  readonly to: string
  readonly sales: number
  readonly sats: number
  readonly points: ReadonlyArray<{
    readonly at: string
    readonly key: string | null
    readonly name: string | null
    readonly sales: number
    readonly sats: number
  }>
}
