import { requireSats } from '../../provider-calls/lightning-charge.ts'
import { randomUUID } from 'node:crypto'
import { AddressError, readAddress } from '../../codecs/address.ts'
import { decodeInvoice, InvoiceError } from '../../codecs/bolt11.ts'
import type { Random } from '../../../platform/system/ids.ts'
import { ProviderRefused } from '../../provider-calls/errors.ts'
import { feeLimit } from '../../provider-calls/pay-once.ts'
import type { Payout, PayoutDestination, PayoutRequest } from '../../provider-calls/provider.ts'
import type { SandboxPayout } from './store.ts'

/** Payouts to this address are accepted and then fail, for tests. Its bytes say `sandbox refund fails`. */
const FAILING_ADDRESS = 'bcrt1qwdskuerzdauzqun9ve6kuepqveskjmrn0wlvnf'

/** Milliseconds until an on-chain payout is broadcast. */
const CHAIN_DELAY = 5_000
/** Satoshis for one output at about 1 sat per byte. */
const CHAIN_FEE = 150
/** Satoshis to another node. */
const ROUTING_FEE = 1

/**
 * Validates a payout as a provider would.
 * @throws ProviderRefused
 */
export function draftPayout(request: PayoutRequest, now: number, random: Random): SandboxPayout {
  const { reference, destination, amountSats } = request
  requireSats(amountSats)
  const common = {
    payoutId: `sbx_${randomUUID()}`,
    reference,
    type: destination.type,
    amountSats,
    createdAt: now
  } as const
  if (destination.type === 'ln') {
    const { text, paymentHash } = invoiceOf(destination, amountSats, now)
    return {
      ...common,
      destination: text,
      paymentHash,
      feeSats: Math.min(ROUTING_FEE, feeLimit(request)),
      transactionHash: null,
      confirmsAt: now
    }
  }
  requireRegtestAddress(destination.address)
  return {
    ...common,
    destination: destination.address,
    paymentHash: null,
    feeSats: CHAIN_FEE,
    transactionHash: Buffer.from(random(32)).toString('hex'),
    confirmsAt: now + CHAIN_DELAY
  }
}

/** A payout's status at `now`. */
export function payoutAt(payout: SandboxPayout, now: number): Payout {
  const { payoutId, feeSats, transactionHash, confirmsAt, destination } = payout
  if (now < confirmsAt) return { payoutId, status: 'processing', feeSats: 0, transactionHash: null, processedAt: null }
  return destination.toLowerCase() === FAILING_ADDRESS
    ? { payoutId, status: 'failed', feeSats: 0, transactionHash: null, processedAt: confirmsAt }
    : { payoutId, status: 'confirmed', feeSats, transactionHash, processedAt: confirmsAt }
}

function invoiceOf(
  destination: PayoutDestination & { type: 'ln' },
  amountSats: number,
  now: number
): { readonly text: string; readonly paymentHash: string } {
  try {
    const invoice = decodeInvoice(destination.invoice, { zeroAmount: true })
    if (invoice.network !== 'regtest')
      throw refused(`The sandbox pays invoices of regtest only, not of ${invoice.network}.`)
    if (invoice.expiresAt * 1000 <= now) throw refused('The Lightning invoice has expired.')
    if (invoice.amountMsat !== null && invoice.amountMsat !== BigInt(amountSats) * 1000n)
      throw refused('The Lightning invoice asks for another amount.')
    return invoice
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw refused(`${error.message}.`)
  }
}

function requireRegtestAddress(address: string): void {
  try {
    const { networks } = readAddress(address)
    if (!networks.includes('regtest'))
      throw refused(`The sandbox pays to addresses of regtest only, not of ${networks.join(' or ')}.`)
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    throw refused(`${error.message}.`)
  }
}

function refused(message: string): ProviderRefused {
  return new ProviderRefused('request', message)
}
