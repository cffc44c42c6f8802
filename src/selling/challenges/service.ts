import type { Context } from '../../engine/message/context.ts'
import { clientNetwork } from '../../engine/message/addresses.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import type { Reply } from '../../engine/message/reply.ts'
import type { FiatText } from '../../engine/checks/money-text.ts'
import type { RouteConfig } from '../../engine/config/schema.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import { paymentHashOf, preimageMatches } from '../../lightning/codecs/preimage.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import { DigestOfPieces } from '../../lightning/payment-scheme/content-digest.ts'
import { parseSessionToken } from '../../lightning/payment-scheme/session-credential.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import { periodic, type JobDeclaration } from '../../platform/jobs/jobs.ts'
import { systemRandom, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { MemoryState } from '../../platform/state/memory.ts'
import type { Maybe, State } from '../../platform/state/state.ts'
import { Claims } from '../holding/claims.ts'
import { NoPrices, type Prices } from '../../lightning/money/prices.ts'
import { fiatOf } from '../prices/fiat.ts'
import { PriceServers, type AskServer } from '../prices/price-server.ts'
import { noCounters, type ChallengeCounters } from './counters.ts'
import { FreeCalls } from '../offers/free-calls.ts'
import { PaidResponses } from '../holding/paid-responses.ts'
import { DepositChallenges } from '../minting/deposit-challenges.ts'
import { Leases } from '../holding/leases.ts'
import { Invoicing } from '../minting/invoicing.ts'
import { Mint, type Minted, type MintRequest } from '../minting/mint.ts'
import { OfferedPrices } from '../offers/offered-prices.ts'
import { hasBoundBody, routePlace, RouteOffers, type ChallengeSource, type Offer } from '../offers/offer.ts'
import { largeHead } from '../../lightning/codecs/challenge-size.ts'
import {
  classicRefused,
  offeredSchemes,
  paymentRequired,
  placeOfSession,
  type DepositChallenge
} from '../offers/replies.ts'
import type { FindPayee } from '../minting/payee.ts'
import { Paywall, type PaywallSurroundings } from '../paywall/paywall.ts'
import { Revocations } from '../verifying/revocations.ts'
import { Strangers } from '../offers/strangers.ts'
import type { ChallengeSettings } from './settings.ts'
import type { AmbiguousLease, Challenge, ChallengeStore, OnPaid, RevokedKind, SentChallenge } from './store.ts'
import { SqlChallengeStore } from './store-sql.ts'
import { presentedAgain } from '../verifying/presented.ts'
import {
  isForged,
  type Paid,
  type CredentialRefusal,
  type SaleRefusal,
  type CredentialVerdict
} from '../verifying/verdict.ts'
import { Verifier } from '../verifying/verify.ts'

declare module '../../engine/pipeline/services.ts' {
  interface Services {
    readonly challenges: Challenges
  }
}

/** What changes when the configuration is read again. */
export interface ChallengeRules {
  readonly settings: ChallengeSettings
  readonly keys: TokenKeyRing
}

/** What the service is built from. */
export interface ChallengeParts extends ChallengeRules {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly payee: FindPayee
  /** What fiat is worth; nobody knows where it is left out. */
  readonly rates?: Prices
  /** Asks price servers; over HTTP unless a test says otherwise. */
  readonly askServer?: AskServer
  /** Asks people; nobody where it is left out. */
  readonly paywall?: PaywallSurroundings
  /** Called once for each challenge, at its first successful verification; nobody where it is left out. */
  readonly paid?: OnPaid
  /** Where it is remembered how strangers pay; this process's own memory where it is left out. */
  readonly state?: State
  readonly counters?: ChallengeCounters
  readonly random?: Random
  /** The rows, where they are not the database's own: tests put faults here. */
  readonly store?: ChallengeStore
  /** Refuses what cannot be delivered before it is sold; nothing is refused where it is left out. */
  readonly requireSellable?: (ctx: Context) => void
  /** Name of this process in its leases; random unless a test fixes it. */
  readonly gateway?: string
}

/**
 * Told of a challenge whose invoice its provider says was paid. It may be told twice and must bear that. When it
 * rejects, so does `settled`, and nothing is noted: whoever brought the news brings it again.
 */
export type OnSettled = (challenge: Challenge) => Promise<void>

const PURGE_UNPAID = 86_400_000
const PURGE_PAID = 30 * 86_400_000
const PURGE_BATCH = 1_000
/** Places that are remembered so that each is logged once. */
const MAX_LARGE_PLACES = 1_000
/**
 * Milliseconds after a challenge's expiry in which its lapsed lease is looked for; the first look of a process goes
 * back without end.
 */
const LAPSED_WITHIN = 3_600_000

/**
 * Pay-per-request: asks for payment, judges what was paid, and sees to it that a single-use credential is used once.
 * The plugins, the producer API, the ping and the storefront are callers of this.
 */
export class Challenges {
  readonly store: ChallengeStore
  readonly claims: Claims
  readonly verifier: Verifier
  readonly leases: Leases
  /** Ends what a request has leased, by what its client was sent. */
  readonly paidResponses: PaidResponses
  readonly counters: ChallengeCounters
  readonly prices: OfferedPrices
  /**
   * Refuses a request whose upstream keeps failing, before its credential is taken or an invoice is made.
   * @throws Unavailable 503 with Retry-After
   */
  readonly requireSellable: (ctx: Context) => void
  /** Whether lapsed leases of all times have been looked for. */
  #lapsedLooked = false
  readonly #invoicing: Invoicing
  readonly #mint: Mint
  readonly #deposits: DepositChallenges
  readonly #paywall: Paywall | null
  readonly #priceServers: PriceServers
  readonly #rates: Prices
  readonly #state: State
  readonly #strangers: Strangers
  readonly #revocations: Revocations
  readonly #clock: Clock
  readonly #log: Log
  readonly #largePlaces = new Set<string>()
  readonly #onSettled = new Map<ChallengeSource, OnSettled>()
  #rules: ChallengeRules

  constructor(parts: ChallengeParts) {
    const { database, clock, log } = parts
    const counters = parts.counters ?? noCounters
    this.#rules = { settings: parts.settings, keys: parts.keys }
    this.#clock = clock
    this.#log = log
    this.counters = counters
    this.requireSellable = parts.requireSellable ?? (() => undefined)
    this.store = parts.store ?? new SqlChallengeStore(database)
    const rules = { keys: () => this.#rules.keys, settings: () => this.#rules.settings }
    const gateway = parts.gateway === undefined ? {} : { gateway: parts.gateway }
    this.leases = new Leases({ store: this.store, clock, log, timeout: parts.settings.leaseTimeout, ...gateway })
    this.paidResponses = new PaidResponses({ leases: this.leases, counters, clock })
    this.#rates = parts.rates ?? new NoPrices()
    this.#state = parts.state ?? new MemoryState(clock)
    const strangers = new Strangers(this.#state)
    this.#strangers = strangers
    this.claims = new Claims({
      database,
      store: this.store,
      leases: this.leases,
      counters,
      strangers,
      paid: parts.paid ?? null
    })
    this.prices = new OfferedPrices(database, clock, log)
    this.#priceServers = new PriceServers({
      clock,
      log,
      ...(parts.askServer === undefined ? {} : { ask: parts.askServer })
    })
    this.#revocations = new Revocations(this.store, database, clock, log)
    this.verifier = new Verifier({ claims: this.claims, revocations: this.#revocations, clock, counters, ...rules })
    this.#invoicing = new Invoicing({ clock, log, counters, strangers, payee: parts.payee })
    this.#mint = new Mint({
      store: this.store,
      database,
      clock,
      counters,
      invoicing: this.#invoicing,
      prices: this.#rates,
      revocations: this.#revocations,
      random: parts.random ?? systemRandom,
      ...rules
    })
    this.#deposits = new DepositChallenges({
      payee: parts.payee,
      log,
      inSatoshis: price => this.inSatoshis(price),
      challenge: (ctx, offer) => this.#challenge(ctx, offer),
      settled: paymentHash => this.settled(paymentHash)
    })
    this.#paywall =
      parts.paywall === undefined
        ? null
        : new Paywall({
            ...parts.paywall,
            ...rules,
            claims: this.claims,
            clock,
            log,
            random: parts.random ?? systemRandom,
            passClaims: this.verifier.passClaims,
            challenge: async (ctx, offer, holder) => (await this.#challenge(ctx, offer, holder)).challenge,
            settled: paymentHash => this.settled(paymentHash)
          })
  }

  get settings(): ChallengeSettings {
    return this.#rules.settings
  }

  get keys(): TokenKeyRing {
    return this.#rules.keys
  }

  /**
   * A dead process's lease lapses by itself, in the statement of whoever asks for it next; the job only lists those
   * that then count as spent.
   */
  get jobs(): readonly JobDeclaration[] {
    return [
      periodic('leases-ambiguous', 60_000, 'Lists payments whose gateway died while their request was under way', () =>
        this.spendLapsed()
      ),
      // Often, so that what goes at once stays little: it wants the disk for itself meanwhile.
      periodic('challenges-purge', 60_000, 'Deletes challenges that nobody can use any more', () => this.purge())
    ]
  }

  /** Follows revocations and former prices. Call once the database has been migrated. */
  async start(): Promise<void> {
    await Promise.all([this.#revocations.start(), this.prices.start()])
  }

  /** Invoices that were made ahead and lie ready. */
  get invoicesAhead(): number {
    return this.#invoicing.ahead
  }

  /** Ends timers and writes the spends that are still on their way. Invoices that nobody was sent are let go. */
  async close(): Promise<void> {
    this.#invoicing.close()
    await this.#revocations.close()
    await this.prices.close()
    await this.#priceServers.close()
    await this.leases.close()
    await this.store.close()
  }

  /**
   * Takes new settings and keys. Requests under way may see either; when the keys are others, all tokens are verified
   * anew. Invoices that were made ahead are thrown away.
   */
  configure(rules: ChallengeRules): void {
    const rekeyed = rules.keys !== this.#rules.keys
    this.#rules = { settings: rules.settings, keys: rules.keys }
    this.#invoicing.clear()
    if (rekeyed) this.verifier.forget()
  }

  /**
   * Has `hook` told of every settled invoice of one source, for those that sell without a credential: orders, plans.
   * They have invoices made here, so they are opened later and add themselves.
   * @throws TypeError for a source that has one
   */
  onSettled(source: ChallengeSource, hook: OnSettled): void {
    if (this.#onSettled.has(source)) throw new TypeError(`two are told of settled invoices of ${source}`)
    this.#onSettled.set(source, hook)
  }

  /** Makes the offers of one operator's route, with the settings of now. */
  routeOffers(route: RouteConfig): RouteOffers {
    return new RouteOffers(route, this.#rules.settings, this.prices, this.#priceServers)
  }

  /** Judges the request's credential; see `Verifier.verify`. */
  verify(ctx: Context, offer: Offer): CredentialVerdict | Promise<CredentialVerdict> {
    return this.verifier.verify(ctx, offer)
  }

  /** What the pass of a person's browser does for a request without a credential; see `Paywall.judge`. */
  pass(ctx: Context, offer: Offer): Promise<Paid | Reply | null> | null {
    return this.#paywall === null ? null : this.#paywall.judge(ctx, offer)
  }

  /** Judges a credential that stands in a JSON-RPC message; see `Verifier.verifyObject`. */
  verifyObject(ctx: Context, offer: Offer, credential: unknown): Promise<CredentialVerdict> {
    return this.verifier.verifyObject(ctx, offer, credential)
  }

  /** A challenge for what a request has not paid for, under the caps of its client; see `Mint.mint`. */
  async challenge(ctx: Context, offer: Offer): Promise<SentChallenge> {
    return (await this.#challenge(ctx, offer)).challenge
  }

  /**
   * The payment that a request's credential proves, whatever it was made for and has become of it; null where it proves
   * none. Nothing is claimed.
   * @throws Unavailable
   */
  async proven(headers: ReadonlyHeaders): Promise<string | null> {
    const credential = readCredential(headers.pairs)
    if (credential.kind === 'classic') {
      const token = this.verifier.tokens.genuine(credential)
      return 'kind' in token ? null : token.paymentHash
    }
    if (credential.kind === 'legacy') return paymentHashOf(credential.preimage)
    if (credential.kind !== 'modern') return null
    const session = parseSessionToken(credential.token)
    if (session !== null) {
      if (!session.ok || session.credential.payload.action === 'topUp') return null
      // A session's id is the hash of what its holder shows.
      const { payload, request } = session.credential
      const id = 'sessionId' in payload ? payload.sessionId : request.paymentHash
      return preimageMatches(payload.preimage, id) ? id : null
    }
    const genuine = await this.verifier.payments.genuine(credential.token)
    return 'kind' in genuine ? null : genuine.challenge.paymentHash
  }

  /** Makes a challenge or hands one out again; see `Mint.mint`. */
  mint(offer: Offer, request: MintRequest): Promise<Minted> {
    return this.#mint.mint(offer, request)
  }

  /**
   * The response to a request that has not paid: a 402 with a challenge, or the refusal of a classic credential, which
   * is a 402 too where the offer renews (decision 177). A credential that failed gets its fresh challenge under the
   * same caps as a first one (decision 132). `html`: people get a page; whose balance is used up, had one before.
   * @throws Unavailable, RateLimited where a challenge should be made and cannot be
   */
  async answer(ctx: Context, offer: Offer, refusal: SaleRefusal, html = refusal.kind === 'used-up'): Promise<Reply> {
    if (refusal.kind === 'classic' && (offer.renewal === 'contract' || isForged(refusal)))
      return classicRefused(refusal)
    const presented = await presentedAgain(ctx, offer, refusal, this.verifier.presented)
    if (presented !== null)
      return paymentRequired(presented.challenge, presented.refusal, ctx.headers, this.settings, offer.order)
    if (html && this.#paywall?.isForPerson(ctx, refusal) === true) return this.#paywall.answer(ctx, offer, refusal)
    // Who pays with the Payment scheme could not use an invoice that is shared by L402 tokens.
    const shares = refusal.kind === 'none' || refusal.kind === 'classic'
    const [challenge, deposit] = await this.#withDeposit(ctx, offer, shares)
    const reply = paymentRequired(challenge, refusal, ctx.headers, this.settings, offer.order, deposit)
    this.#measure(reply, offer.place)
    return reply
  }

  /** Logs once for each place that its 402 is too large for proxies with default buffers: there nothing would be sold. */
  #measure({ headers }: Reply, place: string): void {
    const bytes = largeHead(headers)
    if (bytes === null || this.#largePlaces.has(place) || this.#largePlaces.size >= MAX_LARGE_PLACES) return
    this.#largePlaces.add(place)
    this.#log.warn(
      { place, bytes },
      'The head of this 402 is above 3.5 KB. nginx answers 502 for heads above 4 KB unless proxy_buffer_size is raised, for example to 16k.'
    )
  }

  /**
   * What `answer` would answer, as far as its status, for an entry that only observes: no invoice is made, nobody is
   * waited for and no body is read.
   */
  observe(offer: Offer, refusal: CredentialRefusal): Reply {
    const status = refusal.kind === 'classic' ? refusal.status : offer.closed === null ? 402 : 503
    if (status === 402) this.#observed(offer)
    return { status, headers: [], body: null }
  }

  /** Nobody waits for what fiat is worth. */
  #observed({ source, amountSats, fiat }: Offer): void {
    if (fiat === null) this.counters.observed(source, amountSats)
    else void this.#observedFiat(source, fiat)
  }

  async #observedFiat(source: ChallengeSource, fiat: FiatText): Promise<void> {
    const { currency, amount } = fiatOf(fiat)
    let satoshis: number | null = null
    try {
      satoshis = await this.#rates.satoshis(currency, amount)
    } catch (error) {
      this.#log.debug({ err: error }, 'What an observed request would have cost is not known')
    }
    this.counters.observed(source, satoshis)
  }

  /** The free calls of a route; null where it has none. */
  freeCalls(route: RouteConfig): FreeCalls | null {
    return route.free === undefined
      ? null
      : new FreeCalls(route.free, routePlace(route), { state: this.#state, log: this.#log, counters: this.counters })
  }

  /** Payments that were spent because their gateway died while the request was under way, newest first. */
  ambiguous(page: { readonly skip: number; readonly take: number }): Promise<AmbiguousLease[]> {
    return this.store.ambiguous(page)
  }

  /**
   * Spends the leases of gateways that died, where they are final (decision 183); a periodic job's. Returns how many.
   */
  async spendLapsed(): Promise<number> {
    const now = this.#clock.now()
    let spent = 0
    for (;;) {
      const some = await this.store.spendLapsed(now, this.#lapsedLooked ? now - LAPSED_WITHIN : 0, PURGE_BATCH)
      spent += some
      if (some < PURGE_BATCH) break
    }
    this.#lapsedLooked = true
    if (spent > 0) {
      this.counters.ambiguous(spent)
      this.#log.warn(
        { leases: spent },
        'Gateways died while requests were under way that must not be repeated; their payments count as spent and are listed at /api/admin/leases/ambiguous'
      )
    }
    return spent
  }

  /** A stored challenge; null when there is none. @throws Unavailable */
  find(paymentHash: string): Promise<Challenge | null> {
    return this.claims.find(paymentHash)
  }

  /**
   * Notes that an invoice was paid at its provider, so that it is not handed out again (decision 122), after whoever
   * waits for it has been told. Rejects only when that failed; that the note could not be written changes nothing,
   * since the money has moved.
   */
  async settled(paymentHash: string): Promise<void> {
    if (this.#onSettled.size > 0) {
      const challenge = await this.store.find(paymentHash)
      if (challenge !== null) {
        this.#strangers.paid(challenge.clientKey)
        await this.#onSettled.get(challenge.source)?.(challenge)
      }
    }
    try {
      await this.store.settled(paymentHash, this.#clock.now())
    } catch (error) {
      this.#log.warn({ paymentHash, err: error }, 'A settled invoice could not be noted')
    }
    this.#paywall?.heard(paymentHash)
  }

  /**
   * Refuses what was issued for a payment, or up to now for a proxy or a merchant, here at once and in every process
   * within 5 seconds. Returns the moment, in milliseconds since the epoch.
   * @throws Unavailable when the database is away
   */
  async revoke(kind: RevokedKind, id: string): Promise<number> {
    const now = this.#clock.now()
    try {
      await this.store.revoke({ kind, id }, now)
    } catch (error) {
      throw new Unavailable(
        'Revocation unavailable',
        'The revocation could not be written; nothing is known to be revoked. Send the same request again.',
        5,
        {},
        error
      )
    }
    await this.#revocations.refresh()
    this.#log.info({ kind, id }, 'Credentials were revoked')
    return now
  }

  /** Takes a revocation back. */
  async reinstate(kind: RevokedKind, id: string): Promise<void> {
    await this.store.reinstate({ kind, id })
    await this.#revocations.refresh()
  }

  /** Deletes rows that nobody can use any more (decision 173); a periodic job's. Returns how many. */
  async purge(): Promise<number> {
    const now = this.#clock.now()
    let purged = 0
    for (;;) {
      const gone = await this.store.purge(now - PURGE_UNPAID, now - PURGE_PAID, PURGE_BATCH)
      purged += gone
      if (gone < PURGE_BATCH) return purged
    }
  }

  /** What an offer costs in satoshis, at the rate of this moment. @throws Unavailable without a rate */
  inSatoshis({ amountSats, fiat }: Pick<Offer, 'amountSats' | 'fiat'>): Maybe<number> {
    if (fiat === null) return amountSats ?? 0
    const { currency, amount } = fiatOf(fiat)
    return this.#rates.satoshis(currency, amount)
  }

  /** The challenge of a 402, with that of a session's deposit where its route sells sessions. */
  async #withDeposit(ctx: Context, offer: Offer, shares: boolean): Promise<[SentChallenge, DepositChallenge | null]> {
    const { sessions } = offer
    if (sessions === null || placeOfSession(ctx.headers) === 'nowhere' || !this.settings.schemes.includes('payment'))
      return [(await this.#challenge(ctx, offer, undefined, shares)).challenge, null]
    return await Promise.all([this.challenge(ctx, offer), this.#deposits.make(ctx, offer, sessions)])
  }

  async #challenge(ctx: Context, offer: Offer, holder?: string, shares = false): Promise<Minted> {
    return this.#mint.mint(offer, {
      ...(holder === undefined ? {} : { holder }),
      shares,
      clientKey: clientNetwork(ctx.clientAddress),
      digest: await this.#digest(ctx, offer)
    })
  }

  /** The digest that a new Payment challenge is bound to, or null (decision 121). */
  async #digest(ctx: Context, offer: Offer): Promise<string | null> {
    if (offer.callDigest !== undefined) return offer.callDigest
    if (!hasBoundBody(ctx, offer) || !offeredSchemes(this.settings, ctx.headers).includes('payment')) return null
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
