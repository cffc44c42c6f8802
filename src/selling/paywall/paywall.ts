import { readerLanguage, type Language } from '../../engine/formats/language.ts'
import { prefersHtml } from '../../engine/message/accept.ts'
import type { Context } from '../../engine/message/context.ts'
import { EVENT_STREAM_HEADERS, eventStream } from '../../engine/formats/event-stream.ts'
import type { SandboxWallet } from '../../lightning/providers/open.ts'
import type { Reply, StreamBody } from '../../engine/message/reply.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Settlements } from '../holding/settlements.ts'
import type { Offer } from '../offers/offer.ts'
import { isOfPrice } from '../offers/price-grace.ts'
import { challengeLines, offeredSchemes } from '../minting/replies.ts'
import type { Challenge, SentChallenge } from '../holding/challenge.ts'
import type { SaleRefusal } from '../verifying/verdict.ts'
import type { Paid } from '../holding/paid-responses.ts'
import type { Minting } from '../minting/minting.ts'
import { sentAgain } from '../minting/wording.ts'
import type { Verifier, VerifierOptions } from '../verifying/verify.ts'
import { isPassOf, MOST_PASSES, PassClaims, passCookie, passesIn, passOf, type Pass } from './pass.ts'

/** Why a returning reader must pay again. */
type RepaymentReason = 'over' | 'used-up'

export interface PayPageRequest {
  readonly challenge: SentChallenge
  readonly offer: Offer
  readonly now: number
  readonly host: string
  readonly target: string
  /** Accept-Language; selects the currency. */
  readonly languages: string
  readonly language: Language
  readonly isStillUnpaid: boolean
  readonly again: RepaymentReason | null
  readonly paysInSandbox: boolean
}

export interface MadePage {
  readonly body: string
  /** Flat list, with Content-Type. */
  readonly headers: readonly string[]
}

export type ChallengePages = (request: PayPageRequest) => Promise<MadePage>

export interface PaywallContext {
  readonly pages: ChallengePages
  readonly sandbox: SandboxWallet | null
  isSecure(): boolean
}

interface PaywallOptions extends PaywallContext, VerifierOptions {
  readonly log: Log
  readonly random: Random
  readonly verifier: Verifier
  readonly minting: Minting
  readonly settlements: Settlements
}

/** Header of the page's script to its own address, where alone the pass is sent. Other sites need a CORS preflight. */
const WISH = 'x-boltgate-page'

/** Milliseconds between polls of a row with an open page; settlements in this process push. */
const LOOK_EVERY = 2_000
/** Minimum milliseconds left to show an invoice again. */
const PAYABLE = 20_000
/** Milliseconds after expiry in which a timely payment may be reported. */
const LATE_NEWS = 3_600_000
const HOLDER_BYTES = 12

/**
 * A 402 that a person can pay: a challenge's page, and access for its browser after the payment (decisions 310 and
 * 311). The page needs no preimage: the provider reports the payment, and this browser's pass is the credential. Fails
 * closed: without a genuine pass, a known payment and a matching offer, the response is the ordinary 402.
 */
export class Paywall {
  readonly #options: PaywallOptions
  readonly #passClaims: PassClaims
  readonly #watchers = new Map<string, Set<() => void>>()

  constructor(options: PaywallOptions) {
    const { settlements, verifier } = options
    this.#options = options
    this.#passClaims = new PassClaims(options, verifier.tokens)
    settlements.watch(paymentHash => {
      for (const changed of this.#watchers.get(paymentHash) ?? []) changed()
    })
  }

  isForPerson(ctx: Context, refusal: SaleRefusal): boolean {
    if (refusal.kind !== 'none' && refusal.kind !== 'used-up') return false
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || ctx.upgrade !== null) return false
    // Programs that read challenges send these, or a credential.
    if (ctx.headers.has('accept-payment') || ctx.headers.has(WISH)) return false
    return (
      prefersHtml(ctx.headers.all('accept').join(',')) &&
      (refusal.kind === 'none' || readCredential(ctx.headers.pairs).kind === 'none')
    )
  }

