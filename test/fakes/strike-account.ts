import { randomUUID } from 'node:crypto'
import { readAddress } from '../../src/lightning/codecs/address.ts'
import { decodeInvoice, type InvoiceNetwork } from '../../src/lightning/codecs/bolt11.ts'
import type { Clock } from '../../src/platform/system/clock.ts'
import { btc, form, invalid, money, satsOf, StrikeRefusal, text, type Json, type Money } from './strike-forms.ts'
import { newInvoice, type InvoiceLie } from '../support/invoices.ts'

/** What one bitcoin costs; the fake converts at these. */
const PRICES: Readonly<Record<string, number>> = { USD: 100_000, EUR: 92_000, GBP: 79_000 }
const UUID4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const QUOTE_LIFE = 30_000

export interface HeldRequest {
  readonly id: string
  readonly created: number
  readonly description: string | null
  readonly requested: Money
  readonly sats: number
  readonly invoice: string
  readonly preimage: string
  readonly paymentHash: string
  readonly expiresAt: number
}

export interface HeldReceive {
  readonly id: string
  readonly requestId: string
  readonly type: 'LIGHTNING' | 'P2P' | 'ONCHAIN'
  state: 'PENDING' | 'COMPLETED'
  readonly received: Money
  readonly created: number
  completed: number | null
}

export interface HeldQuote {
  readonly id: string
  readonly kind: 'lightning' | 'onchain'
  readonly sats: number
  readonly feeSats: number
  readonly target: string
  readonly validUntil: number
  paymentId: string | null
}
export interface HeldPayment {
  readonly id: string
  readonly quote: HeldQuote
  state: 'PENDING' | 'COMPLETED' | 'FAILED'
  completed: number | null
  txnId: string | null
}

/** The books of one Strike account. */
export class StrikeAccount {
  readonly requests = new Map<string, HeldRequest>()
  /** Oldest first. */
  readonly receives: HeldReceive[] = []
  readonly quotes = new Map<string, HeldQuote>()
  readonly payments = new Map<string, HeldPayment>()
  readonly #quoteOfKey = new Map<string, string>()
  /** Satoshis. */
  balance = 100_000_000
  /** Payments over Lightning are answered 202 and stay pending. */
  isSlow = false
  /** Whether a payment has the id of its quote. */
  paymentIds: 'of the quote' | 'of their own' = 'of the quote'
  readonly #clock: Clock
  readonly #network: InvoiceNetwork
  /** The next invoice is another one than was asked for. */
  lie: InvoiceLie | null = null

  constructor(clock: Clock, network: InvoiceNetwork) {
    this.#clock = clock
    this.#network = network
  }

  request(id: string): HeldRequest {
    const held = this.requests.get(id)
    if (held === undefined) throw new StrikeRefusal(404, 'NOT_FOUND', 'The receive request was not found.')
    return held
  }

  createRequest(body: unknown): HeldRequest {
    const given = form(body, ['bolt11', 'onchain', 'targetCurrency'])
    if (given.bolt11 === undefined) throw invalid('bolt11', 'The fake makes requests with a Lightning invoice only.')
    const bolt11 = form(given.bolt11, ['amount', 'description', 'descriptionHash', 'expiryInSeconds'], 'bolt11')
    const requested = money(bolt11.amount, 'bolt11.amount')
    const description = bolt11.description === undefined ? null : text(bolt11.description, 'bolt11.description', 1, 250)
    const hashed =
      bolt11.descriptionHash === undefined ? null : text(bolt11.descriptionHash, 'bolt11.descriptionHash', 64, 64)
    if (hashed !== null && !/^[0-9a-f]{64}$/.test(hashed)) throw invalid('bolt11.descriptionHash', 'Hex is expected.')
    const expiry = bolt11.expiryInSeconds ?? 3600
    if (typeof expiry !== 'number' || !Number.isInteger(expiry) || expiry < 1)
      throw invalid('bolt11.expiryInSeconds', 'A whole number above 0 is expected.')
    const price = PRICES[requested.currency]
    const sats = price === undefined ? satsOf(requested.amount) : Math.ceil((Number(requested.amount) * 1e8) / price)
    const { lie } = this
    this.lie = null
    const { invoice, preimage, paymentHash, createdAt } = newInvoice({
      at: this.#clock.now(),
      network: this.#network,
      lie,
      amountSats: sats,
      expirySeconds: expiry,
      description: description ?? '',
      descriptionHash: hashed ?? undefined
    })
    const held: HeldRequest = {
      id: randomUUID(),
      created: this.#clock.now(),
      description,
      requested: { amount: requested.amount, currency: requested.currency },
      sats,
      invoice,
      preimage,
      paymentHash,
      expiresAt: createdAt + expiry * 1000
    }
    this.requests.set(held.id, held)
    return held
  }

