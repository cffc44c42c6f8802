import type { Payment } from '../../payments/payments/schema.ts'

/**
 * What a pay page can show and follow: a merchant's payment, or whatever else is paid by one Lightning invoice and
 * named by a random token, such as a plan.
 */
export type Payable = Pick<
  Payment,
  | 'invoiceId'
  | 'payToken'
  | 'status'
  | 'amount'
  | 'currency'
  | 'description'
  | 'successUrl'
  | 'kind'
  | 'invoice'
  | 'onchainAddress'
  | 'amountSats'
  | 'receivedSats'
  | 'createdAt'
  | 'expiresAt'
  | 'confirmsAt'
  | 'paidAt'
>

/** A payable with the name of who is paid. */
export interface Shown {
  readonly payable: Payable
  readonly payee: string
  /** Where the page's program asks for the status while it cannot listen, relative to the page. */
  readonly statusAddress: string
}

/** Others than merchants that are paid on a pay page. */
export interface PayableSource {
  /** As it was last written; null for a token that is none of theirs. */
  byPayToken(token: string): Promise<Payable | null>
  /** Who is paid, for people. */
  payee(): string
}
