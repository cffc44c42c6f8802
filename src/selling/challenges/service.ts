import type { RouteConfig } from '../../engine/config/schema.ts'
import type { Context } from '../../engine/message/context.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { hasPaidKey } from '../../engine/message/payment-headers.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { largeHead } from '../../lightning/codecs/challenge-size.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Leases } from '../holding/leases.ts'
import type { Paid, PaidResponses } from '../holding/paid-responses.ts'
import type { SentChallenge, Challenge } from '../holding/challenge.ts'
import type { Minting } from '../minting/minting.ts'
import { classicRefused, detailOf, paymentRequired, unsold } from '../minting/replies.ts'
import type { FreeCalls, Offers } from '../offers/offers.ts'
import type { Offer, RouteOffers } from '../offers/offer.ts'
import { SoldModels } from '../offers/request-price.ts'
import type { ChallengeSettings } from '../offers/settings.ts'
import type { Paywall } from '../paywall/paywall.ts'
import {
  isForged,
  limitRefused,
  type CredentialRefusal,
  type CredentialVerdict,
  type SaleRefusal,
  badCredential
} from '../verifying/verdict.ts'
import { clientNetwork } from '../../engine/message/addresses.ts'
import { paymentHashOf } from '../../lightning/codecs/hmac.ts'
import { exactCredential } from '../../lightning/codecs/x402.ts'
import { tracesOf, type Traces } from '../../lightning/codecs/traces.ts'
import { macaroonToBase64, type Macaroon } from '../../lightning/l402/macaroon.ts'
import { isPayable, isSoldAlike, sentAgain } from '../minting/wording.ts'
import type { Verifier, VerifierOptions } from '../verifying/verify.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly challenges: Challenges
  }
}

interface ChallengesOptions extends PresentedOptions {
  readonly leases: Leases
  readonly log: Log
  readonly minting: Minting
  readonly offers: Offers
  readonly paidResponses: PaidResponses
  /** Null: browsers get what programs get. */
  readonly paywall: Paywall | null
  requireSellable(ctx: Context): void
  settings(): ChallengeSettings
}

const MAX_LARGE_PLACES = 1_000

export class Challenges {
  readonly leases: Leases
  /** Ends a request's lease by what its client was sent. */
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
   * Refuses a request whose upstream keeps failing, before a credential is consumed or an invoice made.
   * @throws Unavailable 503 with Retry-After
   */
  requireSellable(ctx: Context): void {
    this.#options.requireSellable(ctx)
  }

  routeOffers(route: RouteConfig): RouteOffers {
    return this.#options.offers.routeOffers(route)
  }

  soldModels({ meter }: RouteConfig): SoldModels | null {
    return SoldModels.of(meter)
  }

  freeCalls(route: RouteConfig): FreeCalls | null {
    return this.#options.offers.freeCalls(route)
  }

  verify(ctx: Context, offer: Offer): CredentialVerdict | Promise<CredentialVerdict> {
    return this.#options.verifier.verify(ctx, offer)
  }

  verifyObject(ctx: Context, offer: Offer, credential: unknown): Promise<CredentialVerdict> {
    return this.#options.verifier.verifyObject(ctx, offer, credential)
  }

  verifyX402(ctx: Context, offer: Offer, payment: unknown): Promise<CredentialVerdict> {
    return this.#options.verifier.verifyX402(ctx, offer, exactCredential(payment))
  }

  pass(ctx: Context, offer: Offer): Promise<Paid | Reply | null> | null {
    const { paywall } = this.#options
    return paywall === null ? null : paywall.judge(ctx, offer)
  }

