import type { Payments } from '../payments/service.ts'
import type { PaymentStore } from '../payments/store-sql.ts'
import { AddressError, readAddress } from '../../lightning/codecs/address.ts'
import { decodeInvoice, InvoiceError, type Invoice, type InvoiceNetwork } from '../../lightning/codecs/bolt11.ts'
import { readLnurlKey } from '../../lightning/kinds/lnurl/key.ts'
import { AddressKeyError } from '../../lightning/provider-calls/address-key.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { PayoutDestination } from '../../lightning/provider-calls/provider.ts'
import type { RefundType } from '../../lightning/providers/payout-states.ts'
import { ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { Idempotency } from '../../engine/message/idempotency.ts'
import { defineError } from '../../platform/system/errors.ts'
import type { Refund } from './schema.ts'
import { canBecome, statusAt } from '../payments/changes.ts'
import { REFUNDABLE_STATUSES, type Payment } from '../payments/schema.ts'
import type { TransactionSql } from '../../platform/database/database.ts'

export interface Destination {
  readonly paymentHash: string | null
  /** Amount of the invoice in millisatoshis; null on-chain and for an open amount. */
  readonly amountMsat: bigint | null
}

// Prefix of Lightning invoices and lightning: links; no Bitcoin address has it.
const LIGHTNING = /^(?:lightning:)?ln(?:bc|tb)/i

export const REFUND_REFUSED = defineError('BG_REFUND_REFUSED', {
  status: 400,
  cause: 'The payment provider rejected the refund; nothing was sent.',
  fix: "Fix the provider's reason in `error`, then request a new refund."
})

/** Shortest invoice or Bitcoin address; Lightning addresses may be shorter. */
const SHORTEST = 26

/**
 * Whether a refundAddress is a Lightning address or LNURL, whose server is asked for the invoice.
 * @throws ShortError 400 for a malformed one, ValidationError for a text that is too short for anything else
 */
function isLightningAddress(type: RefundType, text: string): boolean {
  if (!/@|^(?:lightning:)?lnurl/i.test(text)) {
    if (text.length < SHORTEST) throw invalidField('/refundAddress', `Must have at least ${SHORTEST} characters.`)
    return false
  }
  if (type !== 'ln') throw refusal('refundAddress is a Lightning address, but refundType is chain.')
  try {
    readLnurlKey(text)
    return true
  } catch (error) {
    if (!(error instanceof AddressKeyError)) throw error
    throw refusal('refundAddress is not a Lightning address such as name@example.com, nor an LNURL.')
  }
}

/**
 * Asks a Lightning address for an invoice of exactly this amount.
 * @throws ProviderRefused, ProviderUnavailable
 */
export type InvoiceFor = (address: string, amountSats: number) => Promise<string>

/**
 * The refund with the invoice of its Lightning address, if it has one.
 * @throws ShortError 400, ValidationError 400, ProviderUnavailable 503
 */
export async function withInvoice(
  refund: Refund,
  amount: number | null,
  capSats: number,
  idempotency: Idempotency | null,
  invoiceFor: InvoiceFor
): Promise<Refund> {
  const { address: lightningAddress } = refund
  if (!isLightningAddress(refund.type, lightningAddress)) return refund
  if (amount === null) throw amountRequired()
  if (amount > capSats) throw refusal(excess(capSats))
  // Each request gets another invoice, so a repeated one would pay again.
  if (idempotency === null) throw refusal('Idempotency-Key is required for refunds to a Lightning address.')
  try {
    return { ...refund, address: await invoiceFor(lightningAddress, amount), lightningAddress }
  } catch (error) {
    if (error instanceof ProviderRefused) throw new ShortError(REFUND_REFUSED, error.message)
    if (!(error instanceof ProviderUnavailable)) throw error
    const message = 'The server of the Lightning address gave no usable invoice. Nothing was sent.'
    throw new ProviderUnavailable(message, error.retryAfter, error, error.fault)
  }
}

export function amountRequired(): ShortError {
  return refusal('amountSatoshis is required for refunds of type ln.')
}

export function excess(left: number): string {
  return `Refund amount exceeds the payment: ${left} satoshis are left to refund.`
}

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
  const requested = amountMsat % 1000n === 0n ? `${amountMsat / 1000n} satoshis` : `${amountMsat} millisatoshis`
  throw refusal(`amountSatoshis is ${amountSats}, but the Lightning invoice in refundAddress asks for ${requested}.`)
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
    if (kind === 'witness') throw refusal('The Bitcoin address in refundAddress is of a kind that cannot be spent yet.')
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

/** Refundable money: a payment of a merchant, or an order of its store; its provider sends the refund (decision 54). */
export interface RefundSource extends Pick<
  Payment,
  'invoiceId' | 'merchantId' | 'slot' | 'kind' | 'chargeId' | 'network'
> {
  /** Most that can be refunded, in satoshis (decision 55). */
  readonly capSats: number
  /** Why nothing can be refunded now, for the merchant; null when it can. */
  readonly refusal: string | null
}

export interface RefundSources {
  get(merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /**
   * The same with a row lock until the transaction ends. Every change of a refund takes it, so that sums stay correct.
   */
  lock(sql: TransactionSql, merchantId: number, invoiceId: string, now: number): Promise<RefundSource | null>
  /** Called on the locked row when confirmed refunds reach the received amount (decision 56). */
  refunded(sql: TransactionSql, source: RefundSource): Promise<void>
}

/** The first that knows an id wins. */
export function allSources(...all: readonly RefundSources[]): RefundSources {
  const owner = new WeakMap<RefundSource, RefundSources>()
  const first = async (ask: (one: RefundSources) => Promise<RefundSource | null>): Promise<RefundSource | null> => {
    for (const one of all) {
      const found = await ask(one)
      if (found === null) continue
      owner.set(found, one)
      return found
    }
    return null
  }
  return {
    get: (merchantId, invoiceId, now) => first(one => one.get(merchantId, invoiceId, now)),
    lock: (sql, merchantId, invoiceId, now) => first(one => one.lock(sql, merchantId, invoiceId, now)),
    refunded: async (sql, source) => {
      await owner.get(source)?.refunded(sql, source)
    }
  }
}

export function paymentSources(
  payments: Pick<Payments, 'refundable' | 'applyChange'>,
  store: Pick<PaymentStore, 'lock'>
): RefundSources {
  return {
    get: async (merchantId, invoiceId, now) => sourceOf(await payments.refundable(merchantId, invoiceId), now),
    lock: async (sql, merchantId, invoiceId, now) => sourceOf(await store.lock(sql, merchantId, invoiceId), now),
    refunded: async (sql, { merchantId, invoiceId }) => {
      const payment = await store.lock(sql, merchantId, invoiceId)
      // It may have expired while processing; its refund is confirmed anyway.
      if (payment !== null && canBecome(payment.status, 'refunded'))
        await payments.applyChange(sql, payment, 'refunded', {}, false)
    }
  }
}

function sourceOf(payment: Payment | null, now: number): RefundSource | null {
  if (payment === null) return null
  const capSats = payment.receivedSats ?? payment.amountSats ?? 0
  return { ...payment, capSats, refusal: refusalOf(payment, now) }
}

function refusalOf(payment: Payment, now: number): string | null {
  if (payment.kind === 'demo') return 'A demo payment cannot be refunded: no money was paid.'
  const status = statusAt(payment, now)
  return REFUNDABLE_STATUSES.has(status)
    ? null
    : `Invoice is not refundable: its status is ${status}; it must be paid, underpaid or processing.`
}