  /** Money comes in for a request; what it asked for unless `received` says otherwise. */
  receive(requestId: string, type: HeldReceive['type'], state: HeldReceive['state'], received?: Money): HeldReceive {
    const { sats } = this.request(requestId)
    const now = this.#clock.now()
    const held: HeldReceive = {
      id: randomUUID(),
      requestId,
      type,
      state,
      received: received ?? btc(sats),
      created: now,
      completed: state === 'COMPLETED' ? now : null
    }
    this.receives.push(held)
    return held
  }

  requestView(held: HeldRequest): object {
    return {
      receiveRequestId: held.id,
      created: iso(held.created),
      bolt11: {
        invoice: held.invoice,
        requestedAmount: held.requested,
        btcAmount: btc(held.sats).amount,
        description: held.description,
        paymentHash: held.paymentHash,
        expires: iso(held.expiresAt)
      }
    }
  }

  receiveView(held: HeldReceive): object {
    const request = this.request(held.requestId)
    const details =
      held.type === 'LIGHTNING'
        ? { lightning: { invoice: request.invoice, preimage: request.preimage, paymentHash: request.paymentHash } }
        : held.type === 'P2P'
          ? { p2p: { payerAccountId: randomUUID() } }
          : { onchain: { address: 'bcrt1qfake', transactionId: 'ab'.repeat(32), numberOfConfirmations: 1 } }
    return {
      receiveId: held.id,
      receiveRequestId: held.requestId,
      type: held.type,
      state: held.state,
      amountReceived: held.received,
      created: iso(held.created),
      ...(held.completed === null ? {} : { amountCredited: held.received, completed: iso(held.completed) }),
      ...details
    }
  }

  quoteLightning(body: unknown, key: string | undefined): HeldQuote {
    const given = form(body, ['lnInvoice', 'sourceCurrency', 'amount', 'beneficiary'])
    const target = text(given.lnInvoice, 'lnInvoice', 1, 8000)
    this.#requireNew(key)
    const invoice = decodeInvoice(target, { zeroAmount: true })
    if (given.amount !== undefined && invoice.amountMsat !== null)
      throw invalid('amount', 'The invoice has an amount of its own.')
    if (given.amount === undefined && invoice.amountMsat === null) throw invalid('amount', 'The invoice has no amount.')
    const sats = invoice.amountSats ?? satsOf(money(given.amount, 'amount', ['feePolicy']).amount)
    if (invoice.expiresAt * 1000 <= this.#clock.now())
      throw new StrikeRefusal(422, 'INVALID_STATE_FOR_INVOICE_EXPIRED', 'The invoice has expired.')
    if ([...this.payments.values()].some(payment => payment.quote.target === target && payment.state !== 'FAILED'))
      throw new StrikeRefusal(422, 'LN_INVOICE_PROCESSED', 'The invoice has been paid.')
    return this.#quote('lightning', given, sats, 1, target, key)
  }

  tiers(body: unknown): object {
    const given = form(body, ['btcAddress', 'amount'])
    readAddress(text(given.btcAddress, 'btcAddress', 10, 100))
    money(given.amount, 'amount')
    return [
      { id: 'tier_fast', estimatedDeliveryDurationInMin: 10, estimatedFee: btc(900) },
      { id: 'tier_standard', estimatedDeliveryDurationInMin: 60, estimatedFee: btc(300) },
      { id: 'tier_free', estimatedDeliveryDurationInMin: 1440, estimatedFee: btc(0), minimumAmount: btc(75_000) }
    ]
  }

  quoteChain(body: unknown, key: string | undefined): HeldQuote {
    const given = form(body, ['btcAddress', 'sourceCurrency', 'amount', 'onchainTierId', 'description', 'beneficiary'])
    const target = text(given.btcAddress, 'btcAddress', 10, 100)
    const fee = { tier_fast: 900, tier_standard: 300, tier_free: 0 }[text(given.onchainTierId, 'onchainTierId', 1, 50)]
    if (fee === undefined) throw invalid('onchainTierId', 'The tier is not known.')
    if (given.description !== undefined) text(given.description, 'description', 1, 250)
    this.#requireNew(key)
    return this.#quote('onchain', given, satsOf(money(given.amount, 'amount', ['feePolicy']).amount), fee, target, key)
  }

  #requireNew(key: string | undefined): void {
    if (key !== undefined && !UUID4.test(key))
      throw new StrikeRefusal(400, 'INVALID_DATA', 'The idempotency-key must be a UUID of version 4.')
    const first = key === undefined ? undefined : this.#quoteOfKey.get(key)
    if (first !== undefined)
      throw new StrikeRefusal(
        422,
        'DUPLICATE_PAYMENT_QUOTE',
        'A payment quote for the idempotency key exists already.',
        { values: { paymentQuoteId: first } }
      )
  }

