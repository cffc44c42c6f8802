import { LRUCache } from 'lru-cache'
import { ConfigurationMissing, Unavailable } from '../../engine/operations/errors.ts'
import { decodeInvoice, type Invoice } from '../../lightning/codecs/bolt11.ts'
import { shortDescription } from '../../lightning/codecs/bolt11-encode.ts'
import { descriptionRoom } from '../../lightning/codecs/challenge-size.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable,
  PROVIDER_UNAVAILABLE
} from '../../lightning/provider-calls/errors.ts'
import { byFirst } from '../../lightning/providers/payee.ts'
import type { CallPriority } from '../../lightning/provider-calls/budgets.ts'
import type { HashedDescription } from '../../lightning/provider-calls/provider.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { MintRequest } from './minting.ts'
import { type Offer, PROXY_UNAVAILABLE } from '../offers/offer.ts'
import type { ChallengeSource } from '../holding/challenge.ts'
import type { ChallengePayee, FindPayee, MadeCharge } from './payee.ts'
import { Stock, type Perishable } from './stock.ts'
import type { ClientReputation, InvoiceRequest } from './client-reputation.ts'

export type PricedOffer = Offer & { readonly amountSats: number }

interface StockedInvoice {
  readonly charge: MadeCharge
  readonly invoice: Invoice
}

interface Invoiced extends StockedInvoice {
  readonly payee: Pick<ChallengePayee, 'slot' | 'kind'>
}

/** The invoice must not be sent; the log has the reason. */
class UnusableInvoice extends Unavailable {
  constructor({ errorMembers }: Offer, cause: unknown) {
    super(PROVIDER_UNAVAILABLE, 'The payment provider gave no usable invoice.', 5, errorMembers, cause)
  }
}

export interface InvoicingOptions {
  readonly clock: Clock
  readonly log: Log
  readonly counters: Pick<ChallengeCounters, 'ahead'>
  readonly reputation: ClientReputation
  readonly payee: FindPayee
}

/** Sources with prices known ahead; others invoice one cart, month or resource. */
const FIXED: ReadonlySet<ChallengeSource> = new Set(['route', 'proxy', 'ping'])

// Bounds a payer's wait should a provider client's own timeout fail.
const PROVIDER_MS = 20_000
/** Back-off after a provider refused the longer life of an invoice made ahead, or a hash instead of a description. */
const REFUSED_MS = 600_000

/** Makes invoices and checks them against the price. Those made ahead have no row until they are handed out. */
export class Invoicing {
  readonly #options: InvoicingOptions
  readonly #stock: Stock<StockedInvoice & Perishable>
  /** Accounts that make no invoices with a hash, with the time of the next try. */
  readonly #unhashed = new LRUCache<string, number>({ max: 1000 })

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

  get ahead(): number {
    return this.#stock.level
  }

  clear(): void {
    this.#stock.clear()
  }

  close(): void {
    this.#stock.close()
  }

  /** Requests one invoice. Any fault of it or its provider is 503, never a 402. */
  async invoice(offer: PricedOffer, request: MintRequest): Promise<Invoiced> {
    const { tokenExpires } = request
    const hashed = hashedBy(request.x402)
    const isKeyed = request.keyed === true || request.uncapped === true
    const expiry = tokenExpires === undefined ? payableSeconds(offer) : offer.invoiceExpirySeconds
    let invoiceRequest: InvoiceRequest | null = null
    try {
      const first = await this.#options.payee(offer)
      invoiceRequest = isKeyed ? null : await this.#options.reputation.request(request.clientKey, offer.place)
      const priority = invoiceRequest?.client ?? 'keyed'
      return await byFirst(first, async payee => {
        const isUnhashed = (this.#unhashed.get(accountOf(payee, offer)) ?? 0) > this.#options.clock.now()
        const wanted = isUnhashed ? undefined : hashed
        const ready = isKeyed ? null : this.#ready(payee, offer, wanted)
        if (ready !== null) return { payee, charge: ready.charge, invoice: ready.invoice }
        return { payee, ...(await this.#made(payee, offer, expiry, priority, wanted)) }
      })
    } catch (error) {
      invoiceRequest?.refused()
      throw error instanceof UnusableInvoice ? error : this.#providerFault(offer, error)
    }
  }

  /**
   * Takes a stocked invoice of this price and description; null on a miss. None while the circuit breaker is open,
   * since payability is unknown.
   */
  #ready(payee: ChallengePayee, offer: PricedOffer, hashed: Hashed): StockedInvoice | null {
    const { ahead = null } = payee
    if (ahead === null || !FIXED.has(offer.source)) return null
    const payable = payableSeconds(offer)
    const { amountSats, tokenValiditySeconds, description } = offer
    // It has twice the life, and must not outlive the token.
    if (2 * payable > tokenValiditySeconds || ahead.isLeftAlone()) return null
    return this.#stock.take({
      key: `${ahead.account} ${amountSats} ${payable} ${tokenValiditySeconds} ${hashed?.hash ?? description}`,
      maker: ahead.account,
      most: ahead.most,
      keeps: payable * 1000,
      make: () => this.#makeAhead(payee, offer, payable, hashed)
    })
  }

