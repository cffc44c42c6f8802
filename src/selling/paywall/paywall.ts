import { prefersHtml } from '../../engine/message/accept.ts'
import type { Context } from '../../engine/message/context.ts'
import { EVENT_STREAM_HEADERS, eventStream } from '../../engine/formats/event-stream.ts'
import { isLocalCaller } from '../../engine/message/local-caller.ts'
import type { Reply, StreamBody } from '../../engine/message/reply.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import type { TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Claims } from '../holding/claims.ts'
import type { Offer } from '../offers/offer.ts'
import { isOfPrice } from '../offers/price-grace.ts'
import { challengeLines, offeredSchemes } from '../offers/replies.ts'
import type { ChallengeSettings } from '../challenges/settings.ts'
import type { Challenge, SentChallenge } from '../challenges/store.ts'
import type { Paid, SaleRefusal } from '../verifying/verdict.ts'
import type { PassClaims } from './pass-claims.ts'
import { sentAgain } from '../minting/wording.ts'
import { ChargeLooks, type ChargeLooksParts } from './charge-looks.ts'
import type { AskedAgain, ChallengePages } from './page.ts'
import { isPassOf, passCookie, passesIn, passOf, type Pass } from './pass.ts'

/** What people are asked with, where they are. */
export interface PaywallSurroundings extends Pick<ChargeLooksParts, 'lookUp' | 'countedOf'> {
  readonly pages: ChallengePages
  /** Pays an invoice of the sandbox, in development alone; null where there is none. */
  readonly sandbox: { pay(invoice: string): Promise<void> } | null
  /** Whether the address that clients use is https. */
  isSecure(): boolean
}

/** The same with what of pay-per-request it stands on. */
export interface PaywallParts extends PaywallSurroundings {
  readonly claims: Claims
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  readonly passClaims: PassClaims
  keys(): TokenKeyRing
  settings(): ChallengeSettings
  /** Makes a challenge that is handed out to its holder alone. */
  challenge(ctx: Context, offer: Offer, holder: string): Promise<SentChallenge>
  settled(paymentHash: string): Promise<void>
}

/**
 * What the page's own program asks for, in this header of a request for the page's own address: the pass goes nowhere
 * else. Another site's page cannot send it without asking first.
 */
const WISH = 'x-boltgate-page'

/** Milliseconds between two looks at a row whose page is open; news of it within this process come at once. */
const LOOK_EVERY = 2_000
/** What has less time left is not shown again. */
const PAYABLE = 20_000
/** So long after its end an invoice may prove to have been paid in time. */
const LATE_NEWS = 3_600_000
const HOLDER_BYTES = 12

/**
 * A 402 that a person can pay: the page of a challenge, and what its browser gets once the invoice has been paid
 * (decisions 310 and 311). The page never learns a preimage and needs none: the gateway hears of the payment from its
 * provider, and takes the pass that it gave to this one browser for the credential. Everything fails closed: without a
 * genuine pass, a payment that is known and an offer that it buys, the response is the 402 of everybody.
 */
export class Paywall {
  readonly #parts: PaywallParts
  readonly #looks: ChargeLooks
  readonly #watchers = new Map<string, Set<() => void>>()

  constructor(parts: PaywallParts) {
    this.#parts = parts
    this.#looks = new ChargeLooks(parts)
  }

