import { decodeInvoice, InvoiceError } from '../codecs/bolt11.ts'
import { ProviderRefused } from './errors.ts'
import { unusableAnswer } from './provider-call.ts'
import type { Charge } from '../providers/provider.ts'

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

/**
 * The charge of an invoice that a node made: its id is the payment hash. Hash, network and end are what the invoice
 * itself says, whatever the server says beside it.
 * @throws ProviderUnavailable for an invoice over another amount, with another hash than `paymentHash`, or none
 */
export function lightningCharge(invoice: string, paymentHash: string, amountSats: number): Charge {
  try {
    const decoded = decodeInvoice(invoice, { signature: 'named' })
    if (decoded.paymentHash === paymentHash && decoded.amountMsat === BigInt(amountSats) * 1000n) {
      return {
        chargeId: paymentHash,
        invoice: decoded.text,
        paymentHash,
        expiresAt: decoded.expiresAt * 1000,
        network: decoded.network,
        onchainAddress: null,
        checkoutUrl: null
      }
    }
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
  }
  throw unusableAnswer('an invoice other than the one asked for')
}
