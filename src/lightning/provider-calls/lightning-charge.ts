import { decodeInvoice, InvoiceError, type Invoice, type InvoiceNetwork } from '../codecs/bolt11.ts'
import { ProviderRefused, unusableResponse } from './errors.ts'
import type { Charge, ChargeState, KeyVerdict } from './provider.ts'

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
 * The charge of an invoice, with its payment hash as id. Hash, network and expiry come from the invoice.
 * @param paymentHash null where the server gives none
 * @param amountSats null where the server chose the amount
 * @throws ProviderUnavailable for another amount, another hash, or no invoice
 */
export function lightningCharge(
  given: string | Invoice | null,
  paymentHash: string | null,
  amountSats: number | null
): Charge {
  const invoice = typeof given === 'string' ? invoiceOrNull(given, 'named') : given
  if (
    invoice === null ||
    invoice.amountMsat === null ||
    (paymentHash !== null && invoice.paymentHash !== paymentHash) ||
    (amountSats !== null && invoice.amountMsat !== BigInt(amountSats) * 1000n)
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

/**
 * Networks of invoices. Test money is worthless, and other networks' wallets cannot pay. A key of another network than
 * the gateway's fails its check; an invoice of one is never sent.
 */

const NAMES: Readonly<Record<string, InvoiceNetwork>> = Object.freeze({
  bitcoin: 'mainnet',
  mainnet: 'mainnet',
  testnet: 'testnet',
  testnet3: 'testnet',
  testnet4: 'testnet',
  signet: 'signet',
  regtest: 'regtest'
})

export class OtherNetwork extends ProviderRefused {
  constructor(found: InvoiceNetwork, wanted: InvoiceNetwork) {
    super('key', textOf(found, wanted))
  }
}

function textOf(found: InvoiceNetwork, wanted: InvoiceNetwork): string {
  return `The provider key is one of ${found}, and this gateway sells on ${wanted}: save a key of ${wanted}.`
}

/** @throws OtherNetwork; `wanted` null takes every network */
export function requireNetwork(charge: Charge, wanted: InvoiceNetwork | null): Charge {
  if (wanted !== null && charge.network !== wanted) throw new OtherNetwork(charge.network, wanted)
  return charge
}

/** Verdict on a key for a gateway on `wanted`; null takes every network. */
export function verdictOn({ isValid, message, network }: KeyVerdict, wanted: InvoiceNetwork | null): KeyVerdict {
  if (wanted === null || network === undefined || network === wanted) return { isValid, message }
  return { isValid: false, message: textOf(network, wanted) }
}

/**
 * The network from the node's own name, null where absent, and its invoice.
 * @throws ProviderRefused 'key' where they differ
 */
export function agreedNetwork(named: string | null, made: InvoiceNetwork): InvoiceNetwork {
  if (named === null || (NAMES[named] ?? made) === made) return made
  throw new ProviderRefused(
    'key',
    `The node says that it is on ${NAMES[named] ?? 'another network'}, and makes invoices of ${made}: it cannot be sold with.`
  )
}
