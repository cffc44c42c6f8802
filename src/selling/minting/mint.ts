import { MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Invoice } from '../../lightning/codecs/bolt11.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import { PRICE_FEED_UNAVAILABLE, type Prices, fiatOf } from '../../lightning/money/prices.ts'
import { paymentChallenge, paymentNetwork } from '../../lightning/payment-scheme/payment-challenge.ts'
import { sessionChallenge } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Database } from '../../platform/database/database.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { defineError } from '../../platform/system/errors.ts'
import type { Random } from '../../platform/system/ids.ts'
import type { NewChallenge, SentChallenge } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'
import { boundQuery, type Offer } from '../offers/offer.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import { endOf, type Invoicing, type PricedOffer } from './invoicing.ts'
import type { MintRequest } from './minting.ts'
import { macaroonOf, wordingOf } from './wording.ts'

export const CHALLENGES_UNAVAILABLE = defineError('BG_CHALLENGES_UNAVAILABLE', {
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

/** `keys` and settings are read on each call, since a reload changes them. */
export interface MintOptions {
  readonly store: ChallengeStore
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly rates: Prices
  keys(): TokenKeyRing
}

export class Mint {
  readonly #options: MintOptions
  readonly #invoicing: Invoicing

  constructor(options: MintOptions, invoicing: Invoicing) {
    this.#options = options
    this.#invoicing = invoicing
  }

  /** `invoiced` gets the payment hash before the row is written. */
  async make(
    offer: Offer,
    request: MintRequest,
    binding: string,
    settings: ChallengeSettings,
    invoiced: (paymentHash: string) => void = () => {}
  ): Promise<SentChallenge> {
    const priced = await this.#inSatoshis(offer)
    const { amountSats } = priced
    const { payee, charge, invoice } = await this.#invoicing.invoice(priced, request)
    invoiced(invoice.paymentHash)
    const { clock, random } = this.#options
    const keys = this.#options.keys()
    const payment = this.#payment(priced, request, invoice, keys, settings)
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
    // Older gateways hand out rows of idempotency keys and read only these columns. A deposit's `request` is not
    // derivable from its row.
    const isKept = row.idempotencyKey !== null || offer.deposit !== undefined
    const wording = isKept ? { macaroon, request: payment?.request ?? null } : remade
    const challenge: NewChallenge = { ...row, payment, wording }
    if (request.record !== undefined) await request.record(challenge)
    else await this.#insert(challenge, offer)
    return {
      ...challenge,
      payment,
      macaroon,
      x402: invoice.descriptionHash === request.x402?.requestHash ? request.x402 : null,
      state: 'unspent',
      scheme: null,
      paidAt: null,
      settledAt: null,
      leaseId: null,
      leaseUntil: null,
      leaseIsFinal: false
    }
  }

  /**
   * Converts the price to satoshis at the current rate.
   * @throws Unavailable without a rate
   */
  async #inSatoshis(offer: Offer): Promise<PricedOffer> {
    const { amountSats, fiat, errorMembers, mostSats = MAX_PRICE_SATS } = offer
    if (fiat === null) {
      if (amountSats === null) throw new TypeError('an offer has a price in satoshis or in fiat')
      // Its price was checked above.
      return offer as PricedOffer
    }
    const { currency, amount } = fiatOf(fiat)
    const satoshis = await this.#options.rates.satoshis(currency, amount)
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

  async #insert(challenge: NewChallenge, offer: Offer): Promise<void> {
    const { store, database } = this.#options
    try {
      await store.insert(database.sql, challenge)
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
    { digest, inOwnField }: MintRequest,
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
        ? paymentChallenge({ realm, invoice, amountSats, expiresAt, digest, inOwnField }, key)
        : sessionChallenge({ ...deposit, realm, invoice, expiresAt, inOwnField }, key)
    return { id, realm, request, expires }
  }
}

export function rootKeyOf(keys: TokenKeyRing, tokenId: Uint8Array): Uint8Array {
  const rootKey = keys.rootKey(tokenId)
  if (rootKey === null) throw new Error('The key ring does not know the generation of its own token id')
  return rootKey
}
