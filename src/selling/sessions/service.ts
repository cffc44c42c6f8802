import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Balances } from '../balances/service.ts'
import type { BalanceStore } from '../balances/store.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Offers } from '../offers/offers.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'
import type { Offer, RouteOffers } from '../offers/offer.ts'
import { isUniqueViolation, type Database } from '../../platform/database/database.ts'
import type { Context } from '../../engine/message/context.ts'
import { KeptResponse } from '../../engine/message/kept-response.ts'
import { LongError } from '../../engine/operations/errors.ts'
import type { Reply } from '../../engine/message/reply.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import { preimageMatches } from '../../lightning/codecs/hmac.ts'
import {
  checkReturnInvoice,
  parseSessionToken,
  type SessionCredential,
  type SessionPayload
} from '../../lightning/payment-scheme/session-credential.ts'
import {
  closedBody,
  encodeSessionReceipt,
  type SessionRefund,
  TOPPED_UP
} from '../../lightning/payment-scheme/session-challenge.ts'
import { StateUnavailable, type State } from '../../platform/state/state.ts'
import type { SessionCounters } from './open.ts'
import {
  networkOf,
  paidDeposit,
  type DepositDependencies,
  closedRefusal,
  SessionActionRefused,
  unknownRefusal,
  usedRefusal
} from './deposits.ts'
import type { SessionNews } from './news.ts'
import type { RefundOverrides } from './refund-rules.ts'
import { TOUCH_EACH, type SessionRefunds } from './refunds.ts'
import { SessionSale } from './sale.ts'
import type { SessionStore } from './store.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly prepaidSessions: PrepaidSessions
  }
}

export interface PrepaidSessionsDependencies extends DepositDependencies {
  readonly store: SessionStore
  readonly refunds: SessionRefunds
  readonly overrides: RefundOverrides
  readonly balances: Balances
  readonly balanceStore: BalanceStore
  readonly challenges: Pick<Challenges, 'answer'>
  readonly challengeStore: Pick<ChallengeStore, 'claim'>
  readonly offers: Pick<Offers, 'inSatoshis'>
  readonly database: Database
  readonly state: State
  readonly news: SessionNews
  readonly counters: SessionCounters
}

type Credential<A extends SessionPayload['action']> = SessionCredential & { readonly payload: PayloadOf<A> }
type PayloadOf<A> = Exclude<SessionPayload, { readonly action: Exclude<SessionPayload['action'], A> }>

/** A session last seen open here; the ledger knows when that ends. */
interface Known {
  readonly idleMs: number
  touchedAt: number
}

const KNOWN = 100_000
/** Milliseconds after which the claim of a repeated open expires, should its holder die. */
const CLAIMED = 300_000
/** A session ends this long before its return invoice, or a tenth of its life, to leave time for the refund. */
const END_BEFORE = 600_000
/** Maximum life. */
const LONGEST = 90 * 86_400_000
const JSON_UNKEPT = ['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store']

/**
 * Prepaid sessions (draft-lightning-session-00): opens them with a deposit, serves requests, adds deposits and closes.
 * A credential is validated before anything is consumed; uncertainty is 503.
 */
export class PrepaidSessions {
  readonly #dependencies: PrepaidSessionsDependencies
  readonly #known = new LRUCache<string, Known>({ max: KNOWN })

