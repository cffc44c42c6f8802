import { AddressError, readAddress } from '../../lightning/codecs/address.ts'
import { decodeInvoice, InvoiceError, type Invoice, type InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { PayoutDestination } from '../../lightning/provider-calls/provider.ts'
import type { RefundType } from '../../lightning/providers/payout-states.ts'

/** A parsed refundAddress. */
export interface Destination {
  /** 64 lower-case hex characters; null on-chain. */
  readonly paymentHash: string | null
  /** Amount of the invoice in millisatoshis; null on-chain and for an open amount. */
  readonly amountMsat: bigint | null
}

// Prefix of Lightning invoices and lightning: links; no Bitcoin address has it.
const LIGHTNING = /^(?:lightning:)?ln(?:bc|tb)/i

/**
 * Parses a refundAddress of a refundType (contract, Create refund body; decisions 58 and 59). `network` is the
 * payment's, `now` milliseconds.
 * @throws ShortError 400 for the wrong kind, a checksum error, another network, an expired invoice
 */
export function readDestination(type: RefundType, text: string, network: InvoiceNetwork, now: number): Destination {
  return type === 'ln' ? readInvoice(text, network, now) : readChain(text, network)
}

export function payoutDestination(type: RefundType, address: string): PayoutDestination {
  return type === 'ln' ? { type, invoice: address.toLowerCase() } : { type, address }
}

/** @throws ShortError 400 when the invoice has another amount (decision 58) */
export function requireSameAmount(destination: Destination, amountSats: number): void {
  const { amountMsat } = destination
  if (amountMsat === null || amountMsat === BigInt(amountSats) * 1000n) return
  const asked = amountMsat % 1000n === 0n ? `${amountMsat / 1000n} satoshis` : `${amountMsat} millisatoshis`
  throw refusal(`amountSatoshis is ${amountSats}, but the Lightning invoice in refundAddress asks for ${asked}.`)
}

function readInvoice(text: string, network: InvoiceNetwork, now: number): Destination {
  let invoice: Invoice
  try {
    invoice = decodeInvoice(text)
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    if (isAddress(text)) throw refusal('refundAddress is a Bitcoin address, but refundType is ln.')
    // Wallets copy it with this prefix.
    if (/^lightning:/i.test(text))
      throw refusal('refundAddress must be the Lightning invoice alone, without lightning: before it.')
    throw refusal(`refundAddress is not a Lightning invoice: ${error.message}.`)
  }
  if (invoice.network !== network)
    throw refusal(
      `The Lightning invoice in refundAddress is for ${invoice.network}, but the payment was made on ${network}.`
    )
  if (invoice.expiresAt * 1000 <= now) throw refusal('The Lightning invoice in refundAddress has expired.')
  return { paymentHash: invoice.paymentHash, amountMsat: invoice.amountMsat }
}

function readChain(text: string, network: InvoiceNetwork): Destination {
  if (LIGHTNING.test(text)) throw refusal('refundAddress is a Lightning invoice, but refundType is chain.')
  try {
    const { kind, networks } = readAddress(text)
    if (!networks.includes(network))
      throw refusal(
        `The Bitcoin address in refundAddress is for ${networks.join(' or ')}, but the payment was made on ${network}.`
      )
    if (kind === 'witness') throw refusal('The Bitcoin address in refundAddress is of a kind that nobody can own yet.')
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    throw refusal(`refundAddress is not a Bitcoin address: ${error.message}.`)
  }
  return { paymentHash: null, amountMsat: null }
}

function isAddress(text: string): boolean {
  try {
    readAddress(text)
    return true
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return false
  }
}

function refusal(message: string): ShortError {
  return new ShortError(VALIDATION, message)
}