  async challenge(ctx: Context, offer: Offer): Promise<SentChallenge> {
    return (await this.#options.minting.forRequest(ctx, offer)).challenge
  }

  /**
   * Response to an unpaid request: a 402 with a challenge, or a classic credential's refusal, which is a 402 too if the
   * offer renews (decision 177). A failed credential gets its challenge under the caps of a first one (decision 132).
   * `html`: browsers get a page; a used-up balance was bought on one.
   * @throws Unavailable, RateLimited if no challenge can be made
   */
  async answer(ctx: Context, offer: Offer, refusal: SaleRefusal, html = refusal.kind === 'used-up'): Promise<Reply> {
    const reply = await this.#answer(ctx, offer, refusal, html)
    const words = `${detailOf(refusal) ?? 'Payment required'}. ${this.#topUpWords(ctx)}`
    return this.#inShape(ctx, offer, reply, words, refusal.kind === 'used-up' ? 'insufficient_quota' : undefined)
  }

  refuseKey(ctx: Context, offer: Offer, detail: string): Reply {
    return this.#inShape(ctx, offer, classicRefused(limitRefused(detail)), `${detail}.`, 'insufficient_quota')
  }

  /**
   * A refusal in the shape that clients with a paid key can show.
   * @throws the error itself for other clients, and faults of the gateway
   */
  refusalOf(ctx: Context, error: unknown): Reply {
    const { offer } = ctx
    if (offer === null || !(error instanceof LongError) || error.status >= 500) throw error
    const { status, headers, message } = error
    const reply = this.#inShape(ctx, offer, { status, headers, body: null }, message)
    if (reply.body === null) throw error
    return reply
  }

  #topUpWords({ host, secure }: Context): string {
    return `Top up this key, or buy another one, at ${secure ? 'https' : 'http'}://${host}/l402/keys`
  }

  #inShape(ctx: Context, { keys, meter }: Offer, reply: Reply, message: string, type?: string): Reply {
    const usage = meter?.usage
    const isOfApi = keys === true && (usage === 'openai' || usage === 'anthropic')
    return isOfApi && hasPaidKey(ctx.headers) ? inShapeOf(usage, reply, message, type) : reply
  }

  async #answer(ctx: Context, offer: Offer, refusal: SaleRefusal, html: boolean): Promise<Reply> {
    const isUnsold = offer.tokensOnly === true && offer.closed === null
    if (refusal.kind === 'classic' && (offer.renewal === 'contract' || isUnsold || isForged(refusal)))
      return classicRefused(refusal)
    if (isUnsold) return unsold(refusal)
    const { minting, paywall } = this.#options
    const search = presentedAgain(ctx, offer, refusal, this.#options)
    const presented = search === null ? null : await search
    if (presented !== null)
      return paymentRequired(presented.challenge, presented.refusal, ctx.headers, this.settings, offer.order)
    if (html && paywall?.isForPerson(ctx, refusal) === true) return paywall.answer(ctx, offer, refusal)
    // Payment clients cannot use an invoice shared by L402 tokens.
    const shares = refusal.kind === 'none' || refusal.kind === 'classic'
    const [challenge, deposit] = await minting.withDeposit(ctx, offer, shares)
    const reply = paymentRequired(challenge, refusal, ctx.headers, this.settings, offer.order, deposit)
    this.#measure(reply, offer.place)
    return offer.isQuote === true ? { ...reply, headers: [...reply.headers, 'X-Price-Quote', 'highest'] } : reply
  }

  /** Predicts the status of `answer`, for an entry that only observes: no invoice, no waiting, no body. */
  observe(offer: Offer, refusal: CredentialRefusal): Reply {
    const unpaid = offer.closed !== null ? 503 : offer.tokensOnly === true ? 401 : 402
    const status = refusal.kind === 'classic' ? refusal.status : unpaid
    if (status === 402) this.#options.offers.observed(offer)
    return { status, headers: [], body: null }
  }

  /** Warns once per place if its 402 exceeds the default buffers of proxies, which would block every sale. */
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

/** Refusals that leave open whether the client has paid. */
const UNREAD: ReadonlySet<string> = new Set(['malformed', 'macaroon'])
const PAID = 'The invoice of this challenge is paid: do not pay again.'
const HOW = 'Send Authorization: L402 <macaroon>:<preimage>, with the preimage as 64 lower-case hex characters.'

interface PresentedOptions extends Pick<VerifierOptions, 'claims' | 'clock' | 'keys' | 'revocations'> {
  readonly verifier: Verifier
}

interface Presented {
  readonly challenge: SentChallenge
  readonly refusal: SaleRefusal
}

