import type { RouteConfig } from '../../engine/config/schema.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { largeHead } from '../../lightning/codecs/challenge-size.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Leases } from '../holding/leases.ts'
import type { Paid, PaidResponses } from '../holding/paid-responses.ts'
import type { SentChallenge } from '../holding/challenge.ts'
import type { Minting } from '../minting/minting.ts'
import { classicRefused, paymentRequired } from '../minting/replies.ts'
import type { FreeCalls } from '../offers/free-calls.ts'
import type { Offer, RouteOffers } from '../offers/offer.ts'
import type { Offers } from '../offers/offers.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Paywall } from '../paywall/paywall.ts'
import { isForged, type CredentialRefusal, type CredentialVerdict, type SaleRefusal } from '../verifying/verdict.ts'
import { presentedAgain, type PresentedOptions } from './presented.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly challenges: Challenges
  }
}

/** What plugins sell requests with. */
export interface ChallengesOptions extends PresentedOptions {
  readonly leases: Leases
  readonly log: Log
  readonly minting: Minting
  readonly offers: Offers
  readonly paidResponses: PaidResponses
  /** Asks people; null where they get what programs get. */
  readonly paywall: Paywall | null
  requireSellable(ctx: Context): void
  settings(): ChallengeSettings
}

/** Places that are remembered so that each is logged once. */
const MAX_LARGE_PLACES = 1_000

/** Pay-per-request as plugins use it: offers, credentials and the 402 of one request. */
export class Challenges {
  readonly leases: Leases
  /** Ends the lease of a request, by what its client was sent. */
  readonly paidResponses: PaidResponses
  readonly #options: ChallengesOptions
  readonly #largePlaces = new Set<string>()

  constructor(options: ChallengesOptions) {
    this.leases = options.leases
    this.paidResponses = options.paidResponses
    this.#options = options
  }

  get settings(): ChallengeSettings {
    return this.#options.settings()
  }

  /**
   * Refuses a request whose upstream keeps failing, before its credential is taken or an invoice is made.
   * @throws Unavailable 503 with Retry-After
   */
  requireSellable(ctx: Context): void {
    this.#options.requireSellable(ctx)
  }

  /** Makes the offers of one operator's route, with the settings of now. */
  routeOffers(route: RouteConfig): RouteOffers {
    return this.#options.offers.routeOffers(route)
  }

  /** The free calls of a route; null where it has none. */
  freeCalls(route: RouteConfig): FreeCalls | null {
    return this.#options.offers.freeCalls(route)
  }

  /** Judges the request's credential; see `Verifier.verify`. */
  verify(ctx: Context, offer: Offer): CredentialVerdict | Promise<CredentialVerdict> {
    return this.#options.verifier.verify(ctx, offer)
  }

  /** Judges a credential inside a JSON-RPC message; see `Verifier.verifyObject`. */
  verifyObject(ctx: Context, offer: Offer, credential: unknown): Promise<CredentialVerdict> {
    return this.#options.verifier.verifyObject(ctx, offer, credential)
  }

  /** Judges the pass of a person's browser on a request without a credential; see `Paywall.judge`. */
  pass(ctx: Context, offer: Offer): Promise<Paid | Reply | null> | null {
    const { paywall } = this.#options
    return paywall === null ? null : paywall.judge(ctx, offer)
  }

  /** A challenge for a request that has not paid, under the caps of its client; see `Minting.mint`. */
  async challenge(ctx: Context, offer: Offer): Promise<SentChallenge> {
    return (await this.#options.minting.forRequest(ctx, offer)).challenge
  }

  /**
   * The response to a request that has not paid: a 402 with a challenge, or the refusal of a classic credential, which
   * is a 402 too where the offer renews (decision 177). A credential that failed gets its fresh challenge under the
   * same caps as a first one (decision 132). `html`: people get a page; a used-up balance was bought on one.
   * @throws Unavailable, RateLimited where a challenge should be made and cannot be
   */
  async answer(ctx: Context, offer: Offer, refusal: SaleRefusal, html = refusal.kind === 'used-up'): Promise<Reply> {
    if (refusal.kind === 'classic' && (offer.renewal === 'contract' || isForged(refusal)))
      return classicRefused(refusal)
    const { minting, paywall } = this.#options
    const presented = await presentedAgain(ctx, offer, refusal, this.#options)
    if (presented !== null)
      return paymentRequired(presented.challenge, presented.refusal, ctx.headers, this.settings, offer.order)
    if (html && paywall?.isForPerson(ctx, refusal) === true) return paywall.answer(ctx, offer, refusal)
    // A client of the Payment scheme could not use an invoice that is shared by L402 tokens.
    const shares = refusal.kind === 'none' || refusal.kind === 'classic'
    const [challenge, deposit] = await minting.withDeposit(ctx, offer, shares)
    const reply = paymentRequired(challenge, refusal, ctx.headers, this.settings, offer.order, deposit)
    this.#measure(reply, offer.place)
    return reply
  }

  /**
   * What `answer` would answer, as far as its status, for an entry that only observes: makes no invoice, waits for
   * nothing and reads no body.
   */
  observe(offer: Offer, refusal: CredentialRefusal): Reply {
    const status = refusal.kind === 'classic' ? refusal.status : offer.closed === null ? 402 : 503
    if (status === 402) this.#options.offers.observed(offer)
    return { status, headers: [], body: null }
  }

  /** Logs once for each place that its 402 is too large for proxies with default buffers: nothing would be sold there. */
  #measure({ headers }: Reply, place: string): void {
    const bytes = largeHead(headers)
    if (bytes === null || this.#largePlaces.has(place) || this.#largePlaces.size >= MAX_LARGE_PLACES) return
    this.#largePlaces.add(place)
    this.#options.log.warn(
      { place, bytes },
      'The head of this 402 is above 3.5 KB. nginx answers 502 for heads above 4 KB unless proxy_buffer_size is raised, for example to 16k.'
    )
  }
}