  /**
   * Applies a browser's pass to a request without a credential; null if none helps. Replies only to the page's own
   * script. The use is leased and counted as of any credential.
   * @throws Unavailable (in the promise) without the database: nothing was used up
   */
  judge(ctx: Context, offer: Offer): Promise<Paid | Reply | null> | null {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return null
    const passes = passesIn(ctx, offer, this.#isSecure(ctx))
    return passes.length === 0 ? null : this.#judge(ctx, offer, passes)
  }

  /**
   * The 402 as a page, with the usual challenge lines.
   * @throws as `Challenges.answer`
   */
  async answer(ctx: Context, offer: Offer, refusal: SaleRefusal): Promise<Reply> {
    const { clock, keys, minting, random, settings, pages, sandbox } = this.#options
    const isSecure = this.#isSecure(ctx)
    const known = await this.#known(passesIn(ctx, offer, isSecure))
    const now = clock.now()
    const open = known.find(challenge => this.#canBeShown(challenge, offer, now))
    const again = open === undefined ? null : sentAgain(open, keys())
    const challenge =
      again ?? (await minting.forRequest(ctx, offer, { holder: randomToken(HOLDER_BYTES, random) })).challenge
    const pass = passOf(challenge, keys())
    if (pass === null) throw new Error('The key ring does not know the generation of a challenge that it just wrote')
    const page = await pages({
      challenge,
      offer,
      now,
      host: ctx.host,
      target: ctx.target,
      languages: ctx.headers.get('accept-language') ?? '',
      language: readerLanguage(ctx.headers),
      isStillUnpaid: again !== null,
      again: again === null ? this.#why(known, offer, refusal) : null,
      paysInSandbox: challenge.providerKind === 'sandbox' && sandbox?.mayPay(ctx) === true
    })
    const schemes = offeredSchemes(settings(), ctx.headers, { order: offer.order })
    const seconds = Math.max(1, Math.floor((Math.max(challenge.tokenExpiresAt, challenge.expiresAt) - now) / 1000))
    const cookie = passCookie(offer, [pass, ...this.#keptPasses(known, pass, now)], seconds, isSecure)
    return {
      status: 402,
      headers: [
        ...page.headers,
        ...challengeLines(challenge, schemes, settings()),
        'Vary',
        'Accept, Accept-Language',
        // The page after a HEAD has another challenge.
        ...(ctx.method === 'HEAD' ? [] : ['Set-Cookie', cookie])
      ],
      body: page.body
    }
  }

  async #judge(ctx: Context, offer: Offer, passes: readonly Pass[]): Promise<Paid | Reply | null> {
    const passClaims = this.#passClaims
    const known = await this.#known(passes)
    const choice = ctx.headers.get(WISH)
    if (choice !== undefined) return this.#granted(choice, ctx, offer, known)
    for (const challenge of known) {
      if (!passClaims.holds(challenge, offer)) continue
      if (!isPaid(challenge) && !(await this.#options.polls.isPaid(challenge))) continue
      const paid = await passClaims.claim(challenge, offer)
      if (paid !== null) return paid
    }
    return null
  }

  async #granted(choice: string, ctx: Context, offer: Offer, known: readonly Challenge[]): Promise<Reply | null> {
    const [newest] = known
    if (newest === undefined) return null
    if (choice === 'follow') {
      return {
        status: 200,
        headers: ['Content-Type', 'text/event-stream', ...EVENT_STREAM_HEADERS],
        // An insufficient payment is not reported.
        body: this.#follow([newest, ...known.slice(1).filter(challenge => !isPaid(challenge))], offer)
      }
    }
    const { sandbox } = this.#options
    if (choice !== 'pay' || newest.providerKind !== 'sandbox' || sandbox?.mayPay(ctx) !== true) return null
    await sandbox.pay(newest.invoice)
    return { status: 204, headers: ['Cache-Control', 'no-store'], body: null }
  }

  /** Server-sent events `unpaid`, `paid` or `over`; ends after the latter two. */
  #follow(known: readonly Challenge[], offer: Offer): StreamBody {
    const { clock, log } = this.#options
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
        const polling = clock.every(LOOK_EVERY, changed)
        changed()
        return () => {
          polling.cancel()
          for (const end of unwatch) end()
        }
      }
    })
  }

  async #stateOf(known: readonly Challenge[], offer: Offer): Promise<'unpaid' | 'paid' | 'over'> {
    const { claims, clock } = this.#options
    let canBePaid = false
    for (const { paymentHash } of known) {
      const challenge = await claims.find(paymentHash)
      if (challenge === null || !this.#passClaims.holds(challenge, offer)) continue
      if (isPaid(challenge) || (await this.#options.polls.isPaid(challenge))) return 'paid'
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

  async #known(passes: readonly Pass[]): Promise<Challenge[]> {
    const { claims, keys } = this.#options
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
      this.#passClaims.holds(challenge, offer)
    )
  }

  /**
   * Passes that a new one must not replace: their invoices may still be reported as paid, or their payments still buy
   * something, if only at another price of the same service. Those that were paid come first.
   */
  #keptPasses(known: readonly Challenge[], pass: Pass, now: number): Pass[] {
    const kept = known.filter(
      challenge =>
        challenge.paymentHash !== pass.paymentHash &&
        (isPaid(challenge)
          ? challenge.state !== 'spent' && challenge.tokenExpiresAt > now
          : challenge.expiresAt > now - LATE_NEWS)
    )
    return [...kept.filter(isPaid), ...kept.filter(challenge => !isPaid(challenge))]
      .map(challenge => passOf(challenge, this.#options.keys()))
      .filter(older => older !== null)
      .slice(0, MOST_PASSES - 1)
  }

  #why(known: readonly Challenge[], { place }: Offer, refusal: SaleRefusal): RepaymentReason | null {
    if (refusal.kind === 'used-up') return 'used-up'
    return known.some(challenge => isPaid(challenge) && challenge.place === place) ? 'over' : null
  }

  #isSecure(ctx: Context): boolean {
    return ctx.secure || this.#options.isSecure()
  }
}

/** A payment is known, from the provider or a verified credential. */
function isPaid({ settledAt, scheme }: Challenge): boolean {
  return settledAt !== null || scheme !== null
}
