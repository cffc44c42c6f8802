import { decodeInvoice, InvoiceError, type Invoice } from '../codecs/bolt11.ts'
import { ProviderRefused, unusableResponse } from './errors.ts'
import type { Charge, ChargeState } from '../providers/provider.ts'

/** A payment hash, which is what kinds that are nodes call a charge by (decision 116). */
export const PAYMENT_HASH = /^[0-9a-f]{64}$/

/** Refuses an amount that no invoice can have, before anybody is asked. @throws ProviderRefused */
export function requireSats(amountSats: number): void {
  if (Number.isSafeInteger(amountSats) && amountSats >= 1) return
  throw new ProviderRefused(
    'request',
    `The amount must be a whole number of satoshis of at least 1, not ${amountSats}.`
  )
}

/** An invoice in a response; null where it cannot be read. Who signed it is for the payer's wallet to check. */
export function invoiceOrNull(text: string, signature: 'none' | 'named' = 'none'): Invoice | null {
  try {
    return decodeInvoice(text, { signature })
  } catch (error) {
    if (error instanceof InvoiceError) return null
    throw error
  }
}

/**
 * The charge of an invoice that a node made: its id is the payment hash. Hash, network and end are what the invoice
 * itself says, whatever the server says beside it. `paymentHash` is null where it says nothing.
 * @throws ProviderUnavailable for an invoice over another amount, with another hash than `paymentHash`, or none
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

/** The state of a charge for which nothing came in. */
export function nothingReceived(status: 'unpaid' | 'expired'): ChargeState {
  return { status, receivedSats: 0, settledAt: null }
}

/** Bitcoin as a decimal text, of whole satoshis. */
export function btcOf(sats: number): string {
  const digits = String(sats).padStart(9, '0')
  return `${digits.slice(0, -8)}.${digits.slice(-8)}`
}
