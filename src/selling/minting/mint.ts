import { hash } from 'node:crypto'
import { MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import { URI_TOO_LONG } from '../../engine/operations/error-kinds.ts'
import { LongError, RateLimited, Unavailable } from '../../engine/operations/errors.ts'
import type { Invoice } from '../../lightning/codecs/bolt11.ts'
import { paymentChallenge, paymentNetwork } from '../../lightning/payment-scheme/payment-challenge.ts'
import { sessionChallenge } from '../../lightning/payment-scheme/session-challenge.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Sql } from '../../platform/database/database.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { ChallengeCounters } from '../challenges/counters.ts'
import { endOf, type Invoicing, type PricedOffer } from './invoicing.ts'
import type { Prices } from '../../lightning/money/prices.ts'
import { fiatOf } from '../prices/fiat.ts'
import { Makings, type Held, type Making } from './makings.ts'
import { boundQuery, HOLDER_MARK, type Offer, PROXY_UNAVAILABLE } from '../offers/offer.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { ChallengeSettings } from '../challenges/settings.ts'
import { isSoldAlike, leastPayable, MIN_PAYABLE_SECONDS, sharedWith } from './shared-invoice.ts'
import type {
  Challenge,
  ChallengeStore,
  NewChallenge,
  Outstanding,
  OutstandingQuery,
  SentChallenge
} from '../challenges/store.ts'
import { macaroonOf, sentAgain, wordingOf } from './wording.ts'
import { defineError } from '../../platform/system/errors.ts'
import { PRICE_FEED_UNAVAILABLE } from '../../lightning/money/prices.ts'

const CHALLENGES_UNAVAILABLE = defineError('BG_CHALLENGES_UNAVAILABLE', {
  status: 503,
  title: 'Payment challenges unavailable',
  cause:
    "No payment challenge can be created: signing failed, or the Payment scheme does not support the provider's network.",
  fix: 'Retry after `Retry-After`; the operator checks the log.'
})

const PRICE_OVER_LIMIT = defineError('BG_PRICE_OVER_LIMIT', {
  status: 503,
  title: 'Price over its limit',
  cause:
    "A price in fiat converts to more satoshis than the proxy's `priceSats` or `defaultPriceSats` allows. Nothing was charged.",
  fix: 'The merchant raises that limit or lowers the price.'
})

/** What of a request its challenge is bound to, besides the offer. */
export interface MintRequest {
  /** Whose open invoices are counted: the client's network (decision 32). */
  readonly clientKey: string
  /** `sha-256=:…:` of the body, or null. */
  readonly digest: string | null
  readonly idempotencyKey?: string | null
  /** Who alone it may be handed out to again, as a random text; anybody of the client's network where it is left out. */
  readonly holder?: string
  /** Above the client's cap, an unpaid invoice of the same price may be handed out for this request too (decision 175). */
  readonly shares?: boolean
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
  readonly challenge: SentChallenge
  /** It had been made for an earlier request and was handed out again (decision 122). */
  readonly again: boolean
}

/** What minting is done with. `keys` and `settings` are asked each time, since a reload changes them. */
export interface MintParts {
  readonly store: ChallengeStore
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly counters: ChallengeCounters
  readonly invoicing: Pick<Invoicing, 'invoice'>
  /** What fiat is worth. */
  readonly prices: Prices
  readonly revocations: Revocations
  keys(): TokenKeyRing
  settings(): ChallengeSettings
}

/** Characters of the longest path that is sold: with it both challenge lines stay under 8 KB together. */
export const MAX_PRICED_PATH = 1024

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
    if (closed !== null) throw new Unavailable(PROXY_UNAVAILABLE, closed, 60, errorMembers)
    if (offer.tokenPath.length > MAX_PRICED_PATH) {
      throw new LongError(
        URI_TOO_LONG,
        'URI too long',
        `The path has ${offer.tokenPath.length} characters; at most ${MAX_PRICED_PATH} can be paid for.`
      )
    }
    const settings = this.#parts.settings()
    const binding = bindingOf(offer, request.digest, request.holder)
    if (request.uncapped === true) return this.#new(await this.#make(offer, request, binding, settings))
    const client = `${offer.place} ${request.clientKey}`
    const counting = this.#makings.counting(client)
    let outstanding: Outstanding
    let held: Held
    try {
      const now = this.#parts.clock.now()
      const query: OutstandingQuery = {
        clientKey: request.clientKey,
        place: offer.place,
        binding,
        requestLimit: settings.maxPerClient,
        placeLimit: settings.maxPerPlace,
        now,
        since: this.#makings.since(client, now),
        payableUntil: now + leastPayable(offer)
      }
      outstanding = await this.#orUnavailable(offer, () => this.#parts.store.outstanding(query))
      held = this.#makings.held(client, outstanding, counting, binding)
    } finally {
      this.#makings.counted(client, counting)
    }
    if (held.ofRequest >= settings.maxPerClient) {
      const { newest } = outstanding
      const sent = newest !== null && this.#stillGood(newest, settings) ? sentAgain(newest, this.#parts.keys()) : null
      if (sent !== null) return this.#again(sent)
      // Those may have been paid for by now, which only their rows can tell.
      if (counting.meanwhile.some(made => made.binding === binding)) return this.mint(offer, request)
      const last = this.#makings.running(client).find(making => making.binding === binding)
      if (last !== undefined) return this.#again(await last.made)
    }
    if (held.inPlace >= settings.maxPerPlace) {
      const shared = request.shares === true ? await this.#shared(offer, request.clientKey, client, settings) : null
      if (shared !== null) return this.#again(shared)
      throw new RateLimited(
        outstanding.firstExpiry === null
          ? MIN_PAYABLE_SECONDS
          : (outstanding.firstExpiry - this.#parts.clock.now()) / 1000
      )
    }

    const made = this.#make(offer, request, binding, settings, paymentHash => {
      making.paymentHash = paymentHash
    })
    const making: Making = { made, binding, begunAt: this.#parts.clock.now(), paymentHash: null }
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
   * Whether what was made before may still be paid for, if its keys are live: nobody has revoked it, and it has a
   * challenge for every scheme.
   */
  #stillGood(challenge: Challenge, settings: ChallengeSettings): boolean {
    const { paymentHash, proxyId, merchantId, createdAt } = challenge
    if (this.#parts.revocations.has(paymentHash, proxyId, merchantId, createdAt)) return false
    return challenge.payment !== null || !settings.schemes.includes('payment') || challenge.network === 'testnet'
  }

  #again(challenge: SentChallenge): Minted {
    this.#parts.counters.challenge(challenge.source, true)
    return { challenge, again: true }
  }

  #new(challenge: SentChallenge): Minted {
    this.#parts.counters.challenge(challenge.source, false)
    return { challenge, again: false }
  }

  /** A macaroon for this request on an unpaid invoice of the client's at the same price; null where there is none. */
  async #shared(
    offer: Offer,
    clientKey: string,
    client: string,
    settings: ChallengeSettings
  ): Promise<SentChallenge | null> {
    if (!settings.schemes.includes('l402')) return null
    const { clock, store, random } = this.#parts
    const { place, source, service, merchantId, amountSats, fiat: price, asked } = offer
    const payableUntil = clock.now() + leastPayable(offer)
    const query = { clientKey, place, source, service, merchantId, amountSats, price, asked, payableUntil }
    let newest = await this.#orUnavailable(offer, () => store.shareable(query))
    // In a burst the first invoices are still being created and have no row yet.
    for (const { made, binding } of newest === null ? this.#makings.running(client) : []) {
      if (binding.startsWith(HOLDER_MARK)) continue
      // The request that creates it reports the error.
      const challenge = await made.catch(() => null)
      if (challenge !== null && isSoldAlike(challenge, offer)) newest = challenge
      if (newest !== null) break
    }
    if (newest === null || !this.#stillGood(newest, settings)) return null
    const keys = this.#parts.keys()
    const tokenId = keys.newTokenId(random(28))
    return sharedWith(newest, offer, {
      location: settings.macaroonLocation,
      tokenId,
      rootKey: rootKeyOf(keys, tokenId)
    })
  }

  /**
   * Asks the store about a client's open invoices. This comes before the provider is asked, so that a database that is
   * away costs no invoice.
   */
  async #orUnavailable<T>(offer: Offer, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      throw new Unavailable(
        CHALLENGES_UNAVAILABLE,
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
  ): Promise<SentChallenge> {
    const priced = await this.#inSatoshis(offer)
    const { amountSats } = priced
    const { payee, charge, invoice } = await this.#parts.invoicing.invoice(priced, request)
    invoiced(invoice.paymentHash)
    const { clock, random, store, database } = this.#parts
    const keys = this.#parts.keys()
    const payment = this.#payment(priced, request.digest, invoice, keys, settings)
    if (payment === null && !settings.schemes.includes('l402')) {
      throw new Unavailable(
        CHALLENGES_UNAVAILABLE,
        'The Payment scheme cannot be offered on the network of the payment provider.',
        60,
        offer.errorMembers
      )
    }
    const createdAt = clock.now()
    const tokenId = keys.newTokenId(random(28))
    const rootKey = rootKeyOf(keys, tokenId)
    const tokenExpires = request.tokenExpires ?? Math.floor(createdAt / 1000) + offer.tokenValiditySeconds
    const row = {
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
      amountSats,
      price: offer.fiat,
      asked: offer.asked,
      digest: request.digest,
      binding,
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
      expiresAt: endOf(invoice, charge),
      tokenExpiresAt: tokenExpires * 1000
    }
    const remade = wordingOf(offer, settings.macaroonLocation)
    const macaroon = macaroonOf(row, remade, rootKey)
    // Gateways of the version before hand out the rows of idempotency keys, and read what is written here alone.
    // Of a deposit's request the row does not have all.
    const isKept = row.idempotencyKey !== null || offer.deposit !== undefined
    const wording = isKept ? { macaroon, request: payment?.request ?? null } : remade
    const challenge: NewChallenge = { ...row, payment, wording }
    if (request.record !== undefined) await request.record(challenge)
    else await this.#insert(store, database.sql, challenge, offer)
    return {
      ...challenge,
      payment,
      macaroon,
      state: 'unspent',
      scheme: null,
      paidAt: null,
      settledAt: null,
      leaseId: null,
      leaseUntil: null,
      leaseIsFinal: false
    }
  }

  /** The offer with its price in satoshis, at the rate of this moment. @throws Unavailable when there is no rate */
  async #inSatoshis(offer: Offer): Promise<PricedOffer> {
    const { amountSats, fiat, errorMembers, mostSats = MAX_PRICE_SATS } = offer
    if (fiat === null) {
      if (amountSats === null) throw new TypeError('an offer has a price in satoshis or in fiat')
      // Its price has just been seen to be there.
      return offer as PricedOffer
    }
    const { currency, amount } = fiatOf(fiat)
    const satoshis = await this.#parts.prices.satoshis(currency, amount)
    if (satoshis <= mostSats) return { ...offer, amountSats: satoshis }
    if (satoshis <= MAX_PRICE_SATS)
      throw new Unavailable(
        PRICE_OVER_LIMIT,
        'At the present rate this would cost more than its seller allows.',
        60,
        errorMembers
      )
    throw new Unavailable(
      PRICE_FEED_UNAVAILABLE,
      'What this currency is worth in bitcoin is not known at the moment.',
      60,
      errorMembers,
      new Error(`${fiat} came to ${satoshis} satoshis`)
    )
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
    { amountSats, deposit }: PricedOffer,
    digest: string | null,
    invoice: Invoice,
    keys: TokenKeyRing,
    settings: ChallengeSettings
  ): SentChallenge['payment'] {
    if (paymentNetwork(invoice.network) === null || !settings.schemes.includes('payment')) return null
    const { realm } = settings
    const [{ key }] = keys.paymentIdKeys
    const { expiresAt } = invoice
    const { id, request, expires } =
      deposit === undefined
        ? paymentChallenge({ realm, invoice, amountSats, expiresAt, digest }, key)
        : sessionChallenge({ ...deposit, realm, invoice, expiresAt }, key)
    return { id, realm, request, expires }
  }
}

function rootKeyOf(keys: TokenKeyRing, tokenId: Uint8Array): Uint8Array {
  const rootKey = keys.rootKey(tokenId)
  if (rootKey === null) throw new Error('The key ring does not know the generation of its own token id')
  return rootKey
}

// Bits enough for one client's open invoices.
const BINDING_CHARS = 22

/** What requests that may share an invoice have in common (decision 122), as one short text. */
function bindingOf(offer: Offer, digest: string | null, holder: string | undefined): string {
  const whole = hash(
    'sha256',
    JSON.stringify([
      offer.place,
      offer.service,
      offer.tokenPath,
      offer.method,
      offer.path,
      offer.query,
      offer.amountSats,
      digest,
      // Only where there are any, so that what is open at an update is handed out again.
      ...(offer.fiat === null && offer.asked === null ? [] : [offer.fiat, offer.asked]),
      ...(holder === undefined ? [] : ['holder', holder]),
      ...(offer.deposit === undefined ? [] : [offer.deposit])
    ]),
    'base64url'
  )
  return holder === undefined ? whole.slice(0, BINDING_CHARS) : HOLDER_MARK + whole.slice(0, BINDING_CHARS - 1)
}
