import { hash } from 'node:crypto'
import { ConfigurationMissing, LongError, RateLimited, Unavailable } from '../gateway/errors.ts'
import { decodeInvoice, shortDescription, type Invoice } from '../lightning/bolt11.ts'
import { issueCaveats } from '../lightning/caveats.ts'
import { descriptionRoom } from '../lightning/challenge-size.ts'
import { encodeIdentifier, macaroonToBase64, mintMacaroon } from '../lightning/macaroon.ts'
import { paymentChallenge, paymentNetwork } from '../lightning/payment-challenge.ts'
import type { TokenKeyRing } from '../lightning/root-key.ts'
import type { Clock } from '../system/clock.ts'
import type { Database, Sql } from '../database/database.ts'
import type { Random } from '../system/ids.ts'
import type { Log } from '../telemetry/log.ts'
import { ProviderKeyRequired } from '../providers/errors.ts'
import type { Charge, ChargeRequest } from '../providers/provider.ts'
import type { ChallengeCounters } from './counters.ts'
import { Makings, type Held, type Making } from './makings.ts'
import { boundQuery, type Offer } from './offer.ts'
import type { Revocations } from './revocations.ts'
import type { ChallengeSettings } from './settings.ts'
import type { Challenge, ChallengeStore, NewChallenge, Outstanding, StoredPaymentChallenge } from './store.ts'
import type { Strangers, Wish } from './strangers.ts'

/** Who is paid for an offer: one provider account. */
export interface ChallengePayee {
  readonly slot: string
  readonly kind: string
  createInvoice(
    request: ChargeRequest
  ): Promise<Pick<Charge, 'chargeId' | 'invoice' | 'paymentHash' | 'expiresAt' | 'network' | 'isSignedHere'>>
}

/** Finds who is paid for an offer. Throws `ProviderKeyRequired` or `ConfigurationMissing` when nobody can be. */
export type FindPayee = (offer: Offer) => ChallengePayee | Promise<ChallengePayee>

/** What of a request its challenge is bound to, besides the offer. */
export interface MintRequest {
  /** Whose open invoices are counted: the client's network (decision 32). */
  readonly clientKey: string
  /** `sha-256=:…:` of the body, or null. */
  readonly digest: string | null
  readonly idempotencyKey?: string | null
  /** The caller counts by itself (plan caps): nothing is handed out again and no cap on open invoices stops it. */
  readonly uncapped?: boolean
  /**
   * Asked for with a key, or by a job: it comes before strangers where a provider's budget is short, as `uncapped`
   * does.
   */
  readonly keyed?: boolean
  /**
   * Writes the row in the place of a plain INSERT, for a caller that must write something else with it, in one
   * transaction. The challenge is sent only when it has resolved; what it throws reaches the caller.
   */
  readonly record?: (challenge: NewChallenge) => Promise<void>
  /** Unix seconds at which the macaroon ends, where it is not issuance and validity (decision 136). */
  readonly tokenExpires?: number
}

/** A challenge that may be sent. */
export interface Minted {
  readonly challenge: Challenge
  /** It had been made for an earlier request and was handed out again (decision 122). */
  readonly again: boolean
}

/** What minting is done with. `keys` and `settings` are asked each time, since a reload changes them. */
export interface MintParts {
  readonly store: ChallengeStore
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly counters: ChallengeCounters
  readonly strangers: Strangers
  readonly payee: FindPayee
  readonly revocations: Revocations
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}

/** Characters of the longest path that is sold: with it both challenge lines stay under 8 KB together. */
export const MAX_PRICED_PATH = 1024

// What is handed out again can be paid for at least this long (decision 122), or half its life where that is shorter.
const MIN_PAYABLE_SECONDS = 120

// Providers end their calls by themselves; one that does not must not hold its payers for ever.
const PROVIDER_MS = 20_000

/**
 * Makes challenges: one invoice for both schemes, checked against the price, and written before it is sent. Within one
 * process a client gets every challenge below its caps, each with an invoice of its own, and none above; of several
 * processes each may overshoot by what the others are making at that moment. What others hold open is never asked
 * about: no cap of one client is filled by another (decision 175).
 */
