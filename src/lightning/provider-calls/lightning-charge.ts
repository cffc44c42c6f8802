import { decodeInvoice, InvoiceError, type Invoice } from '../codecs/bolt11.ts'
import { ProviderRefused, unusableResponse } from './errors.ts'
import type { Charge, ChargeState } from './provider.ts'

/** A payment hash, the charge id of node kinds (decision 116). */
export const PAYMENT_HASH = /^[0-9a-f]{64}$/

/** @throws ProviderRefused */
export function requireSats(amountSats: number): void {
  if (Number.isSafeInteger(amountSats) && amountSats >= 1) return
  throw new ProviderRefused(
    'request',
    `The amount must be a whole number of satoshis of at least 1, not ${amountSats}.`
  )
}

/** Null when unreadable. The payer's wallet verifies the signature. */
export function invoiceOrNull(text: string, signature: 'none' | 'named' = 'none'): Invoice | null {
  try {
    return decodeInvoice(text, { signature })
  } catch (error) {
    if (error instanceof InvoiceError) return null
    throw error
  }
}

/**
 * The charge of a node's invoice, with its payment hash as id. Hash, network and expiry come from the invoice.
 * `paymentHash`: null where the server gives none.
 * @throws ProviderUnavailable for another amount, another hash, or no invoice
 */
export function lightningCharge(text: string, paymentHash: string | null, amountSats: number): Charge {
  const invoice = invoiceOrNull(text, 'named')
  if (
    invoice === null ||
    (paymentHash !== null && invoice.paymentHash !== paymentHash) ||
    invoice.amountMsat !== BigInt(amountSats) * 1000n
  )
    throw unusableResponse('an invoice other than the one asked for')
  return {
    chargeId: invoice.paymentHash,
    invoice: invoice.text,
    paymentHash: invoice.paymentHash,
    expiresAt: invoice.expiresAt * 1000,
    network: invoice.network,
    onchainAddress: null,
    checkoutUrl: null
  }
}

export function nothingReceived(status: 'unpaid' | 'expired'): ChargeState {
  return { status, receivedSats: 0, settledAt: null }
}

export function btcOf(sats: number): string {
  const digits = String(sats).padStart(9, '0')
  return `${digits.slice(0, -8)}.${digits.slice(-8)}`
}
