import { INVALID_STATE, VALIDATION } from '../../engine/operations/error-kinds.ts'
import {
  idempotencyKeyReused,
  requestInProgress,
  ShortError,
  type GateError,
  ValidationError
} from '../../engine/operations/errors.ts'
import { decodeInvoice, InvoiceError } from '../../lightning/codecs/bolt11.ts'
import { shortDescription, encodeInvoice } from '../../lightning/codecs/bolt11-encode.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { satoshisOf, type Prices, CURRENCIES, CURRENCY_RULES, type Currency } from '../../lightning/money/prices.ts'
import { numericId, randomToken, type Random, systemRandom } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { providerOf } from '../../lightning/providers/slot-keys.ts'
import { ProviderRefused } from '../../lightning/provider-calls/errors.ts'
import { byFirst } from '../../lightning/providers/payee.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { Charge } from '../../lightning/provider-calls/provider.ts'
import { type Payment, type PaymentInput, METADATA_LIMITS } from './schema.ts'
import { InvoiceIdTaken, type CreateOutcome, type PaymentKeyUse, type Reservation } from './store.ts'
import type { PaymentStore } from './store-sql.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { defineError } from '../../platform/system/errors.ts'
import { hash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { loadNodeKey } from '../../lightning/kinds/sandbox/node-key.ts'
import { isStorable, UNSTORABLE } from '../../engine/operations/validation.ts'
import { fieldName } from '../../engine/operations/field-errors.ts'
import { inUnits, plainText, readDecimal, type Decimal } from '../../lightning/money/decimal.ts'

/** Milliseconds after which a demo payment (amount 0) confirms itself. */
const DEMO_CONFIRM_AFTER = 5_000
/** For which an invoice can be paid, by slot (contract, Limits). The alternate provider may keep to times of its own. */
const PAYABLE_SECONDS = { primary: 3600, alternate: 86_400 } as const

const ORDER_ID_TAKEN = defineError('BG_ORDER_ID_TAKEN', {
  status: 400,
  title: 'A payment with this orderId already exists',
  cause: 'A payment with this `orderId` exists; order ids are never reused.',
  fix: 'Read that payment with `GET /api/payments/order/{orderId}`, or use a new id.'
})

export interface CreatorDependencies {
  readonly store: PaymentStore
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly payees: Payees
  readonly prices: Prices
  readonly demo: DemoInvoices
  /** Error when the account may not use a feature, or null. */
  refusal(merchant: Merchant, feature: 'multi_currency', now: number): GateError | null | Promise<GateError | null>
}

/** @throws GateError 403 where the account may not take payments in the currency (decision 51) */
export async function requireCurrency(
  gate: Pick<CreatorDependencies, 'refusal'>,
  merchant: Merchant,
  currency: Currency,
  now: number
): Promise<void> {
  if (currency !== 'EUR' && currency !== 'GBP') return
  const refused = await gate.refusal(merchant, 'multi_currency', now)
  if (refused !== null) throw refused
}

/**
 * Milliseconds for which a create holds its order id, longer than any provider timeout. Afterward its process is
 * presumed dead.
 */
export const RESERVED_FOR = 120_000
/** Attempts at a unique invoice id. */
const DRAWS = 5

type Maker = Pick<Payment, 'slot' | 'kind' | 'amountSats' | 'confirmsAt'> & { readonly charge: Charge }

export class PaymentCreator {
  readonly #dependencies: CreatorDependencies

  constructor(dependencies: CreatorDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Holds the order id, asks the provider outside any transaction, releases the order id on failure (decision 45).
   * `reserved` may refuse: the reservation counts from then on.
   */
  async create(
    merchant: Merchant,
    input: PaymentInput,
    idempotency: PaymentKeyUse | null = null,
    reserved?: () => Promise<void>
  ): Promise<Payment> {
    const { clock, random, store } = this.#dependencies
    const details = checkInput(input)
    await requireCurrency(this.#dependencies, merchant, details.currency, clock.now())
    const now = clock.now()
    const reservation: Reservation = {
      merchantId: merchant.id,
      orderId: details.orderId,
      reservationId: randomToken(16, random),
      heldUntil: now + RESERVED_FOR,
      idempotency
    }
    requireDone(await store.reserve(reservation, now))
    try {
      await reserved?.()
      return await this.#write(details, await this.#make(merchant, details), reservation)
    } catch (error) {
      await this.#release(reservation)
      throw error
    }
  }

  async #make(merchant: Merchant, details: PaymentDetails): Promise<Maker> {
    const { clock, demo, payees, prices } = this.#dependencies
    const description = onInvoice(details)
    if (details.amount === '0') {
      const charge = demo(description)
      return {
        charge,
        slot: providerOf(merchant),
        kind: 'demo',
        amountSats: null,
        confirmsAt: clock.now() + DEMO_CONFIRM_AFTER
      }
    }
    const { orderId, successUrl, customerEmail, customerName, metadata } = details
    const order = { orderId, successUrl, customerEmail, customerName, metadata }
    return await byFirst(payees.forMerchant(merchant), async (payee): Promise<Maker> => {
      const terms = { description, expirySeconds: PAYABLE_SECONDS[payee.slot], order }
      const created = { slot: payee.slot, kind: payee.kind, confirmsAt: null }
      if (details.currency !== 'BTC' && payee.createFiatInvoice !== null) {
        const charge = await payee.createFiatInvoice({ ...terms, currency: details.currency, amount: details.amount })
        return { ...created, charge, amountSats: satoshisAsked(charge) }
      }
      const amountSats = await satoshisOf(prices, details.currency, details.amount)
      return { ...created, charge: await payee.createInvoice({ ...terms, amountSats }), amountSats }
    })
  }

  async #write(details: PaymentDetails, { charge, ...made }: Maker, reservation: Reservation): Promise<Payment> {
    const { clock, random, store } = this.#dependencies
    const payment = {
      ...details,
      ...made,
      merchantId: reservation.merchantId,
      status: 'unpaid',
      payToken: randomToken(32, random),
      chargeId: charge.chargeId,
      invoice: charge.invoice,
      paymentHash: charge.paymentHash,
      network: charge.network,
      onchainAddress: charge.onchainAddress,
      checkoutUrl: charge.checkoutUrl,
      receivedSats: null,
      createdAt: clock.now(),
      expiresAt: charge.expiresAt,
      paidAt: null
    } as const
    for (let draw = 1; ; draw++) {
      const numbered: Payment = { invoiceId: numericId(random), ...payment }
      try {
        requireDone(await store.insert(numbered, reservation))
        return numbered
      } catch (error) {
        if (!(error instanceof InvoiceIdTaken) || draw === DRAWS) throw error
      }
    }
  }

  async #release(reservation: Reservation): Promise<void> {
    try {
      await this.#dependencies.store.release(reservation)
    } catch (error) {
      this.#dependencies.log.warn(
        { err: error, merchantId: reservation.merchantId },
        'an order id could not be given back; it is free in two minutes'
      )
    }
  }
}