export class Mint {
  readonly #parts: MintParts
  // Challenges that are being made right now, which no count of rows can see yet, by client and place.
  readonly #makings = new Makings()

  constructor(parts: MintParts) {
    this.#parts = parts
  }

  /**
   * A challenge for the offer: a new one, or the newest of this client's when it holds too many open ones for the same
   * request.
   * @throws Unavailable 503 with Retry-After: the provider or the database is away, or the offer is closed
   * @throws RateLimited 429: this client holds too many open invoices in this place
   * @throws LongError 414: the path is longer than a challenge can carry
   */
  async mint(offer: Offer, request: MintRequest): Promise<Minted> {
    const { closed, errorMembers } = offer
    if (closed !== null) throw new Unavailable(closed.error, closed.message, 60, errorMembers)
    if (offer.tokenPath.length > MAX_PRICED_PATH) {
      throw new LongError(
        414,
        'URI too long',
        `The path has ${offer.tokenPath.length} characters; at most ${MAX_PRICED_PATH} can be paid for.`
      )
    }
    const settings = this.#parts.settings()
    const binding = bindingOf(offer, request.digest)
    if (request.uncapped === true) return this.#new(await this.#make(offer, request, binding, settings))
    const client = `${offer.place} ${request.clientKey}`
    const counting = this.#makings.counting(client)
    let outstanding: Outstanding
    let held: Held
    try {
      outstanding = await this.#outstanding(offer, request.clientKey, binding, settings)
      held = this.#makings.held(client, outstanding.open, counting, binding)
    } finally {
      this.#makings.counted(client, counting)
    }
    if (held.ofRequest >= settings.maxPerClient) {
      const { newest } = outstanding
      if (newest !== null && this.#stillGood(newest, settings)) return this.#again(newest)
      // Those may have been paid for by now, which only their rows can tell.
      if (counting.meanwhile.some(made => made.binding === binding)) return this.mint(offer, request)
      const last = this.#makings.last(client, binding)
      if (last !== null) return this.#again(await last.made)
    }
    if (held.inPlace >= settings.maxPerPlace) {
      throw new RateLimited(
        outstanding.firstExpiry === null
          ? MIN_PAYABLE_SECONDS
          : (outstanding.firstExpiry - this.#parts.clock.now()) / 1000
      )
    }

    const made = this.#make(offer, request, binding, settings, paymentHash => {
      making.paymentHash = paymentHash
    })
    const making: Making = { made, binding, paymentHash: null }
    this.#makings.begin(client, making)
    let done = false
    try {
      const challenge = await made
      done = true
      return this.#new(challenge)
    } finally {
      this.#makings.end(client, making, done)
    }
  }

  /**
   * Whether what was made before can still be paid for: its keys are live, nobody has revoked it, and it has a
   * challenge for every scheme.
   */
  #stillGood(challenge: Challenge, settings: ChallengeSettings): boolean {
    const { paymentHash, proxyId, merchantId, createdAt, tokenId } = challenge
    if (this.#parts.keys().rootKey(Buffer.from(tokenId, 'hex')) === null) return false
    if (this.#parts.revocations.has(paymentHash, proxyId, merchantId, createdAt)) return false
    return challenge.payment !== null || !settings.schemes.includes('payment') || challenge.network === 'testnet'
  }

  #again(challenge: Challenge): Minted {
    this.#parts.counters.challenge(challenge.source, true)
    return { challenge, again: true }
  }

