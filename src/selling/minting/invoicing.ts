import { ConfigurationMissing, Unavailable } from '../../engine/operations/errors.ts'
import { decodeInvoice, shortDescription, type Invoice } from '../../lightning/codecs/bolt11.ts'
import { descriptionRoom } from '../../lightning/codecs/challenge-size.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable,
  PROVIDER_UNAVAILABLE
} from '../../lightning/provider-calls/errors.ts'
import { byFirst } from '../../lightning/providers/failover.ts'
import type { CallStanding } from '../../lightning/provider-calls/budgets.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { MintRequest } from './minting.ts'
import { type Offer, PROXY_UNAVAILABLE } from '../offers/offer.ts'
import type { ChallengeSource } from '../holding/challenge.ts'
import type { ChallengePayee, FindPayee, MadeCharge } from './payee.ts'
import { Stock, type Perishable } from './stock.ts'
import type { Strangers, Wish } from './strangers.ts'

export type PricedOffer = Offer & { readonly amountSats: number }

/** An invoice that may be sent. */
interface Sound {
  readonly charge: MadeCharge
  /** The charge's invoice, decoded. */
  readonly invoice: Invoice
}

/** An invoice that may be sent, with its payee. */
export interface Invoiced extends Sound {
  readonly payee: Pick<ChallengePayee, 'slot' | 'kind'>
}

/** A provider made an invoice that must not be sent; the log has the reason. */
class UnusableInvoice extends Unavailable {
  constructor({ errorMembers }: Offer, cause: unknown) {
    super(PROVIDER_UNAVAILABLE, 'The payment provider gave no usable invoice.', 5, errorMembers, cause)
  }
}

/** What invoices are made with. */
export interface InvoicingOptions {
  readonly clock: Clock
  readonly log: Log
  readonly counters: Pick<ChallengeCounters, 'ahead'>
  readonly strangers: Strangers
  readonly payee: FindPayee
}

/** Sources with prices known ahead; invoices of the others are for one cart, month or resource. */
const FIXED: ReadonlySet<ChallengeSource> = new Set(['route', 'proxy', 'ping'])

// Provider clients have timeouts of their own; this one bounds the wait of a payer if one fails to.
const PROVIDER_MS = 20_000
/** Back-off after a provider refused an invoice with the longer life of one made ahead. */
const REFUSED_MS = 600_000

/**
 * Invoices for challenges: checked against the price, from the provider, or from a stock of those made ahead, which have
 * no row until they are handed out.
 */
export class Invoicing {
  readonly #options: InvoicingOptions
  readonly #stock: Stock<Sound & Perishable>