/** @throws ShortError 400 for all but `done`; Unavailable 503 for `running` */
function requireDone(outcome: CreateOutcome): void {
  if (outcome === 'taken') throw new ShortError(ORDER_ID_TAKEN, 'A payment with this orderId already exists')
  if (outcome === 'inactive') throw new ShortError(INVALID_STATE, 'Merchant not found or inactive')
  if (outcome === 'running') throw requestInProgress()
  if (outcome === 'reused') throw idempotencyKeyReused()
}

/**
 * Satoshis of an invoice whose provider converted the amount: the invoice is the truth (decision 47), in whole satoshis
 * (decision 55).
 * @throws ProviderRefused 502 for an unreadable invoice or one without an amount
 */
function satoshisAsked(charge: Charge): number {
  try {
    // The provider itself has just returned it.
    const { amountSats } = decodeInvoice(charge.invoice, { signature: 'none' })
    if (amountSats !== null) return Math.max(1, amountSats)
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new ProviderRefused('request', 'The payment provider made an invoice that cannot be read.', null, error)
  }
  throw new ProviderRefused('request', 'The payment provider made an invoice without an amount.')
}

/**
 * Bytes of the description in the invoice. With 500 characters the QR code has 93 modules per side, too many for phone
 * cameras.
 */
const INVOICE_DESCRIPTION_BYTES = 96

/** One line without control characters, as wallets show it. */
function onInvoice({ description, orderId }: PaymentDetails): string {
  const text = plain(description ?? '') || plain(`Order ${orderId}`)
  const cut = shortDescription(text, INVOICE_DESCRIPTION_BYTES)
  return cut === text ? text : `${cut.trimEnd()}…`
}

function plain(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').trim()
}

/** Seconds for which a demo invoice can be "paid" (contract, Limits: demo invoices 10 minutes). */
const DEMO_EXPIRY_SECONDS = 600

/**
 * Unpayable invoices for demo payments of amount 0 (decision 43): for regtest, without an amount, signed by a key of
 * their own, so that no wallet with money pays them. The preimage is discarded.
 */
type DemoInvoices = (description: string) => Charge

/**
 * Uses or creates `<dataDir>/demo-node.key`.
 * @throws CodedError
 */