  /**
   * Makes an invoice with twice the usual life. It is handed out in its first half, so that a 402 promises as much as
   * without a stock.
   */
  async #makeAhead(
    payee: ChallengePayee,
    offer: PricedOffer,
    payable: number,
    hashed: Hashed
  ): Promise<StockedInvoice & Perishable> {
    const requestedAt = this.#options.clock.now()
    const { charge, invoice } = await this.#made(payee, offer, 2 * payable, 'ahead', hashed)
    const end = endOf(invoice, charge)
    const outlivesToken = end - this.#options.clock.now() > offer.tokenValiditySeconds * 1000
    const handOutUntil = outlivesToken
      ? requestedAt
      : Math.min(requestedAt + (end - requestedAt) / 2, end - payable * 1000)
    return { charge, invoice, handOutUntil }
  }

  /** A provider that refuses or drops a hash gets the description for some time. */
  async #made(
    payee: ChallengePayee,
    offer: PricedOffer,
    expirySeconds: number,
    priority: CallPriority,
    hashed: Hashed
  ): Promise<StockedInvoice> {
    const { amountSats, tokenPath, fiat } = offer
    const description = shortDescription(offer.description, roomBeside(tokenPath, fiat))
    const plain = { amountSats, description, expirySeconds, priority }
    if (hashed === undefined) return this.#checked(payee, offer, await this.#inTime(payee.createInvoice(plain)))
    let created: StockedInvoice
    try {
      created = this.#checked(payee, offer, await this.#inTime(payee.createInvoice({ ...plain, hashed })))
      if (created.invoice.descriptionHash === hashed.hash) return created
    } catch (error) {
      if (!(error instanceof ProviderRefused && error.reason === 'request')) throw error
      created = this.#checked(payee, offer, await this.#inTime(payee.createInvoice(plain)))
    }
    this.#unhashed.set(accountOf(payee, offer), this.#options.clock.now() + REFUSED_MS)
    return created
  }

  /** @throws Unavailable, and logs the fault */
  #checked(payee: ChallengePayee, offer: PricedOffer, charge: MadeCharge): StockedInvoice {
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
      return { charge, invoice }
    } catch (error) {
      this.#options.log.error(
        { place: offer.place, provider: payee.kind, err: error },
        'A provider made an invoice that must not be sent'
      )
      throw new UnusableInvoice(offer, error)
    }
  }

  async #inTime<T>(pending: Promise<T>): Promise<T> {
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
      return await Promise.race([pending, late.promise])
    } finally {
      timer.cancel()
    }
  }

  #providerFault(offer: Offer, error: unknown): Error {
    if (error instanceof ConfigurationMissing) return error
    if (error instanceof ProviderKeyRequired) {
      // Payers see no account details; the merchant's own calls do.
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

type Hashed = HashedDescription | undefined

function accountOf({ slot, kind }: ChallengePayee, { merchantId }: Offer): string {
  return `${slot} ${kind} ${merchantId ?? ''}`
}

function hashedBy(binding: MintRequest['x402']): Hashed {
  return binding === undefined || binding === null
    ? undefined
    : { text: binding.description, hash: binding.requestHash }
}

/** Payable seconds: never beyond the token, or a late payment would buy nothing. */
export function payableSeconds(offer: Offer): number {
  return Math.min(offer.invoiceExpirySeconds, offer.tokenValiditySeconds)
}

/** The earlier expiry of invoice and provider. */
export function endOf(invoice: Pick<Invoice, 'expiresAt'>, charge: Pick<MadeCharge, 'expiresAt'>): number {
  return Math.min(invoice.expiresAt * 1000, charge.expiresAt)
}

// Maximum, with its packet.
const PRICE_CAVEAT_BYTES = 40

/** Bytes left for a description besides a path and a fiat price. */
function roomBeside(tokenPath: string, fiat: string | null): number {
  return descriptionRoom(Buffer.byteLength(tokenPath) + (fiat === null ? 0 : PRICE_CAVEAT_BYTES))
}

function waitOf(error: unknown): number {
  return error instanceof Unavailable ? Number(error.headers[1] ?? 5) : 5
}