  constructor(options: InvoicingOptions) {
    this.#options = options
    this.#stock = new Stock({
      clock: options.clock,
      counted: (result, count) => {
        options.counters.ahead(result, count)
      },
      pauseAfter: error => (error instanceof ProviderRefused ? REFUSED_MS : waitOf(error) * 1000)
    })
  }

  /** Invoices made ahead that are ready. */
  get ahead(): number {
    return this.#stock.level
  }

  /** Discards invoices made ahead. */
  clear(): void {
    this.#stock.clear()
  }

  /** The same, and makes no more. */
  close(): void {
    this.#stock.close()
  }

  /** One invoice from the payee. Whatever is wrong with it or its provider is 503, never a 402. */
  async invoice(offer: PricedOffer, request: MintRequest): Promise<Invoiced> {
    const { tokenExpires } = request
    const isKeyed = request.keyed === true || request.uncapped === true
    const expiry = tokenExpires === undefined ? payableSeconds(offer) : offer.invoiceExpirySeconds
    let wish: Wish | null = null
    try {
      const first = await this.#options.payee(offer)
      wish = isKeyed ? null : await this.#options.strangers.wish(request.clientKey, offer.place)
      const standing = wish?.stranger ?? 'keyed'
      return await byFirst(first, async payee => {
        const ready = isKeyed ? null : this.#ready(payee, offer)
        if (ready !== null) return { payee, charge: ready.charge, invoice: ready.invoice }
        const charge = await this.#charge(payee, offer, expiry, standing)
        return { payee, charge, invoice: this.#checked(payee, offer, charge) }
      })
    } catch (error) {
      wish?.refused()
      throw error instanceof UnusableInvoice ? error : this.#providerFault(offer, error)
    }
  }

  /**
   * An invoice made ahead for this price and description; null on a miss. None while the provider's circuit breaker is
   * open: whether its invoices can be paid is not known then.
   */
  #ready(payee: ChallengePayee, offer: PricedOffer): Sound | null {
    const { ahead = null } = payee
    if (ahead === null || !FIXED.has(offer.source)) return null
    const payable = payableSeconds(offer)
    const { amountSats, tokenValiditySeconds, description } = offer
    // It has twice the life, and must not outlive the token.
    if (2 * payable > tokenValiditySeconds || ahead.isLeftAlone()) return null
    return this.#stock.take({
      key: `${ahead.account} ${amountSats} ${payable} ${tokenValiditySeconds} ${description}`,
      maker: ahead.account,
      most: ahead.most,
      keeps: payable * 1000,
      make: () => this.#makeAhead(payee, offer, payable)
    })
  }

  /**
   * Makes an invoice ahead, with twice the usual life. It may be handed out in the first half of it, while `payable`
   * seconds are left: a 402 promises no less than it does without a stock.
   */
  async #makeAhead(payee: ChallengePayee, offer: PricedOffer, payable: number): Promise<Sound & Perishable> {
    const asked = this.#options.clock.now()
    const charge = await this.#charge(payee, offer, 2 * payable, 'ahead')
    const invoice = this.#checked(payee, offer, charge)
    const end = endOf(invoice, charge)
    const outlivesToken = end - this.#options.clock.now() > offer.tokenValiditySeconds * 1000
    const handOutUntil = outlivesToken ? asked : Math.min(asked + (end - asked) / 2, end - payable * 1000)
    return { charge, invoice, handOutUntil }
  }

  async #charge(
    payee: ChallengePayee,
    { amountSats, description, tokenPath, fiat }: PricedOffer,
    expirySeconds: number,
    standing: CallStanding
  ): Promise<MadeCharge> {
    return await this.#inTime(
      payee.createInvoice({
        amountSats,
        description: shortDescription(description, roomBeside(tokenPath, fiat)),
        expirySeconds,
        standing
      })
    )
  }

  /** @throws Unavailable, and logs what is wrong */
  #checked(payee: ChallengePayee, offer: PricedOffer, charge: MadeCharge): Invoice {
    try {
      const invoice = decodeInvoice(charge.invoice, { signature: 'named' })
      if (invoice.amountMsat !== BigInt(offer.amountSats) * 1000n)
        throw new Error(
          `The invoice asks for ${invoice.amountMsat ?? 'any'} millisatoshis, the price is ${offer.amountSats} satoshis`
        )
      if (invoice.paymentHash !== charge.paymentHash)
        throw new Error('The invoice has another payment hash than the provider said')
      if (invoice.network !== charge.network)
        throw new Error(`The invoice is for ${invoice.network}, the provider said ${charge.network}`)
      if (invoice.expiresAt * 1000 <= this.#options.clock.now()) throw new Error('The invoice has expired already')
      return invoice
    } catch (error) {
      this.#options.log.error(
        { place: offer.place, provider: payee.kind, err: error },
        'A provider made an invoice that must not be sent'
      )
      throw new UnusableInvoice(offer, error)
    }
  }

  /** An invoice that comes after the timeout is dropped. */
  async #inTime<T>(asked: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    const timer = this.#options.clock.after(PROVIDER_MS, () => {
      late.reject(
        new ProviderUnavailable(
          undefined,
          5,
          new Error(`The provider gave no invoice within ${PROVIDER_MS} ms`),
          'timeout'
        )
      )
    })
    try {
      return await Promise.race([asked, late.promise])
    } finally {
      timer.cancel()
    }
  }

  #providerFault(offer: Offer, error: unknown): Error {
    if (error instanceof ConfigurationMissing) return error
    if (error instanceof ProviderKeyRequired) {
      // Payers see no account facts; the merchant's own calls get what is missing.
      if (offer.source !== 'proxy') return error
      return new Unavailable(
        PROXY_UNAVAILABLE,
        'This proxy sells nothing at the moment.',
        60,
        offer.errorMembers,
        error
      )
    }
    return new Unavailable(
      PROVIDER_UNAVAILABLE,
      'No invoice can be made at the moment.',
      waitOf(error),
      offer.errorMembers,
      error
    )
  }
}

/** Seconds for which an invoice may be paid: never beyond its token, or a late payment would buy nothing. */
export function payableSeconds(offer: Offer): number {
  return Math.min(offer.invoiceExpirySeconds, offer.tokenValiditySeconds)
}

/** Expiry by the invoice and by its provider, in milliseconds since the epoch. */
export function endOf(invoice: Pick<Invoice, 'expiresAt'>, charge: Pick<MadeCharge, 'expiresAt'>): number {
  return Math.min(invoice.expiresAt * 1000, charge.expiresAt)
}

// The longest, with its packet.
const PRICE_CAVEAT_BYTES = 40

/** Bytes left for a description beside a path and a price in fiat. */
function roomBeside(tokenPath: string, fiat: string | null): number {
  return descriptionRoom(Buffer.byteLength(tokenPath) + (fiat === null ? 0 : PRICE_CAVEAT_BYTES))
}

function waitOf(error: unknown): number {
  return error instanceof Unavailable ? Number(error.headers[1] ?? 5) : 5
}
