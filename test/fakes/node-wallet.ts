import { randomBytes } from 'node:crypto'
import { decodeInvoice, type InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import { newInvoice, type InvoiceLie } from '../support/invoices.ts'

/** An invoice that a node made. Times in milliseconds since the epoch. */
export interface WalletInvoice {
  readonly paymentHash: string
  readonly preimage: string
  readonly invoice: string
  readonly amountSats: number
  readonly description: string
  readonly label: string
  readonly expirySeconds: number
  readonly createdAt: number
  readonly webhook: string | null
  settledAt: number | null
  receivedSats: number
  /** The node's count of paid invoices, from 1 on; 0 while it is not paid. */
  payIndex: number
}

/** A payment that a node sends. */
export interface WalletPayment {
  readonly id: string
  readonly paymentHash: string
  readonly invoice: string
  readonly amountSats: number
  readonly createdAt: number
  status: 'pending' | 'paid' | 'failed'
  feeMsat: number
  completedAt: number | null
}

/** What a node without Lightning holds, whatever it speaks. */
export class NodeWallet {
  readonly invoices = new Map<string, WalletInvoice>()
  readonly payments = new Map<string, WalletPayment>()
  /** What comes of the next payments. */
  outcome: WalletPayment['status'] = 'paid'
  /** What is wrong with the next invoice. */
  lie: InvoiceLie | null = null
  /** Satoshis of the largest invoice that its owner allows. */
  readonly largest = 10_000_000
  /** How often money was sent. */
  sendings = 0
  /** How many invoices were paid; a test sets it back, as a rebuilt node's is. */
  settled = 0
  /** What to do with a hash instead of a description. */
  hashes: 'taken' | 'ignored' | 'refused' = 'taken'
  /** Called with each invoice that is paid. */
  onSettled: (held: WalletInvoice) => void = () => {}
  readonly #clock: Clock
  readonly #network: InvoiceNetwork

  constructor(clock: Clock, network: InvoiceNetwork) {
    this.#clock = clock
    this.#network = network
  }

  addInvoice(wanted: {
    readonly amountSats: number
    readonly description: string
    readonly expirySeconds: number
    readonly label?: string
    readonly webhook?: string
    /** Goes into the invoice instead of the description. */
    readonly descriptionHash?: string | undefined
  }): WalletInvoice {
    const { lie } = this
    this.lie = null
    const { invoice, preimage, paymentHash, createdAt } = newInvoice({
      at: this.#clock.now(),
      network: this.#network,
      lie,
      amountSats: wanted.amountSats,
      expirySeconds: wanted.expirySeconds,
      description: wanted.description,
      descriptionHash: this.hashes === 'ignored' ? undefined : wanted.descriptionHash
    })
    const held: WalletInvoice = {
      paymentHash,
      preimage,
      invoice,
      amountSats: wanted.amountSats,
      description: wanted.description,
      label: wanted.label ?? '',
      expirySeconds: wanted.expirySeconds,
      createdAt,
      webhook: wanted.webhook ?? null,
      settledAt: null,
      receivedSats: 0,
      payIndex: 0
    }
    this.invoices.set(paymentHash, held)
    return held
  }

  isExpired({ createdAt, expirySeconds, settledAt }: WalletInvoice): boolean {
    return settledAt === null && createdAt + expirySeconds * 1000 <= this.#clock.now()
  }

  /** A payer's money arrives; gives the preimage. */
  settle(paymentHash: string, receivedSats?: number): string {
    const held = this.invoices.get(paymentHash)
    if (held === undefined) throw new Error('no such invoice')
    if (held.settledAt === null) held.payIndex = ++this.settled
    held.settledAt = this.#clock.now()
    held.receivedSats = receivedSats ?? held.amountSats
    this.onSettled(held)
    return held.preimage
  }

  /** Sends, or tries to: what a second payment of one invoice does is up to the caller. */
  pay(invoice: string, amountSats: number | null): WalletPayment {
    const decoded = decodeInvoice(invoice, { zeroAmount: true })
    const isPaid = this.outcome === 'paid'
    const payment: WalletPayment = {
      id: randomBytes(16)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
      paymentHash: decoded.paymentHash,
      invoice,
      amountSats: amountSats ?? decoded.amountSats ?? 0,
      createdAt: this.#clock.now(),
      status: this.outcome,
      feeMsat: isPaid ? 1_500 : 0,
      completedAt: this.outcome === 'pending' ? null : this.#clock.now()
    }
    if (this.outcome !== 'failed') this.sendings++
    this.payments.set(decoded.paymentHash, payment)
    return payment
  }
}