/**
 * Finds the challenge that a client has paid or was sent for this offer, if its credential is unreadable. Another
 * invoice would make it pay again on each attempt. Null if the request shows none.
 * @throws Unavailable
 */
function presentedAgain(
  ctx: Context,
  offer: Offer,
  refused: SaleRefusal,
  options: PresentedOptions
): Promise<Presented | null> | null {
  if (refused.kind !== 'none' && !('reason' in refused && UNREAD.has(refused.reason))) return null
  const traces = tracesOf(ctx.headers.pairs)
  return traces === null ? null : find(ctx, offer, refused, traces, options)
}

async function find(
  ctx: Context,
  offer: Offer,
  refused: SaleRefusal,
  { macaroons, preimages }: Traces,
  options: PresentedOptions
): Promise<Presented | null> {
  const proven = new Set(preimages.map(paymentHashOf))
  const signed = new Map<string, Macaroon>()
  for (const macaroon of macaroons) {
    const paymentHash = options.verifier.tokens.issuedFor(macaroon)
    if (paymentHash !== null) signed.set(paymentHash, macaroon)
  }
  for (const paymentHash of new Set([...signed.keys(), ...proven])) {
    const challenge = await options.claims.find(paymentHash)
    if (challenge === null || !isSoldAlike(challenge, offer) || challenge.resource !== offer.tokenPath) continue
    const macaroon = signed.get(paymentHash)
    // Routing nodes and holders of a narrowed token know the preimage too; they get no macaroon for it.
    if (
      macaroon === undefined &&
      (challenge.paidAt !== null || challenge.clientKey !== clientNetwork(ctx.clientAddress))
    )
      continue
    const isPaid = proven.has(paymentHash) || challenge.settledAt !== null || challenge.paidAt !== null
    if (!isGood(challenge, offer, isPaid, options)) continue
    const sent = sentAgain(challenge, options.keys())
    if (sent !== null) return { challenge: asPresented(sent, macaroon), refusal: unread(refused, isPaid) }
  }
  return null
}

/** With the macaroon as the client narrowed it. Its Payment challenge would be wider, so it goes. */
function asPresented(sent: SentChallenge, presented: Macaroon | undefined): SentChallenge {
  const macaroon = presented === undefined ? sent.macaroon : macaroonToBase64(presented)
  return macaroon === sent.macaroon ? sent : { ...sent, macaroon, payment: null }
}

function isGood(
  challenge: Challenge,
  offer: Offer,
  isPaid: boolean,
  { clock, revocations }: PresentedOptions
): boolean {
  if (revocations.covers(challenge) || challenge.state === 'spent') return false
  return isPaid ? challenge.tokenExpiresAt > clock.now() : isPayable(challenge, offer, clock.now())
}

function unread(refused: SaleRefusal, isPaid: boolean): SaleRefusal {
  const paid = isPaid ? [PAID] : []
  if (refused.kind === 'none') return badCredential(['The credential could not be read.', ...paid, HOW].join(' '))
  if (!('detail' in refused)) return refused
  const detail = [`${refused.detail}.`, ...paid].join(' ')
  return refused.kind === 'classic' ? { ...refused, detail, body: { ...refused.body, detail } } : { ...refused, detail }
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  429: 'rate_limit_error'
}

/**
 * The refusal of a paid key with a body in the shape of the API that is sold, since its clients show no other. Keeps
 * status and headers. `type` defaults to the status' one.
 */
export function inShapeOf(
  api: 'openai' | 'anthropic',
  { status, headers }: Reply,
  message: string,
  type = TYPES[status] ?? 'invalid_request_error'
): Reply {
  const error =
    api === 'openai'
      ? { error: { message, type, param: null, code: type } }
      : { type: 'error', error: { type, message } }
  const kept: string[] = ['Content-Type', 'application/json; charset=utf-8']
  for (let at = 0; at < headers.length; at += 2)
    if (headers[at]?.toLowerCase() !== 'content-type') kept.push(headers[at] ?? '', headers[at + 1] ?? '')
  return { status, headers: kept, body: JSON.stringify(error) }
}