  #new(challenge: Challenge): Minted {
    this.#parts.counters.challenge(challenge.source, false)
    return { challenge, again: false }
  }

  /**
   * Looks for this client's open invoices. This comes before the provider is asked, so that a database that is away
   * costs no invoice.
   */
  async #outstanding(offer: Offer, client: string, binding: string, settings: ChallengeSettings): Promise<Outstanding> {
    const now = this.#parts.clock.now()
    const payable = Math.min(MIN_PAYABLE_SECONDS, payableSeconds(offer) / 2) * 1000
    try {
      return await this.#parts.store.outstanding({
        clientKey: client,
        place: offer.place,
        binding,
        requestLimit: settings.maxPerClient,
        placeLimit: settings.maxPerPlace,
        now,
        payableUntil: now + payable
      })
    } catch (error) {
      throw new Unavailable(
        'Payment challenges unavailable',
        'No payment challenge can be made at the moment.',
        5,
        offer.errorMembers,
        error
      )
    }
  }

  /** `invoiced` is told the payment hash before the row is written. */
  async #make(
    offer: Offer,
    request: MintRequest,
    binding: string,
    settings: ChallengeSettings,
    invoiced: (paymentHash: string) => void = () => {}
  ): Promise<Challenge> {
    const { payee, charge, invoice } = await this.#invoice(offer, request)
    invoiced(invoice.paymentHash)
    const { clock, random, store, database } = this.#parts
    const keys = this.#parts.keys()
    const payment = this.#payment(offer, request.digest, invoice, keys, settings)
    if (payment === null && !settings.schemes.includes('l402')) {
      throw new Unavailable(
        'Payment challenges unavailable',
        'The Payment scheme cannot be offered on the network of the payment provider.',
        60,
        offer.errorMembers
      )
    }
    const createdAt = clock.now()
    const tokenId = keys.newTokenId(random(28))
    const rootKey = keys.rootKey(tokenId)
    if (rootKey === null) throw new Error('The key ring does not know the generation of its own token id')
    const tokenExpires = request.tokenExpires ?? Math.floor(createdAt / 1000) + offer.tokenValiditySeconds
    const caveats = issueCaveats({
      service: offer.service,
      path: offer.tokenPath,
      wildcard: offer.wildcard,
      merchantId: offer.merchantId,
      chargeId: charge.chargeId,
      amountSats: offer.amountSats,
      expires: tokenExpires
    })
    const challenge: NewChallenge = {
      paymentHash: invoice.paymentHash,
      source: offer.source,
      service: offer.service,
      merchantId: offer.merchantId,
      proxyId: offer.proxyId,
      place: offer.place,
      resource: offer.tokenPath,
      path: offer.path,
      method: offer.method,
      query: boundQuery(offer.query),
      amountSats: offer.amountSats,
      digest: request.digest,
      binding,
      payment,
      macaroon: macaroonToBase64(
        mintMacaroon(rootKey, settings.macaroonLocation, encodeIdentifier(invoice.paymentHash, tokenId), caveats)
      ),
      tokenId: Buffer.from(tokenId).toString('hex'),
      invoice: invoice.text,
      network: invoice.network,
      chargeId: charge.chargeId,
      providerSlot: payee.slot,
      providerKind: payee.kind,
      clientKey: request.clientKey,
      idempotencyKey: request.idempotencyKey ?? null,
      description: offer.description,
      createdAt,
      expiresAt: Math.min(invoice.expiresAt * 1000, charge.expiresAt),
      tokenExpiresAt: tokenExpires * 1000
    }
    if (request.record !== undefined) await request.record(challenge)
    else await this.#insert(store, database.sql, challenge, offer)
    return {
      ...challenge,
      state: 'unspent',
      scheme: null,
      paidAt: null,
      leaseId: null,
      leaseUntil: null,
      leaseIsFinal: false
    }
  }

  async #insert(store: ChallengeStore, sql: Sql, challenge: NewChallenge, offer: Offer): Promise<void> {
    try {
      await store.insert(sql, challenge)
    } catch (error) {
      throw new Unavailable(
        'Challenge not recorded',
        'The payment challenge could not be recorded, so none was issued.',
        5,
        offer.errorMembers,
        error
      )
    }
  }

  #payment(
    offer: Offer,
    digest: string | null,
    invoice: Invoice,
    keys: TokenKeyRing,
    settings: ChallengeSettings
  ): StoredPaymentChallenge | null {
    if (paymentNetwork(invoice.network) === null || !settings.schemes.includes('payment')) return null
    const { id, request, expires } = paymentChallenge(
      { realm: settings.realm, invoice, amountSats: offer.amountSats, expiresAt: invoice.expiresAt, digest },
      keys.paymentIdKeys[0].key
    )
    return { id, realm: settings.realm, request, expires }
  }

  /** One invoice from the payee. Whatever is wrong with it or its provider is 503, never a 402 (decision 17). */
  async #invoice(
    offer: Offer,
    request: MintRequest
  ): Promise<{
    payee: ChallengePayee
    charge: Awaited<ReturnType<ChallengePayee['createInvoice']>>
    invoice: Invoice
  }> {
    const { tokenExpires } = request
    const isKeyed = request.keyed === true || request.uncapped === true
    let payee: ChallengePayee
    let charge: Awaited<ReturnType<ChallengePayee['createInvoice']>>
    let wish: Wish | null = null
    try {
      payee = await this.#parts.payee(offer)
      wish = isKeyed ? null : await this.#parts.strangers.wish(request.clientKey, offer.place)
      charge = await this.#inTime(
        payee.createInvoice({
          amountSats: offer.amountSats,
          description: shortDescription(offer.description, descriptionRoom(Buffer.byteLength(offer.tokenPath))),
          expirySeconds: tokenExpires === undefined ? payableSeconds(offer) : offer.invoiceExpirySeconds,
          ...(wish === null ? {} : { standing: wish.stranger })
        })
      )
    } catch (error) {
      wish?.refused()
      throw this.#providerFault(offer, error)
    }
    try {
      // The signature shows that it is no truncated text.
      const invoice = decodeInvoice(charge.invoice, { signature: charge.isSignedHere !== true })
      if (invoice.amountMsat !== BigInt(offer.amountSats) * 1000n)
        throw new Error(
          `The invoice asks for ${invoice.amountMsat ?? 'any'} millisatoshis, the price is ${offer.amountSats} satoshis`
        )
      if (invoice.paymentHash !== charge.paymentHash)
        throw new Error('The invoice has another payment hash than the provider said')
      if (invoice.network !== charge.network)
        throw new Error(`The invoice is for ${invoice.network}, the provider said ${charge.network}`)
      if (invoice.expiresAt * 1000 <= this.#parts.clock.now()) throw new Error('The invoice has expired already')
      return { payee, charge, invoice }
    } catch (error) {
      this.#parts.log.error(
        { place: offer.place, provider: payee.kind, err: error },
        'A provider made an invoice that must not be sent'
      )
      throw new Unavailable(
        'Payment provider unavailable',
        'The payment provider gave no usable invoice.',
        5,
        offer.errorMembers,
        error
      )
    }
  }

  /** What comes later is an invoice that nobody was sent. */
  async #inTime<T>(asked: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    const timer = this.#parts.clock.after(PROVIDER_MS, () => {
      late.reject(new Error(`The provider gave no invoice within ${PROVIDER_MS} ms`))
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
      // Payers see no account facts (decision 93); the merchant's own calls are told what is missing.
      if (offer.source !== 'proxy') return error
      return new Unavailable(
        'Proxy unavailable',
        'This proxy sells nothing at the moment.',
        60,
        offer.errorMembers,
        error
      )
    }
    const waits = error instanceof Unavailable ? Number(error.headers[1] ?? 5) : 5
    return new Unavailable(
      'Payment provider unavailable',
      'No invoice can be made at the moment.',
      waits,
      offer.errorMembers,
      error
    )
  }
}

/** Seconds for which an invoice may be paid: never beyond its token, or a late payer would have paid for nothing. */
function payableSeconds(offer: Offer): number {
  return Math.min(offer.invoiceExpirySeconds, offer.tokenValiditySeconds)
}

/** What requests that may share an invoice have in common (decision 122), as one short text. */
function bindingOf(offer: Offer, digest: string | null): string {
  return hash(
    'sha256',
    JSON.stringify([
      offer.place,
      offer.service,
      offer.tokenPath,
      offer.method,
      offer.path,
      offer.query,
      offer.amountSats,
      digest
    ]),
    'base64url'
  )
}