export function openDemoInvoices(dataDir: string, clock: Clock, random: Random = systemRandom): DemoInvoices {
  const nodeKey = loadNodeKey(join(dataDir, 'demo-node.key'))
  return description => {
    // BOLT 11 counts whole seconds; the shown times must match the invoice.
    const timestamp = Math.floor(clock.now() / 1000)
    const paymentHash = hash('sha256', random(32), 'hex')
    const invoice = encodeInvoice(
      {
        network: 'regtest',
        amountMsat: null,
        paymentHash,
        paymentSecret: Buffer.from(random(32)).toString('hex'),
        timestamp,
        expirySeconds: DEMO_EXPIRY_SECONDS,
        description: shortDescription(description)
      },
      nodeKey
    )
    return {
      chargeId: `demo_${randomUUID()}`,
      invoice,
      paymentHash,
      expiresAt: (timestamp + DEMO_EXPIRY_SECONDS) * 1000,
      network: 'regtest',
      onchainAddress: null,
      checkoutUrl: null
    }
  }
}

export type PaymentDetails = Pick<
  Payment,
  'orderId' | 'amount' | 'currency' | 'description' | 'customerEmail' | 'customerName' | 'successUrl' | 'metadata'
>

const rules = CURRENCIES.map(currency => CURRENCY_RULES[currency])
/** More decimals than any currency has are a validation problem (decision 1). */
const MOST_PLACES = Math.max(...rules.map(rule => rule.places))
const LARGEST = rules.map(rule => rule.largest).reduce((a, b) => (a > b ? a : b))

/**
 * Checks what a field's schema cannot express. Decision 1: an error of one field alone is a validation problem, one
 * that depends on the currency is `{error}`.
 * @throws ValidationError 400, ShortError 400
 */
export function checkInput(input: PaymentInput): PaymentDetails {
  const faults: Record<string, string[]> = {}
  const refuse = (path: string, message: string): void => {
    ;(faults[fieldName(path)] ??= []).push(message)
  }
  const amount = readDecimal(input.amount)
  const fault = amountFault(amount)
  if (fault !== null) refuse('/amount', fault)
  // The schema's format accepts quoted names with spaces and commas.
  if (input.customerEmail !== undefined && !PLAIN_EMAIL.test(input.customerEmail))
    refuse('/customerEmail', 'Must be a valid email.')
  if (input.successUrl !== undefined && !isWebAddress(input.successUrl))
    refuse('/successUrl', 'Must be an http or https address.')
  for (const message of metadataFaults(input.metadata ?? {})) refuse('/metadata', message)
  if (amount === null || Object.keys(faults).length > 0) throw new ValidationError(faults)
  checkRules(amount, input.currency)
  return {
    orderId: input.orderId,
    amount: plainText(amount),
    currency: input.currency,
    description: input.description ?? null,
    customerEmail: input.customerEmail ?? null,
    customerName: input.customerName ?? null,
    successUrl: input.successUrl ?? null,
    metadata: input.metadata ?? null
  }
}

function amountFault(amount: Decimal | null): string | null {
  if (amount === null) return 'Must be a decimal number such as 0.00012.'
  if (amount.digits < 0n) return 'Must be at least 0.'
  if (amount.places > MOST_PLACES) return `Must have at most ${MOST_PLACES} decimal places.`
  return isAbove(amount, LARGEST) ? `Must be at most ${LARGEST}.` : null
}

/** @throws ShortError 400 for what this currency does not allow (decision 46) */
function checkRules(amount: Decimal, currency: Currency): void {
  const { places, largest } = CURRENCY_RULES[currency]
  if (amount.places > places)
    throw new ShortError(VALIDATION, `An amount in ${currency} has at most ${places} decimal places.`)
  if (isAbove(amount, largest)) throw new ShortError(VALIDATION, `An amount in ${currency} is at most ${largest}.`)
}

function isAbove(amount: Decimal, limit: bigint): boolean {
  return inUnits(amount, amount.places) > limit * 10n ** BigInt(amount.places)
}

/** A plain address, without the quoted names of the format `email` (decision 50). */
export const PLAIN_EMAIL = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$/

/** A redirect target: excludes blanks and backslashes, which browsers parse differently. */
function isWebAddress(text: string): boolean {
  return /^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(text) && URL.canParse(text)
}

function metadataFaults(metadata: Readonly<Record<string, string>>): string[] {
  const faults: string[] = []
  const pairs = Object.entries(metadata)
  if (pairs.length > METADATA_LIMITS.pairs) faults.push(`Must have at most ${METADATA_LIMITS.pairs} pairs.`)
  if (pairs.some(([key]) => key === '' || [...key].length > METADATA_LIMITS.key))
    faults.push(`Keys must have 1 to ${METADATA_LIMITS.key} characters.`)
  if (pairs.some(([key, value]) => !isStorable(key) || !isStorable(value))) faults.push(UNSTORABLE)
  return faults
}