  #quote(
    kind: HeldQuote['kind'],
    given: Json,
    sats: number,
    feeSats: number,
    target: string,
    key: string | undefined
  ): HeldQuote {
    if (given.sourceCurrency !== 'BTC') throw invalid('sourceCurrency', 'The fake pays from bitcoin only.')
    if (sats + feeSats > this.balance) throw new StrikeRefusal(422, 'BALANCE_TOO_LOW', 'The balance is too low.')
    const held: HeldQuote = {
      id: randomUUID(),
      kind,
      sats,
      feeSats,
      target,
      validUntil: this.#clock.now() + QUOTE_LIFE,
      paymentId: null
    }
    this.quotes.set(held.id, held)
    if (key !== undefined) this.#quoteOfKey.set(key, held.id)
    return held
  }

  quoteView(held: HeldQuote): object {
    return {
      paymentQuoteId: held.id,
      validUntil: iso(held.validUntil),
      amount: btc(held.sats),
      totalFee: btc(held.feeSats),
      totalAmount: btc(held.sats + held.feeSats)
    }
  }

  execute(quoteId: string): HeldPayment {
    const quote = this.quotes.get(quoteId)
    if (quote === undefined) throw new StrikeRefusal(404, 'NOT_FOUND', 'The payment quote was not found.')
    if (quote.paymentId !== null)
      throw new StrikeRefusal(422, 'PAYMENT_PROCESSED', 'The payment has been processed.', {
        values: { paymentId: quote.paymentId }
      })
    if (quote.validUntil <= this.#clock.now())
      throw new StrikeRefusal(422, 'PAYMENT_QUOTE_EXPIRED', 'The payment quote has expired.')
    const isDone = quote.kind === 'lightning' && !this.isSlow
    const held: HeldPayment = {
      id: this.paymentIds === 'of the quote' ? quote.id : randomUUID(),
      quote,
      state: isDone ? 'COMPLETED' : 'PENDING',
      completed: isDone ? this.#clock.now() : null,
      txnId: null
    }
    quote.paymentId = held.id
    this.balance -= quote.sats + quote.feeSats
    this.payments.set(held.id, held)
    return held
  }

  /** A pending payment gets its outcome. */
  settle(paymentId: string, state: 'COMPLETED' | 'FAILED'): void {
    const held = this.payment(paymentId)
    held.state = state
    held.completed = this.#clock.now()
    if (held.quote.kind === 'onchain' && state === 'COMPLETED') held.txnId = 'cd'.repeat(32)
  }

  payment(id: string): HeldPayment {
    const held = this.payments.get(id)
    if (held === undefined) throw new StrikeRefusal(404, 'NOT_FOUND', 'The payment was not found.')
    return held
  }

  paymentView(held: HeldPayment): object {
    const { quote } = held
    return {
      paymentId: held.id,
      state: held.state,
      ...(held.completed === null ? {} : { completed: iso(held.completed) }),
      amount: btc(quote.sats),
      totalFee: btc(quote.feeSats),
      totalAmount: btc(quote.sats + quote.feeSats),
      ...(quote.kind === 'lightning'
        ? { lightning: { networkFee: btc(quote.feeSats), preImage: 'ef'.repeat(32) } }
        : { onchain: held.txnId === null ? {} : { txnId: held.txnId } })
    }
  }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
