import { clientNetwork } from '../../engine/message/addresses.ts'
import { hasOwnAuthorization } from '../../engine/message/payment-headers.ts'
import type { Context } from '../../engine/message/context.ts'
import { UNAUTHORIZED, URI_TOO_LONG } from '../../engine/operations/error-kinds.ts'
import { LongError, RateLimited, Unavailable } from '../../engine/operations/errors.ts'
import { DigestOfPieces } from '../../lightning/payment-scheme/payment-challenge.ts'
import type { ChallengeCounters } from '../holding/counters.ts'
import type { Settlements } from '../holding/settlements.ts'
import type { AdminKey } from '../../accounts/merchants/admin-key.ts'
import {
  CRAWLERS,
  OWN_TESTS,
  X402_MARK,
  isShareable,
  type Challenge,
  type NewChallenge,
  type Outstanding,
  type OutstandingQuery,
  type SentChallenge
} from '../holding/challenge.ts'
import { hasBoundBody, PROXY_UNAVAILABLE, type Offer, depositOffer } from '../offers/offer.ts'
import type { Offers } from '../offers/offers.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Revocations } from '../verifying/revocations.ts'
import { Invoicing, type InvoicingOptions } from './invoicing.ts'
import { PendingChallenges, type Held, type PendingChallenge } from './pending-challenges.ts'
import { hourly, isCrawler, isOwnTest } from './probes.ts'
import { CHALLENGES_UNAVAILABLE, Mint, rootKeyOf, type MintOptions } from './mint.ts'
import { offeredSchemes, placeOfSession, UNSOLD, type DepositChallenge } from './replies.ts'
import { bindingOf, isSoldAlike, leastPayable, MIN_PAYABLE_SECONDS, sentAgain, sharedWith } from './wording.ts'
import type { RequestBinding } from '../../lightning/codecs/x402.ts'
import { x402Binding } from '../offers/x402-binding.ts'
import { meterWords, type SessionsConfig } from '../../engine/checks/meter.ts'
import { depositSats, type SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'

export interface MintRequest {
  /** Client network whose open invoices count. */
  readonly clientKey: string
  readonly digest: string | null
  /** What an invoice for x402 is bound to; absent or null for none. */
  readonly x402?: RequestBinding | null
  readonly idempotencyKey?: string | null
  /** Random id of the only holder that may reuse it; default: any of the client's network. */
  readonly holder?: string
  /** Its Payment challenge selects Payment-Authorization. */
  readonly inOwnField?: boolean
  /** Above the client's cap, an unpaid invoice of the same price may be reused (decision 175). */
  readonly shares?: boolean
  /** Unpaid invoices for the same request before the newest is reused; default: `maxPerClient`. */
  readonly most?: number
  /** The caller has its own caps (plans): no reuse, no cap on open invoices. */
  readonly uncapped?: boolean
  /** From an API key or job: precedes anonymous clients when a provider's budget is short. */
  readonly keyed?: boolean
  /** Replaces the row's INSERT to write more in the same transaction. The challenge is sent once it resolves. */
  readonly record?: (challenge: NewChallenge) => Promise<void>
  /** Macaroon expiry in Unix seconds, unless issuance plus validity (decision 136). */
  readonly tokenExpires?: number
}

interface Minted {
  readonly challenge: SentChallenge
  /** Made for an earlier request (decision 122). */
  readonly again: boolean
}

interface MintingOptions extends MintOptions, InvoicingOptions {
  readonly adminKey: Pick<AdminKey, 'holdsSession'>
  readonly counters: ChallengeCounters
  readonly offers: Offers
  readonly revocations: Revocations
  readonly settlements: Settlements
  /** Read on each call, since a reload changes them. */
  settings(): ChallengeSettings
}

/** Maximum path length in characters, to keep both challenge lines under 8 KB together. */
export const MAX_PRICED_PATH = 1024

/**
 * Chooses a client's challenge. One process gives each client its own invoices below its caps and none above. Several
 * processes may overshoot by what others are making. No client fills another's cap (decision 175).
 */
export class Minting {
  readonly #options: MintingOptions
  readonly #invoicing: Invoicing
  readonly #mint: Mint
  // Not in any count of rows yet.
  readonly #pending = new PendingChallenges()

  constructor(options: MintingOptions) {
    this.#options = options
    this.#invoicing = new Invoicing(options)
    this.#mint = new Mint(options, this.#invoicing)
  }

  get invoicesAhead(): number {
    return this.#invoicing.ahead
  }

  clear(): void {
    this.#invoicing.clear()
  }

  close(): void {
    this.#invoicing.close()
  }

  /** A challenge for an unpaid request, under its client's caps; see `mint`. */
  async forRequest(ctx: Context, offer: Offer, how: Pick<MintRequest, 'holder' | 'shares'> = {}): Promise<Minted> {
    const digest = await this.#digest(ctx, offer)
    const request = {
      ...how,
      clientKey: clientNetwork(ctx.clientAddress),
      digest,
      // An invoice of x402 is for one challenge, and health checks send HEAD all the time; those for x402 go on to GET.
      x402: ctx.method === 'HEAD' ? null : x402Binding(ctx, offer, this.#options.settings(), digest),
      inOwnField: offer.keepsAuthorization === true && how.holder === undefined && hasOwnAuthorization(ctx.headers)
    }
    if (isOwnTest(ctx, offer, this.#options.adminKey)) {
      ctx.isProbe = true
      return this.mint(offer, { ...request, clientKey: OWN_TESTS })
    }
    const isNamed = isCrawler(ctx.headers.get('user-agent'))
    ctx.isProbe = isNamed || ctx.method === 'HEAD' || offer.isQuote === true
    // One for a browser is for its holder.
    if (!ctx.isProbe || request.x402 !== null || how.holder !== undefined) return this.mint(offer, request)
    if (!isNamed) return this.mint(hourly(offer), { ...request, most: 1 })
    try {
      return await this.mint(hourly(offer), { ...request, clientKey: CRAWLERS, most: 1 })
    } catch (error) {
      // Names of crawlers are free to take, so they must not close a place to those that have them.
      if (error instanceof RateLimited) return this.mint(offer, request)
      throw error
    }
  }

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
      this.#deposit(ctx, offer, sessions)
    ])
    return [challenge, deposit]
  }

  /**
   * A new challenge, or the client's newest if it holds too many for the same request. @throws Unavailable 503 with
   * Retry-After: provider or database down, or offer closed
   * @throws LongError 401: this route makes no invoices
   * @throws RateLimited 429: too many open invoices in this place
   * @throws LongError 414: path too long for a challenge
   */
  async mint(offer: Offer, request: MintRequest): Promise<Minted> {
    const { closed, errorMembers } = offer
    if (closed !== null) throw new Unavailable(PROXY_UNAVAILABLE, closed, 60, errorMembers)
    if (offer.tokensOnly === true) throw new LongError(UNAUTHORIZED, 'Unauthorized', UNSOLD)
    if (offer.tokenPath.length > MAX_PRICED_PATH) {
      throw new LongError(
        URI_TOO_LONG,
        'URI too long',
        `The path has ${offer.tokenPath.length} characters; at most ${MAX_PRICED_PATH} can be paid for.`
      )
    }
    const settings = this.#options.settings()
    const binding = bindingOf(offer, request)
    if (request.uncapped === true) return this.#new(await this.#mint.make(offer, request, binding, settings))
    const { most = settings.maxPerClient } = request
    const client = `${offer.place} ${request.clientKey}`
    const counting = this.#pending.counting(client)
    let outstanding: Outstanding
    let held: Held
    try {
      const now = this.#options.clock.now()
      const query: OutstandingQuery = {
        clientKey: request.clientKey,
        place: offer.place,
        binding,
        requestLimit: most,
        placeLimit: settings.maxPerPlace,
        now,
        since: this.#pending.since(client, now),
        payableUntil: now + leastPayable(offer)
      }
      outstanding = await this.#orUnavailable(offer, () => this.#options.store.outstanding(query))
      held = this.#pending.held(client, outstanding, counting, binding)
    } finally {
      this.#pending.counted(client, counting)
    }
    // The last ones of a request or a place must be such that can be handed out again.
    const room = Math.floor(settings.maxPerPlace * X402_SHARE)
    if (binding.includes(X402_MARK) && (held.ofRequest >= most || held.inPlace >= room))
      return this.mint(offer, { ...request, x402: null })
    if (held.ofRequest >= most) {
      const { newest } = outstanding
      const sent = newest !== null && this.#stillGood(newest, settings) ? sentAgain(newest, this.#options.keys()) : null
      if (sent !== null) return this.#again(sent)
      // These may be paid by now; their rows tell.
      if (counting.meanwhile.some(made => made.binding === binding)) return this.mint(offer, request)
      const last = this.#pending.running(client).find(pending => pending.binding === binding)
      if (last !== undefined) {
        const created = await last.made
        // It may have been revoked since this request came.
        return this.#stillGood(created, settings) ? this.#again(created) : this.mint(offer, request)
      }
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

    const created = this.#mint.make(offer, request, binding, settings, paymentHash => {
      pending.paymentHash = paymentHash
    })
    const pending: PendingChallenge = { made: created, binding, begunAt: this.#options.clock.now(), paymentHash: null }
    this.#pending.begin(client, pending)
    let done = false
    try {
      const challenge = await created
      done = true
      return this.#new(challenge)
    } finally {
      this.#pending.end(client, pending, done)
    }
  }

  /** Reusable: keys live, not revoked, and a challenge for every scheme. */
  #stillGood(challenge: Challenge, settings: ChallengeSettings): boolean {
    if (this.#options.revocations.covers(challenge)) return false
    return challenge.payment !== null || !settings.schemes.includes('payment') || challenge.network === 'testnet'
  }

  #again(challenge: SentChallenge): Minted {
    this.#options.counters.challenge(challenge.source, true)
    // An invoice of x402 is for one challenge.
    return { challenge: { ...challenge, x402: null }, again: true }
  }

  #new(challenge: SentChallenge): Minted {
    this.#options.counters.challenge(challenge.source, false)
    return { challenge, again: false }
  }

  /** A macaroon on the client's unpaid invoice of the same price; null without one. */
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
    // In a burst the first invoices are pending, without rows.
    for (const { made, binding } of newest === null ? this.#pending.running(client) : []) {
      if (!isShareable(binding)) continue
      // The creating request reports the error.
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

  /** Runs before the provider is called, so that a database outage costs no invoice. */
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

  /** Null if no deposit can be requested now; paying per request still works. */
  async #deposit(ctx: Context, offer: Offer, sessions: SessionsConfig): Promise<DepositChallenge | null> {
    try {
      const unitSats = offer.meter === null ? await this.#options.offers.inSatoshis(offer) : 1
      const configured = sessions.deposit ?? (offer.meter === null ? null : (offer.fiat ?? offer.amountSats))
      const sats =
        typeof configured === 'string'
          ? this.#options.offers.inSatoshis({ amountSats: null, fiat: configured })
          : configured
      const terms: SessionTerms = {
        unitSats,
        unitType: offer.meter === null ? sessions.unit : 'satoshi',
        idleSeconds: Math.floor(sessions.idle / 1000),
        description: offer.meter === null ? null : meterWords(offer.meter)
      }
      const wanted = depositOffer(offer, terms, depositSats(unitSats, await sats))
      return { challenge: await this.#unpaidDeposit(ctx, wanted), terms }
    } catch (error) {
      this.#options.log.debug({ place: offer.place, err: error }, 'A 402 was sent without the challenge of a session')
      return null
    }
  }

  /** A reused one may have been paid since, which only its provider knows. */
  async #unpaidDeposit(ctx: Context, offer: Offer): Promise<SentChallenge> {
    for (;;) {
      const { challenge, again } = await this.forRequest(ctx, offer)
      if (!again || !(await this.#isPaidFor(offer, challenge))) return challenge
      await this.#options.settlements.settled(challenge.paymentHash)
    }
  }

  async #isPaidFor(offer: Offer, { chargeId }: SentChallenge): Promise<boolean> {
    const state = await (await this.#options.payee(offer)).lookUp?.(chargeId)
    const status = state?.status ?? 'unpaid'
    // A pending or partial payment is neither payable nor a sale.
    if (status !== 'unpaid' && status !== 'paid') throw new Error(`the deposit of the challenge is ${status}`)
    return status === 'paid'
  }

  /** Digest bound to a new Payment challenge, or null (decision 121). */
  async #digest(ctx: Context, offer: Offer): Promise<string | null> {
    if (offer.callDigest !== undefined) return offer.callDigest
    if (!hasBoundBody(ctx, offer) || !offeredSchemes(this.#options.settings(), ctx.headers).includes('payment'))
      return null
    // With Expect: 100-continue the 402 precedes the body.
    if (ctx.expectsContinue && ctx.body.collected === null) return null
    // Not kept: the payer sends it again with the credential.
    const digest = new DigestOfPieces()
    await ctx.body.each(piece => {
      digest.add(piece)
    })
    return digest.end()
  }
}

/** Of a place. Of the rest, several processes that do not see each other's pending invoices may each make some. */
const X402_SHARE = 0.75
