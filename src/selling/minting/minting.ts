import { hash } from 'node:crypto'
import { clientNetwork } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import { URI_TOO_LONG } from '../../engine/operations/error-kinds.ts'
import { LongError, RateLimited, Unavailable } from '../../engine/operations/errors.ts'
import { DigestOfPieces } from '../../lightning/payment-scheme/content-digest.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { Settlements } from '../holding/settlements.ts'
import {
  HOLDER_MARK,
  type Challenge,
  type NewChallenge,
  type Outstanding,
  type OutstandingQuery,
  type SentChallenge
} from '../holding/challenge.ts'
import { hasBoundBody, PROXY_UNAVAILABLE, type Offer } from '../offers/offer.ts'
import type { Offers } from '../offers/offers.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Revocations } from '../verifying/revocations.ts'
import { DepositChallenges } from './deposit-challenges.ts'
import { Invoicing, type InvoicingOptions } from './invoicing.ts'
import { Makings, type Held, type Making } from './makings.ts'
import { CHALLENGES_UNAVAILABLE, Mint, rootKeyOf, type MintOptions } from './mint.ts'
import { offeredSchemes, placeOfSession, type DepositChallenge } from './replies.ts'
import { isSoldAlike, leastPayable, MIN_PAYABLE_SECONDS, sentAgain, sharedWith } from './wording.ts'

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

/** What challenges are made, and handed out again, with. */
export interface MintingOptions extends MintOptions, InvoicingOptions {
  readonly counters: ChallengeCounters
  readonly offers: Offers
  readonly revocations: Revocations
  readonly settlements: Settlements
  /** Asked each time, since a reload changes them. */
  settings(): ChallengeSettings
}

/** Characters of the longest path that is sold: with it both challenge lines stay under 8 KB together. */
export const MAX_PRICED_PATH = 1024

/**
 * Decides which challenge a client is sent. Within one process a client gets every challenge below its caps, each with
 * an invoice of its own, and none above; of several processes each may overshoot by what the others are making at that
 * moment. No cap of one client is filled by another (decision 175).
 */
export class Minting {
  readonly #options: MintingOptions
  readonly #invoicing: Invoicing
  readonly #mint: Mint
  readonly #deposits: DepositChallenges
  // Challenges that are being made right now, which no count of rows can see yet, by client and place.
  readonly #makings = new Makings()

  constructor(options: MintingOptions) {
    this.#options = options
    this.#invoicing = new Invoicing(options)
    this.#mint = new Mint(options, this.#invoicing)
    this.#deposits = new DepositChallenges(this, options)
  }

  /** Invoices made ahead that are ready. */
  get invoicesAhead(): number {
    return this.#invoicing.ahead
  }

  /** Discards invoices made ahead: the settings have changed. */
  clear(): void {
    this.#invoicing.clear()
  }

  /** Ends timers and discards invoices made ahead. */
  close(): void {
    this.#invoicing.close()
  }

  /** A challenge for a request that has not paid, under the caps of its client; see `mint`. */
  async forRequest(ctx: Context, offer: Offer, how: Pick<MintRequest, 'holder' | 'shares'> = {}): Promise<Minted> {
    return this.mint(offer, {
      ...how,
      clientKey: clientNetwork(ctx.clientAddress),
      digest: await this.#digest(ctx, offer)
    })
  }

  /** The same, with the challenge of a session's deposit where its route sells sessions. */
  async withDeposit(ctx: Context, offer: Offer, shares: boolean): Promise<[SentChallenge, DepositChallenge | null]> {
    const { sessions } = offer
    if (
      sessions === null ||
      placeOfSession(ctx.headers) === 'nowhere' ||
      !this.#options.settings().schemes.includes('payment')
    )
      return [(await this.forRequest(ctx, offer, { shares })).challenge, null]
    const [{ challenge }, deposit] = await Promise.all([
      this.forRequest(ctx, offer),
      this.#deposits.make(ctx, offer, sessions)
    ])
    return [challenge, deposit]
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
    const settings = this.#options.settings()
    const binding = bindingOf(offer, request.digest, request.holder)
    if (request.uncapped === true) return this.#new(await this.#mint.make(offer, request, binding, settings))
    const client = `${offer.place} ${request.clientKey}`
    const counting = this.#makings.counting(client)
    let outstanding: Outstanding
    let held: Held
    try {
      const now = this.#options.clock.now()
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
      outstanding = await this.#orUnavailable(offer, () => this.#options.store.outstanding(query))
      held = this.#makings.held(client, outstanding, counting, binding)
    } finally {
      this.#makings.counted(client, counting)
    }
    if (held.ofRequest >= settings.maxPerClient) {
      const { newest } = outstanding
      const sent = newest !== null && this.#stillGood(newest, settings) ? sentAgain(newest, this.#options.keys()) : null
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
          : (outstanding.firstExpiry - this.#options.clock.now()) / 1000
      )
    }

    const made = this.#mint.make(offer, request, binding, settings, paymentHash => {
      making.paymentHash = paymentHash
    })
    const making: Making = { made, binding, begunAt: this.#options.clock.now(), paymentHash: null }
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
    if (this.#options.revocations.covers(challenge)) return false
    return challenge.payment !== null || !settings.schemes.includes('payment') || challenge.network === 'testnet'
  }

  #again(challenge: SentChallenge): Minted {
    this.#options.counters.challenge(challenge.source, true)
    return { challenge, again: true }
  }

  #new(challenge: SentChallenge): Minted {
    this.#options.counters.challenge(challenge.source, false)
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
    const { clock, store, random } = this.#options
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
    const keys = this.#options.keys()
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

  /** The digest that a new Payment challenge is bound to, or null (decision 121). */
  async #digest(ctx: Context, offer: Offer): Promise<string | null> {
    if (offer.callDigest !== undefined) return offer.callDigest
    if (!hasBoundBody(ctx, offer) || !offeredSchemes(this.#options.settings(), ctx.headers).includes('payment'))
      return null
    // A client that waits for 100 gets its 402 before it has sent the body.
    if (ctx.expectsContinue && ctx.body.collected === null) return null
    // Nothing of it is kept: who pays sends it again, with the credential.
    const digest = new DigestOfPieces()
    await ctx.body.each(piece => {
      digest.add(piece)
    })
    return digest.end()
  }
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