  /** Whether the 402 of a request is one for a person. */
  isForPerson(ctx: Context, refusal: SaleRefusal): boolean {
    if (refusal.kind !== 'none' && refusal.kind !== 'used-up') return false
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || ctx.upgrade !== null) return false
    // Whoever says how it pays, or has shown a credential, is a program that reads challenges.
    if (ctx.headers.has('accept-payment') || ctx.headers.has(WISH)) return false
    return (
      prefersHtml(ctx.headers.all('accept').join(',')) &&
      (refusal.kind === 'none' || readCredential(ctx.headers.pairs).kind === 'none')
    )
  }

  /**
   * What a browser's pass does for a request without a credential: null where it has none that helps, and the request
   * goes on unpaid. A reply is for the page's own program. The payment's use is leased and counted as of any credential.
   * @throws Unavailable (in the promise) when the database is away: nothing was used up
   */
  judge(ctx: Context, offer: Offer): Promise<Paid | Reply | null> | null {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return null
    const passes = passesIn(ctx, offer, this.#isSecure(ctx))
    return passes.length === 0 ? null : this.#judge(ctx, offer, passes)
  }

  /** The 402 as a page, with the same challenge lines as any. @throws as `Challenges.answer` */
  async answer(ctx: Context, offer: Offer, refusal: SaleRefusal): Promise<Reply> {
    const { clock, keys, random, settings, pages, sandbox } = this.#parts
    const isSecure = this.#isSecure(ctx)
    const known = await this.#known(passesIn(ctx, offer, isSecure))
    const now = clock.now()
    const open = known.find(challenge => this.#canBeShown(challenge, offer, now))
    const again = open === undefined ? null : sentAgain(open, keys())
    const challenge = again ?? (await this.#parts.challenge(ctx, offer, randomToken(HOLDER_BYTES, random)))
    const pass = passOf(challenge, keys())
    if (pass === null) throw new Error('The key ring does not know the generation of a challenge that it just wrote')
    const page = await pages({
      challenge,
      offer,
      now,
      host: ctx.host,
      target: ctx.target,
      languages: ctx.headers.get('accept-language') ?? '',
      isStillUnpaid: again !== null,
      again: again === null ? this.#why(known, refusal) : null,
      paysInSandbox: sandbox !== null && challenge.providerKind === 'sandbox' && isLocalCaller(ctx)
    })
    const schemes = offeredSchemes(settings(), ctx.headers, { order: offer.order })
    const seconds = Math.max(1, Math.floor((Math.max(challenge.tokenExpiresAt, challenge.expiresAt) - now) / 1000))
    const cookie = passCookie(offer, [pass, ...this.#stillHoped(known, offer, pass, now)], seconds, isSecure)
    return {
      status: 402,
      headers: [
        ...page.headers,
        ...challengeLines(challenge, schemes, settings()),
        'Vary',
        'Accept',
        // What HEAD asked to pay is not what the reader will be shown.
        ...(ctx.method === 'HEAD' ? [] : ['Set-Cookie', cookie])
      ],
      body: page.body
    }
  }

  /** Tells open pages of a payment; answers at once. */
  heard(paymentHash: string): void {
    for (const changed of this.#watchers.get(paymentHash) ?? []) changed()
  }

  async #judge(ctx: Context, offer: Offer, passes: readonly Pass[]): Promise<Paid | Reply | null> {
    const { passClaims } = this.#parts
    const known = await this.#known(passes)
    const wish = ctx.headers.get(WISH)
    if (wish !== undefined) return this.#granted(wish, ctx, offer, known)
    for (const challenge of known) {
      if (!passClaims.stands(challenge, offer)) continue
      if (!isPaid(challenge) && !(await this.#looks.isPaid(challenge))) continue
      const paid = await passClaims.claim(challenge, offer)
      if (paid !== null) return paid
    }
    return null
  }

  /** What the page's program asked for. */
  async #granted(wish: string, ctx: Context, offer: Offer, known: readonly Challenge[]): Promise<Reply | null> {
    const [newest] = known
    if (newest === undefined) return null
    if (wish === 'follow') {
      return {
        status: 200,
        headers: ['Content-Type', 'text/event-stream', ...EVENT_STREAM_HEADERS],
        // What is paid and yet not enough is no news.
        body: this.#follow([newest, ...known.slice(1).filter(challenge => !isPaid(challenge))], offer)
      }
    }
    const { sandbox } = this.#parts
    if (wish !== 'pay' || sandbox === null || newest.providerKind !== 'sandbox' || !isLocalCaller(ctx)) return null
    await sandbox.pay(newest.invoice)
    return { status: 204, headers: ['Cache-Control', 'no-store'], body: null }
  }

  /** Events with the state as their data: `unpaid`, `paid` or `over`; it ends after either of the latter. */
  #follow(known: readonly Challenge[], offer: Offer): StreamBody {
    const { clock, log } = this.#parts
    return eventStream({
      clock,
      begin: events => {
        let sent = ''
        let looking = false
        const look = async (): Promise<void> => {
          if (looking) return
          looking = true
          try {
            const state = await this.#stateOf(known, offer)
            if (state !== sent) events.send({ data: state })
            sent = state
            if (state !== 'unpaid') events.end()
          } catch (error) {
            log.warn({ err: error }, 'what became of a challenge could not be read for its page')
            events.end()
          } finally {
            looking = false
          }
        }
        const changed = (): void => {
          void look()
        }
        const unwatch = known.map(({ paymentHash }) => this.#watch(paymentHash, changed))
        const looks = clock.every(LOOK_EVERY, changed)
        changed()
        return () => {
          looks.cancel()
          for (const end of unwatch) end()
        }
      }
    })
  }

  async #stateOf(known: readonly Challenge[], offer: Offer): Promise<'unpaid' | 'paid' | 'over'> {
    const { claims, clock, passClaims } = this.#parts
    let canBePaid = false
    for (const { paymentHash } of known) {
      const challenge = await claims.find(paymentHash)
      if (challenge === null || !passClaims.stands(challenge, offer)) continue
      if (isPaid(challenge) || (await this.#looks.isPaid(challenge))) return 'paid'
      canBePaid ||= challenge.expiresAt > clock.now()
    }
    return canBePaid ? 'unpaid' : 'over'
  }

  #watch(paymentHash: string, changed: () => void): () => void {
    const watchers = this.#watchers.get(paymentHash) ?? new Set()
    this.#watchers.set(paymentHash, watchers)
    watchers.add(changed)
    return () => {
      watchers.delete(changed)
      if (watchers.size === 0) this.#watchers.delete(paymentHash)
    }
  }

  /** The challenges of genuine passes, as they stand. */
  async #known(passes: readonly Pass[]): Promise<Challenge[]> {
    const { claims, keys } = this.#parts
    const known: Challenge[] = []
    for (const pass of passes) {
      const challenge = await claims.find(pass.paymentHash)
      if (challenge !== null && isPassOf(pass, challenge, keys())) known.push(challenge)
    }
    return known
  }

  #canBeShown(challenge: Challenge, offer: Offer, now: number): boolean {
    return (
      !isPaid(challenge) &&
      challenge.expiresAt - now > PAYABLE &&
      isOfPrice(offer, challenge.amountSats, challenge.price) &&
      this.#parts.passClaims.stands(challenge, offer)
    )
  }

  /**
   * Passes that a new one must not take from a browser: their invoices may prove to have been paid, or were and buy
   * something yet.
   */
  #stillHoped(known: readonly Challenge[], offer: Offer, pass: Pass, now: number): Pass[] {
    return known
      .filter(
        challenge =>
          challenge.paymentHash !== pass.paymentHash &&
          (isPaid(challenge)
            ? challenge.state !== 'spent' && this.#parts.passClaims.stands(challenge, offer)
            : challenge.expiresAt > now - LATE_NEWS)
      )
      .map(challenge => passOf(challenge, this.#parts.keys()))
      .filter(older => older !== null)
      .slice(0, 1)
  }

  #why(known: readonly Challenge[], refusal: SaleRefusal): AskedAgain | null {
    if (refusal.kind === 'used-up') return 'used-up'
    return known.some(isPaid) ? 'over' : null
  }

  #isSecure(ctx: Context): boolean {
    return ctx.secure || this.#parts.isSecure()
  }
}

/** Whether a payment is known: from its provider, or by a credential that was verified. */
function isPaid({ settledAt, scheme }: Challenge): boolean {
  return settledAt !== null || scheme !== null
}
