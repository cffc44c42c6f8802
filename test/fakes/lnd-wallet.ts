import { randomBytes } from 'node:crypto'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import { newInvoice, type InvoiceLie } from '../support/invoices.ts'

/** An error as lnd gives it: a gRPC code and a message. */
export class LndError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** An invoice that the node made. */
export interface HeldInvoice {
  readonly addIndex: number
  readonly paymentHash: string
  readonly preimage: string
  readonly invoice: string
  readonly memo: string
  readonly valueSats: number
  readonly expirySeconds: number
  /** Milliseconds since the epoch. */
  readonly createdAt: number
  state: 'OPEN' | 'SETTLED' | 'CANCELED' | 'ACCEPTED'
  settledAt: number | null
  /** lnd's count of settled invoices, from 1 on; 0 while it is not settled. */
  settleIndex: number
  paidSats: number
}

/** A payment that the node sends. */
export interface HeldPayment {
  readonly paymentHash: string
  readonly invoice: string
  readonly valueSats: number
  readonly createdAt: number
  status: 'IN_FLIGHT' | 'SUCCEEDED' | 'FAILED'
  failureReason: string
  feeSats: number
  resolvedAt: number | null
}

/** A transaction of the wallet. */
export interface HeldTransaction {
  readonly hash: string
  readonly label: string
  readonly address: string
  readonly amountSats: number
  readonly feeSats: number
  /** Milliseconds since the epoch. */
  readonly at: number
  /** 0 without a block. */
  height: number
}

/** What comes of a payment: paid, a failure, or nothing yet. */
export type PaymentOutcome = 'SUCCEEDED' | 'IN_FLIGHT' | `FAILURE_REASON_${string}`

const DEFAULT_EXPIRY = 86_400
const LONGEST_EXPIRY = 31_536_000
const LONGEST_MEMO = 639
const TIP = 800_000

/** What an lnd node holds, with its rules. */
export class LndWallet {
  readonly invoices = new Map<string, HeldInvoice>()
  readonly payments = new Map<string, HeldPayment>()
  readonly transactions: HeldTransaction[] = []
  /** The next invoice is another one than was asked for. */
  lie: InvoiceLie | null = null
  /** What comes of the next payments. */
  outcome: PaymentOutcome = 'SUCCEEDED'
  /** Its channels, announced or not. */
  channels: Array<{ readonly isPrivate: boolean }> = [{ isPrivate: false }]
  /** Satoshis that they can receive. */
  inbound = 1_000_000
  /** Satoshis that can be sent over the chain. */
  funds = 1_000_000
  readonly #clock: Clock
  /** How many were settled; a test sets it back, as a rebuilt node's is. */
  settled = 0
  /** Called for each invoice that is settled. */
  onSettled: (held: HeldInvoice) => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  addInvoice(valueSats: number, memo: string, expiry: number, descriptionHash?: string): HeldInvoice {
    if (Buffer.byteLength(memo) > LONGEST_MEMO)
      throw new LndError(2, `memo too large: ${Buffer.byteLength(memo)} bytes (maxsize=${LONGEST_MEMO})`)
    if (expiry > LONGEST_EXPIRY)
      throw new LndError(2, `expiry of ${expiry} seconds greater than max expiry of ${LONGEST_EXPIRY} seconds`)
    const { lie } = this
    this.lie = null
    const expirySeconds = expiry === 0 ? DEFAULT_EXPIRY : expiry
    const { invoice, preimage, paymentHash, createdAt } = newInvoice({
      at: this.#clock.now(),
      lie,
      amountSats: valueSats === 0 ? null : valueSats,
      expirySeconds,
      description: memo,
      descriptionHash
    })
    const held: HeldInvoice = {
      addIndex: this.invoices.size + 1,
      paymentHash,
      preimage,
      invoice,
      memo,
      valueSats,
      expirySeconds,
      createdAt,
      state: 'OPEN',
      settledAt: null,
      settleIndex: 0,
      paidSats: 0
    }
    this.invoices.set(paymentHash, held)
    return held
  }