  constructor(dependencies: PrepaidSessionsDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Handles a credential of the session intent; null for other requests. Returns a reply to topUp, close, a repeated
   * open with a kept response, and refusals, which carry fresh challenges.
   * @throws Unavailable, and what the offer or the meter throws
   */
  begin(ctx: Context, offers: RouteOffers): Promise<SessionSale | Reply | null> | null {
    // A paid key beside a session is two credentials, which `credential` refuses.
    const credential = readCredential(ctx.headers.pairs, offers.takesKeys)
    const parsed = credential.kind === 'modern' ? parseSessionToken(credential.token, credential.inOwnField) : null
    return parsed === null ? null : this.#begin(ctx, offers, parsed)
  }

  async #begin(
    ctx: Context,
    offers: RouteOffers,
    parsed: NonNullable<ReturnType<typeof parseSessionToken>>
  ): Promise<SessionSale | Reply | null> {
    try {
      if (!parsed.ok) throw new SessionActionRefused(parsed.slug, parsed.detail)
      return await this.#act(ctx, offers, parsed.credential)
    } catch (error) {
      if (!(error instanceof SessionActionRefused)) throw error
      const offer = await offers.due(ctx)
      // A free request needs no session.
      if (offer === null) return null
      const { slug, message: detail, shortage } = error
      return await this.#dependencies.challenges.answer(ctx, offer, {
        kind: 'session',
        slug,
        detail,
        ...(shortage === null ? {} : { shortage })
      })
    }
  }

  async #act(ctx: Context, offers: RouteOffers, credential: SessionCredential): Promise<SessionSale | Reply | null> {
    const { payload } = credential
    switch (payload.action) {
      case 'open':
        return await this.#open(ctx, offers, { ...credential, payload })
      case 'bearer':
        return await this.#bearer(ctx, offers, payload.sessionId, payload.preimage)
      case 'topUp':
        return await this.#topUp({ ...credential, payload })
      case 'close':
        return await this.#close(credential.echo.id, payload)
    }
  }

  async #open(ctx: Context, offers: RouteOffers, credential: Credential<'open'>): Promise<SessionSale | Reply | null> {
    const { store, clock } = this.#dependencies
    const { echo, payload, request } = credential
    const challenge = await paidDeposit(this.#dependencies, credential, payload.preimage)
    const id = challenge.paymentHash
    const offer = await offers.due(ctx)
    if (offer === null) return null
    const before = await store.find(id)
    if (before === null) {
      const unitSats = offer.meter === null ? await this.#dependencies.offers.inSatoshis(offer) : 1
      if (challenge.amountSats < Math.max(unitSats, request.unitSats))
        throw new SessionActionRefused(
          'lightning/insufficient-balance',
          `A deposit of ${challenge.amountSats} satoshis does not pay for a unit of ${unitSats}`
        )
      const { sessions } = offer
      if (sessions === null) throw new TypeError('sessions are opened at routes that offer them')
      const invoice = payload.returnInvoice.toLowerCase()
      const fault = checkReturnInvoice(invoice, networkOf(challenge), clock.now() / 1000)
      if (fault !== null) throw new SessionActionRefused('lightning/invalid-return-invoice', fault)
      await this.#store(challenge, echo.id, invoice, sessions.idle, offer)
    } else if (before.openChallenge !== echo.id) throw usedRefusal()
    const kept = await this.#kept(ctx, echo.id)
    if (kept !== null && 'status' in kept) return kept
    let served: SessionSale | Reply | null = null
    try {
      served = await this.#bearer(ctx, offers, id, payload.preimage)
      return served
    } finally {
      if (served instanceof SessionSale) served.kept = kept
      else await kept?.abandon()
    }
  }

  async #store(
    challenge: Challenge,
    openChallenge: string,
    returnInvoice: string,
    idleMs: number,
    offer: Offer
  ): Promise<void> {
    const { store, balanceStore, challengeStore, claims, database, clock, counters, log } = this.#dependencies
    const now = clock.now()
    const { paymentHash: id, amountSats } = challenge
    const { paymentHash: returnHash, expiresAt } = decodeInvoice(returnInvoice, { zeroAmount: true })
    const life = expiresAt * 1000 - now
    const claimed = await database
      .transaction(async sql => {
        const claim = await challengeStore.claim(sql, { paymentHash: id, scheme: 'payment', now })
        const isNew =
          claim !== null &&
          (await balanceStore.open(
            {
              id,
              kind: 'session',
              merchantId: null,
              proxyId: null,
              place: offer.place,
              unit: offer.meter?.unit ?? offer.sessions?.unit ?? 'request',
              depositedMsat: amountSats * 1000,
              openedAt: now,
              expiresAt: now + Math.min(LONGEST, life - Math.min(END_BEFORE, life / 10))
            },
            sql
          ))
        if (!isNew) throw usedRefusal()
        await store.open(sql, {
          id,
          openChallenge,
          network: networkOf(challenge),
          chargeId: challenge.chargeId,
          providerSlot: challenge.providerSlot,
          providerKind: challenge.providerKind,
          openedAt: now,
          idleMs,
          returnInvoice,
          returnHash
        })
        return claim
      })
      .catch(async (error: unknown) => {
        if (isUniqueViolation(error, 'sessions_return_hash'))
          throw new SessionActionRefused(
            'lightning/invalid-return-invoice',
            'Another session is paid back to this invoice, and an invoice can be paid once'
          )
        // The same credential was used concurrently.
        const before = error instanceof SessionActionRefused ? await store.find(id) : null
        if (before?.openChallenge === openChallenge) return null
        throw error
      })
    if (claimed === null) return
    claims.count(claimed, 'payment')
    counters.opened(amountSats)
    log.info({ session: id, depositSats: amountSats }, 'A session was opened')
  }

  /**
   * Response to an earlier request with the same open, else where to keep this one, null if impossible. The rows guard
   * the money; a response that was not kept is served again.
   */
  async #kept(ctx: Context, challengeId: string): Promise<Reply | KeptResponse | null> {
    const { state, log } = this.#dependencies
    const key = `session open ${challengeId}`
    const fingerprint = hash(
      'sha256',
      Buffer.concat([Buffer.from(`${ctx.method} ${ctx.target}\n`), await ctx.body.bytes()])
    )
    try {
      const begun = await state.begin(key, fingerprint, CLAIMED)
      if (begun.kind === 'replay')
        return { status: begun.record.status, headers: begun.record.headers.flat(), body: begun.record.body }
      if (begun.kind !== 'run') return null
      const failed = (error: unknown): void => {
        log.warn({ err: error }, 'The response to the opening of a session could not be kept')
      }
      return new KeptResponse({ state, key, token: begun.token, failed })
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      log.warn({ err: error }, 'The response that opened a session cannot be stored: the shared state is down')
      return null
    }
  }

  async #bearer(ctx: Context, offers: RouteOffers, id: string, preimage: string): Promise<SessionSale | Reply | null> {
    const { balances, clock, news, counters, offers: prices } = this.#dependencies
    const known = this.#known.get(id) ?? (await this.#find(id))
    if (!preimageMatches(preimage, id))
      throw new SessionActionRefused('lightning/invalid-preimage', 'The preimage is not that of the session')
    this.#refuseRevoked(id)
    const offer = await offers.due(ctx)
    if (offer === null) return null
    const unitSats = offer.meter === null ? await prices.inSatoshis(offer) : 1
    const begun = await balances.beginSession(ctx, id, unitSats * 1000)
    if ('why' in begun) {
      this.#known.delete(id)
      if (begun.why === 'insufficient')
        throw new SessionActionRefused(
          'lightning/insufficient-balance',
          `The balance of the session does not suffice: ${begun.leftMsat} millisatoshis are free, ${begun.neededMsat} are needed`,
          { balanceMsat: begun.leftMsat, requiredMsat: begun.neededMsat }
        )
      throw begun.why === 'unknown' ? unknownRefusal() : closedRefusal()
    }
    this.#touch(id, known)
    ctx.payment = { scheme: 'session', paymentHash: id, amountSats: unitSats }
    return new SessionSale({
      ctx,
      id,
      metered: begun,
      clock,
      news,
      counters,
      standing: async () => await this.#dependencies.store.find(id),
      used: () => {
        this.#touch(id, known)
      }
    })
  }

  /** A revoked session serves nothing; it is closed when idle or by its client. */
  #refuseRevoked(id: string): void {
    if (this.#dependencies.revocations.hasPayment(id))
      throw new SessionActionRefused(
        'lightning/session-closed',
        'The session was revoked; what is left of it is paid back'
      )
  }

  async #find(id: string): Promise<Known> {
    const session = await this.#dependencies.store.find(id)
    if (session === null) throw unknownRefusal()
    if (session.closedAt !== null) throw closedRefusal()
    const known = { idleMs: session.idleMs, touchedAt: session.usedAt }
    this.#known.set(id, known)
    return known
  }

  #touch(id: string, known: Known): void {
    const { store, clock, log } = this.#dependencies
    const now = clock.now()
    if (now - known.touchedAt < known.idleMs * TOUCH_EACH) return
    known.touchedAt = now
    store.touch(id, now).catch((error: unknown) => {
      log.warn({ session: id, err: error }, 'The use of a session could not be noted')
    })
  }

  async #topUp(credential: Credential<'topUp'>): Promise<Reply> {
    const { store, balanceStore, challengeStore, claims, database, clock, counters, news, log } = this.#dependencies
    const { payload } = credential
    const { sessionId: id } = payload
    const challenge = await paidDeposit(this.#dependencies, credential, payload.topUpPreimage)
    const { paymentHash, amountSats } = challenge
    if ((await store.find(id)) === null) throw unknownRefusal()
    this.#refuseRevoked(id)
    const claimed = await database.transaction(async sql => {
      const now = clock.now()
      const claim = await challengeStore.claim(sql, { paymentHash, scheme: 'payment', now })
      const isIn = paymentHash !== id && (await balanceStore.topUp(id, paymentHash, amountSats * 1000, now, sql))
      if (claim === null || !isIn)
        throw (await store.find(id, sql))?.closedAt === null ? usedRefusal() : closedRefusal()
      await store.touch(id, now, sql)
      return claim
    })
    // A repetition gets the same answer and changes nothing.
    if (claimed.first) {
      claims.count(claimed, 'payment')
      counters.toppedUp(amountSats)
      log.info({ session: id, depositSats: amountSats }, 'A session was topped up')
    }
    await news.tell(id)
    return this.#replied(id, TOPPED_UP, null)
  }

  async #close(challengeId: string, { sessionId: id, preimage, returnInvoice }: PayloadOf<'close'>): Promise<Reply> {
    const { store, refunds, overrides, clock } = this.#dependencies
    const session = await store.find(id)
    if (session === null) throw unknownRefusal()
    const isOpener = session.openChallenge === challengeId
    if (session.closedAt !== null && session.closeChallenge !== challengeId && !isOpener) throw closedRefusal()
    if (!preimageMatches(preimage, id))
      throw new SessionActionRefused('lightning/invalid-preimage', 'The preimage is not that of the session')
    if (returnInvoice !== null) {
      const fault = isOpener
        ? checkReturnInvoice(returnInvoice, session.network, clock.now() / 1000)
        : 'Nodes on the way of a payment learn its preimage: only the challenge that opened the session may name another return invoice'
      if (fault !== null) throw new SessionActionRefused('lightning/invalid-return-invoice', fault)
    }
    if (session.closedAt === null && !(await refunds.close(id, 'client', challengeId)) && !isOpener) {
      const now = await store.find(id)
      if (now?.closeChallenge !== challengeId) throw closedRefusal()
    }
    this.#known.delete(id)
    if (returnInvoice !== null && returnInvoice.toLowerCase() !== session.returnInvoice)
      await overrides.sendAgain(id, returnInvoice).catch((error: unknown) => {
        if (!(error instanceof LongError)) throw error
        if (error.status === 400) throw new SessionActionRefused('lightning/invalid-return-invoice', error.message)
        // It was sent, or may have been: the reply says so.
        if (error.status !== 409) throw error
      })
    return this.#replied(id, null, await store.tell(id, await refunds.refund(id)))
  }

  #replied(id: string, body: object | null, refund: SessionRefund | null): Reply {
    const receipt = encodeSessionReceipt(id, Math.floor(this.#dependencies.clock.now() / 1000), refund)
    return {
      status: 200,
      headers: [...JSON_UNKEPT, 'Payment-Receipt', receipt],
      body: JSON.stringify(refund === null ? body : closedBody(refund))
    }
  }
}
