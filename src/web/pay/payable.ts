import type { Payment } from '../../payments/payments/schema.ts'

/**
 * What a pay page shows: a merchant's payment, or another payable with one Lightning invoice and a random token, such
 * as a plan.
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

/** A payable with its payee's name. */
export interface Shown {
  readonly payable: Payable
  readonly payee: string
  /** Relative address of the status for polling. */
  readonly statusAddress: string
}

/** A source of payables other than payments. */
export interface PayableSource {
  /** As last written; null for an unknown token. */
  byPayToken(token: string): Promise<Payable | null>
  /** Display name of the payee. */
  payee(): string
}

/** Invoices are alphanumeric: only the JSON needs shell quotes. */
export function sandboxPayCommand(publicUrl: string, invoice: string): string {
  return `curl ${publicUrl}/sandbox/pay -H 'Content-Type: application/json' -d '{"invoice":"${invoice}"}'`
}
