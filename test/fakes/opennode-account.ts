import { randomBytes, randomUUID } from 'node:crypto'
import { bech32 } from '@scure/base'
import { AddressError, readAddress } from '../../src/lightning/codecs/address.ts'
import { decodeInvoice, InvoiceError, type Invoice, type InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import { newInvoice, type InvoiceLie } from '../support/invoices.ts'

/** What a charge can be. */
export type ChargeStatus = 'unpaid' | 'processing' | 'paid' | 'underpaid' | 'refunded' | 'expired'

/** A refusal, in the provider's envelope: `{success: false, message}` under this status. */
export class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** A transaction on the chain that paid towards a charge. */
export interface ChainPayment {
  readonly address: string
  readonly created_at: number
  settled_at: number | null
  readonly tx: string
  status: 'pending' | 'confirmed'
  readonly amount: number
}

/** A charge as it is kept; `view` is what goes over the wire. */
export interface HeldCharge {
  readonly id: string
  /** The key that made it; signs its notifications. */
  readonly key: string
  readonly amount: number
  readonly description: string
  readonly currency: string
  readonly sourceFiatValue: number
  readonly callbackUrl: string | null
  readonly orderId: string | null
  readonly autoSettle: boolean
  readonly ttl: number
  readonly createdAt: number
  readonly expiresAt: number
  readonly address: string
  readonly payreq: string | null
  readonly preimage: string
  readonly transactions: ChainPayment[]
  status: ChargeStatus
  settledAt: number | null
  missing: number
}

/** A withdrawal as it is kept. */
export interface HeldWithdrawal {
  readonly id: string
  readonly type: 'ln' | 'chain'
  readonly amount: number
  /** The invoice or the address. */
  readonly destination: string
  readonly customId: string | null
  readonly callbackUrl: string | null
  readonly key: string
  status: 'pending' | 'processing' | 'confirmed' | 'failed'
  fee: number
  tx: string | null
  error: string | null
  processedAt: number | null
}

const CHARGE_FIELDS = new Set([
  'amount',
  'currency',
  'description',
  'customer_email',
  'notif_email',
  'customer_name',
  'order_id',
  'callback_url',
  'success_url',
  'auto_settle',
  'ttl',
  'metadata',
  'split_to_btc_bps',
  'notify_receiver',
  'kyc_required',
  'desc_hash'
])
const WITHDRAWAL_FIELDS = new Set([
  'type',
  'address',
  'payreq',
  'amount',
  'currency',
  'callback_url',
  'wallet',
  'auto_confirm',
  'custom_id'
])
/** Satoshis of one whole unit. */
const SATS_PER_UNIT: Readonly<Record<string, number>> = { USD: 2_000, EUR: 2_200, GBP: 2_500 }
const LARGEST_INVOICE = 500_000_000

/**
 * One account at the provider: its charges, withdrawals and balance, with the rules that providers.md gives for them.
 */
export class FakeAccount {
  readonly charges = new Map<string, HeldCharge>()
  readonly withdrawals = new Map<string, HeldWithdrawal>()
  /** Satoshis. */
  balance = 0
  /** Whether withdrawals are listed with their `custom_id`, which is undocumented. */
  listsCustomId = true
  /** Which field names the invoice of a Lightning withdrawal: the two sources say different things. */
  invoiceField: 'address' | 'payreq' = 'address'
  readonly #clock: Clock
  readonly #network: InvoiceNetwork
  /** The invoice of the next charge is another one than was asked for; nothing is said of its hash beside it. */
  lie: InvoiceLie | null = null

  constructor(clock: Clock, network: InvoiceNetwork) {
    this.#clock = clock
    this.#network = network
  }

  /** `POST /v1/charges`. @throws Refusal 400 */
  createCharge(key: string, body: Readonly<Record<string, unknown>>): HeldCharge {
    refuseUnknown(body, CHARGE_FIELDS)
    const {
      amount,
      currency,
      ttl = 1440,
      description = 'N/A',
      callback_url: callbackUrl,
      order_id: orderId,
      auto_settle: autoSettle = false
    } = body
    if (typeof amount !== 'number' || !(amount > 0)) throw new Refusal(400, 'Amount must be a number greater than zero')
    if (currency !== undefined && (typeof currency !== 'string' || SATS_PER_UNIT[currency] === undefined))
      throw new Refusal(400, 'Currency is not supported')
    if (currency === undefined && !Number.isSafeInteger(amount))
      throw new Refusal(400, 'Amount in satoshis must be an integer')
    if (typeof ttl !== 'number' || !Number.isInteger(ttl) || ttl < 10 || ttl > 1440)
      throw new Refusal(400, 'ttl must be between 10 and 1440')
    if (typeof description !== 'string') throw new Refusal(400, 'Description must be a string')
    if (typeof autoSettle !== 'boolean') throw new Refusal(400, 'auto_settle must be a boolean')
    if (callbackUrl !== undefined && !isHttpUrl(callbackUrl)) throw new Refusal(400, 'callback_url must be a valid URL')
    if (orderId !== undefined && typeof orderId !== 'string') throw new Refusal(400, 'order_id must be a string')
    const sats = currency === undefined ? amount : Math.ceil(amount * (SATS_PER_UNIT[currency] ?? 0))
    const createdAt = this.#seconds()
    const { lie } = this
    this.lie = null
    const { invoice, preimage } = newInvoice({
      at: this.#clock.now(),
      network: this.#network,
      // Nothing is said of the hash beside the invoice.
      lie,
      amountSats: sats,
      expirySeconds: ttl * 60,
      description
    })
    const charge: HeldCharge = {
      id: randomUUID(),
      key,
      amount: sats,
      description,
      currency: currency ?? 'BTC',
      sourceFiatValue: currency === undefined ? 0 : amount,
      callbackUrl: callbackUrl ?? null,
      orderId: orderId ?? null,
      autoSettle,
      ttl,
      createdAt,
      expiresAt: createdAt + ttl * 60,
      address: randomAddress(this.#network),
      payreq: sats > LARGEST_INVOICE ? null : invoice,
      preimage,
      transactions: [],
      status: 'unpaid',
      settledAt: null,
      missing: 0
    }
    this.charges.set(charge.id, charge)
    return charge
  }

  /** @throws Refusal 404 */
  charge(id: string): HeldCharge {
    const charge = this.charges.get(id)
    if (charge === undefined) throw new Refusal(404, 'Charge not found')
    if (charge.status === 'unpaid' && charge.expiresAt <= this.#seconds()) charge.status = 'expired'
    return charge
  }

  /** `GET /v1/charges`: the paid ones, newest first. */
  listed(): HeldCharge[] {
    return [...this.charges.values()].filter(({ status }) => status !== 'unpaid' && status !== 'expired').toReversed()
  }

  /** Pays over Lightning: in full, immediately and finally. */
  payLightning(id: string): HeldCharge {
    const charge = this.charge(id)
    if (charge.payreq === null || charge.status !== 'unpaid')
      throw new Error(`a charge that is ${charge.status} cannot be paid over Lightning`)
    this.balance += charge.amount
    return Object.assign(charge, { status: 'paid', settledAt: this.#seconds() })
  }

  /** A transaction of `amount` satoshis is seen; it is enough, or the charge is underpaid. Also after the expiry. */
  seeTransaction(id: string, amount: number): HeldCharge {
    const charge = this.charge(id)
    charge.transactions.push({
      address: charge.address,
      created_at: this.#seconds(),
      settled_at: null,
      tx: randomBytes(32).toString('hex'),
      status: 'pending',
      amount
    })
    const received = charge.transactions.reduce((sum, transaction) => sum + transaction.amount, 0)
    return Object.assign(charge, {
      missing: Math.max(charge.amount - received, 0),
      status: received < charge.amount ? 'underpaid' : 'processing'
    })
  }

  /** The transactions of a charge are in a block. */
  confirmChain(id: string): HeldCharge {
    const charge = this.charge(id)
    for (const transaction of charge.transactions)
      Object.assign(transaction, { settled_at: this.#seconds(), status: 'confirmed' })
    if (charge.status !== 'processing') return charge
    this.balance += charge.amount
    return Object.assign(charge, { status: 'paid', settledAt: this.#seconds() })
  }

  /** `POST /v2/withdrawals`: taken, not sent yet. @throws Refusal 400 */
  createWithdrawal(key: string, body: Readonly<Record<string, unknown>>): HeldWithdrawal {
    refuseUnknown(body, WITHDRAWAL_FIELDS)
    const { type, custom_id: customId, callback_url: callbackUrl } = body
    if (type !== 'ln' && type !== 'chain') throw new Refusal(400, 'Withdrawal type is not valid')
    if (customId !== undefined && typeof customId !== 'string') throw new Refusal(400, 'custom_id must be a string')
    if (callbackUrl !== undefined && !isHttpUrl(callbackUrl)) throw new Refusal(400, 'callback_url must be a valid URL')
    const { amount, destination } = type === 'ln' ? this.#lightningTerms(body) : this.#chainTerms(body)
    if (amount > this.balance) throw new Refusal(400, 'Insufficient balance')
    this.balance -= amount
    const withdrawal: HeldWithdrawal = {
      id: randomUUID(),
      type,
      amount,
      destination,
      key,
      customId: customId ?? null,
      callbackUrl: callbackUrl ?? null,
      status: 'pending',
      fee: 0,
      tx: null,
      error: null,
      processedAt: null
    }
    this.withdrawals.set(withdrawal.id, withdrawal)
    return withdrawal
  }

  #lightningTerms(body: Readonly<Record<string, unknown>>): { amount: number; destination: string } {
    const destination = body[this.invoiceField]
    if (typeof destination !== 'string') throw new Refusal(400, `${this.invoiceField} must be a Lightning invoice`)
    const invoice = readInvoice(destination)
    if (invoice.network !== this.#network) throw new Refusal(400, 'Invalid Lightning invoice')
    if (invoice.expiresAt <= this.#seconds()) throw new Refusal(400, 'Invoice is expired')
    const isTaken = [...this.withdrawals.values()].some(
      other => other.destination === destination && other.status !== 'failed'
    )
    if (isTaken) throw new Refusal(400, 'Invoice is already paid')
    if (invoice.amountSats !== null && body['amount'] !== undefined)
      throw new Refusal(400, 'Amount must not be set when the invoice has one')
    return { amount: invoice.amountSats ?? requireSats(body['amount']), destination }
  }

  #chainTerms(body: Readonly<Record<string, unknown>>): { amount: number; destination: string } {
    const { address } = body
    if (typeof address !== 'string' || !isBitcoinAddress(address, this.#network))
      throw new Refusal(400, 'Invalid bitcoin address')
    return { amount: requireSats(body['amount']), destination: address }
  }

  /** @throws Refusal 404 */
  withdrawal(id: string): HeldWithdrawal {
    const withdrawal = this.withdrawals.get(id)
    if (withdrawal === undefined) throw new Refusal(404, 'Withdrawal not found')
    return withdrawal
  }

  /** A withdrawal has got further. What has failed goes back to the balance. */
  moveWithdrawal(id: string, status: HeldWithdrawal['status'], error = 'no_route'): HeldWithdrawal {
    const withdrawal = this.withdrawal(id)
    if (status === 'failed') {
      this.balance += withdrawal.amount
      return Object.assign(withdrawal, { status, error, processedAt: this.#seconds() })
    }
    const tx = withdrawal.type === 'chain' && status === 'confirmed' ? randomBytes(32).toString('hex') : null
    return Object.assign(withdrawal, {
      status,
      tx,
      fee: status === 'confirmed' ? 3 : 0,
      processedAt: status === 'confirmed' ? this.#seconds() : null
    })
  }

  #seconds(): number {
    return Math.floor(this.#clock.now() / 1000)
  }
}

function refuseUnknown(body: Readonly<Record<string, unknown>>, known: ReadonlySet<string>): void {
  // The real one may well pass over them; a fake that does would hide a misspelt name.
  const unknown = Object.keys(body).find(name => !known.has(name))
  if (unknown !== undefined) throw new Refusal(400, `"${unknown}" is not allowed`)
}

function requireSats(amount: unknown): number {
  if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 1)
    throw new Refusal(400, 'Amount must be a number of satoshis')
  return amount
}

function readInvoice(text: string): Invoice {
  try {
    return decodeInvoice(text, { zeroAmount: true })
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new Refusal(400, 'Invalid Lightning invoice')
  }
}

function isHttpUrl(value: unknown): value is string {
  return typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)
}

function isBitcoinAddress(text: string, network: InvoiceNetwork): boolean {
  try {
    return readAddress(text).networks.includes(network)
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return false
  }
}

const ADDRESS_PREFIXES: Readonly<Record<InvoiceNetwork, string>> = {
  mainnet: 'bc',
  testnet: 'tb',
  signet: 'tb',
  regtest: 'bcrt'
}

function randomAddress(network: InvoiceNetwork): string {
  return bech32.encode(ADDRESS_PREFIXES[network], [0, ...bech32.toWords(randomBytes(20))])
}