  invoice(paymentHash: string): HeldInvoice {
    const held = this.invoices.get(paymentHash)
    if (held === undefined) throw new LndError(5, 'unable to locate invoice')
    return held
  }

  /** A payer's HTLCs arrive; answers the preimage. */
  settle(paymentHash: string, paidSats = this.invoice(paymentHash).valueSats): string {
    const held = this.invoice(paymentHash)
    Object.assign(held, {
      state: 'SETTLED',
      settledAt: this.#clock.now(),
      settleIndex: held.settleIndex === 0 ? ++this.settled : held.settleIndex,
      paidSats
    })
    this.onSettled(held)
    return held.preimage
  }

  /** `tracked` false: refused before it became a payment of the node. */
  pay(invoice: string, amountSats: number | null): HeldPayment {
    const decoded = decodeInvoice(invoice, { zeroAmount: true })
    if (decoded.expiresAt * 1000 <= this.#clock.now())
      throw new LndError(2, `invoice expired. Valid until ${new Date(decoded.expiresAt * 1000).toISOString()}`)
    if (decoded.amountSats === null && amountSats === null)
      throw new LndError(2, 'amount must be specified when paying a zero amount invoice')
    if (decoded.amountSats !== null && amountSats !== null)
      throw new LndError(2, 'amount must not be specified when paying a non-zero  amount invoice')
    if (this.invoices.has(decoded.paymentHash)) throw new LndError(2, 'self-payments not allowed')
    const before = this.payments.get(decoded.paymentHash)
    if (before?.status === 'SUCCEEDED') throw new LndError(6, 'invoice is already paid')
    if (before?.status === 'IN_FLIGHT') throw new LndError(6, 'payment is in transition')
    const { outcome } = this
    const isPaid = outcome === 'SUCCEEDED'
    const isFailed = !isPaid && outcome !== 'IN_FLIGHT'
    const payment: HeldPayment = {
      paymentHash: decoded.paymentHash,
      invoice,
      valueSats: decoded.amountSats ?? amountSats ?? 0,
      createdAt: this.#clock.now(),
      status: isFailed ? 'FAILED' : isPaid ? 'SUCCEEDED' : 'IN_FLIGHT',
      failureReason: isFailed ? outcome : 'FAILURE_REASON_NONE',
      feeSats: isPaid ? 2 : 0,
      // Without a route nothing was attempted, so that there is no HTLC that ended.
      resolvedAt: outcome === 'IN_FLIGHT' || outcome === 'FAILURE_REASON_NO_ROUTE' ? null : this.#clock.now()
    }
    this.payments.set(decoded.paymentHash, payment)
    return payment
  }

  sendCoins(address: string, amountSats: number, label: string): HeldTransaction {
    if (address === '') throw new LndError(2, 'decoded address is of unknown format')
    if (label.length > 500) throw new LndError(2, `label too long: ${label.length}`)
    if (amountSats + 200 > this.funds) throw new LndError(2, 'insufficient funds available to construct transaction')
    this.funds -= amountSats + 200
    const transaction = {
      hash: randomBytes(32).toString('hex'),
      label,
      address,
      amountSats,
      feeSats: 200,
      at: this.#clock.now(),
      height: 0
    }
    this.transactions.push(transaction)
    return transaction
  }

  /** Everything without a block gets one. */
  mine(): void {
    const height = Math.max(TIP, ...this.transactions.map(one => one.height)) + 1
    for (const one of this.transactions) if (one.height === 0) one.height = height
  }

  /**
   * As lnd lists them: those in blocks, backwards when `start` is above `end`, then those without one where either is
   * -1.
   */
  list(start: number, end: number): readonly HeldTransaction[] {
    const top = end === -1 ? Number.MAX_SAFE_INTEGER : end
    const [low, high] = start > top ? [top, start] : [start, top]
    const mined = this.transactions
      .filter(({ height }) => height > 0 && height >= low && height <= high)
      .sort((a, b) => (start > top ? b.height - a.height : a.height - b.height))
    return start === -1 || end === -1 ? [...mined, ...this.transactions.filter(({ height }) => height === 0)] : mined
  }
}
