import type { MeterConfig } from '../../engine/checks/meter.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { Claims } from '../holding/claims.ts'
import type { Offers } from '../offers/offers.ts'
import type { Context, PaymentLimits, RequestOffer, RequestPayment } from '../../engine/message/context.ts'
import { REQUEST_MALFORMED } from '../../engine/operations/error-kinds.ts'
import { GatewayError, LongError, Unavailable } from '../../engine/operations/errors.ts'
import { hasPaidKey } from '../../engine/message/payment-headers.ts'
import type { Reply } from '../../engine/message/reply.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Ledger } from './ledger.ts'
import type { Refused, BalanceReservation } from './slice.ts'
import { refusedModel, reserveBudgets } from './budgets.ts'
import { Meter, type MeteredReading, type Metering } from './meter.ts'
import { MeteredRequest } from './metered-request.ts'
import type { BalanceStore } from './store.ts'
import { SubscriberUse, type Metered } from './subscriber-use.ts'
import { ConcurrencyLimit } from './metered-charge.ts'
import { defineError } from '../../platform/system/errors.ts'

const BALANCE_TOO_SMALL = defineError('BG_BALANCE_TOO_SMALL', {
  status: 400,
  title: 'Beyond a balance',
  cause: 'A metered request may cost more than one bundle holds. Nothing was charged.',
  fix: 'Request less, such as with a smaller `max_tokens`; the operator can raise `bundle`.'
})

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly balances: Balances
  }
}

export interface BalancesDependencies {
  readonly store: BalanceStore
  readonly ledger: Ledger
  readonly challenges: Pick<Challenges, 'answer' | 'refuseKey' | 'refusalOf'>
  readonly claims: Pick<Claims, 'find'>
  readonly offers: Pick<Offers, 'inSatoshis'>
  readonly quotes: Quotes
  readonly clock: Clock
  readonly log: Log
}

/** Reason of a session's refusal, with the missing millisatoshis. */
interface SessionShort extends Refused {
  readonly neededMsat: number
}

/** Meters requests that take from a balance: reserves before forwarding, settles at the end. */
export class Balances {
  readonly #dependencies: BalancesDependencies
  readonly #meters = new WeakMap<MeterConfig, Meter>()
  readonly #inFlight: ConcurrencyLimit

  constructor(dependencies: BalancesDependencies) {
    this.#dependencies = dependencies
    this.#inFlight = new ConcurrencyLimit(dependencies.clock)
  }

  /**
   * Reserves for a paid request of a metered route. Returns a 402 with a fresh challenge if the balance is too low, and
   * null if the request is unpaid or buys no balance. Counts those of subscribers. Synchronous if this gateway holds a slice and the reservation
   * does not depend on the body.
   * @throws LongError 400, 413 or 415 if the request is unreadable, costs more than a balance holds, or is an upgrade
   *   that cannot be metered; 429 if too many requests of the balance are in flight. Unavailable without database or
   *   rate.
   */
  begin(ctx: Context): Maybe<Metered | Reply | null> {
    const { offer, payment, principal } = ctx
    if (offer === null || offer.meter === null) return null
    if (payment === null) {
      if (principal?.kind !== 'subscriber') return null
      return new SubscriberUse(this.#meterOf(offer.meter), this.#dependencies.clock, ctx.method, usage => {
        principal.used = usage
      })
    }
    // Sessions have reserved already.
    if (ctx.isReserved) return null
    const meter = this.#meterOf(offer.meter)
    requireReadable(ctx, meter.usage)
    const limits = payment.limits ?? null
    if (limits !== null) return this.#beginLimited(ctx, offer, payment, limits, meter)
    const metering = meter.begin(ctx)
    return metering instanceof Promise
      ? metering.then(later => this.#reserve(ctx, payment, meter, later))
      : this.#reserve(ctx, payment, meter, metering)
  }

  /** See `Challenges.refusalOf`. */
  refusalOf(ctx: Context, error: unknown): Reply {
    return this.#dependencies.challenges.refusalOf(ctx, error)
  }

  /** Reserves from the budgets of a narrowed key too. */
  async #beginLimited(
    ctx: Context,
    offer: RequestOffer,
    payment: RequestPayment,
    limits: PaymentLimits,
    meter: Meter
  ): Promise<MeteredRequest | Reply> {
    const { challenges, claims } = this.#dependencies
    const metering = await meter.begin(ctx)
    const refused = await refusedModel(limits, ctx, metering, meter.config)
    if (refused !== null) return challenges.refuseKey(ctx, offer, refused)
    const begun = await this.#reserve(ctx, payment, meter, metering)
    if (!(begun instanceof MeteredRequest)) return begun
    let budgets: readonly BalanceReservation[] | string = ''
    try {
      // After the balance, so that only a key with money makes rows of budgets.
      budgets = await reserveBudgets(
        limits,
        metering.reservedMsat,
        () => claims.find(payment.paymentHash),
        this.#dependencies
      )
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(error)
    } finally {
      if (typeof budgets === 'string') begun.abandon()
    }
    if (typeof budgets === 'string') return challenges.refuseKey(ctx, offer, budgets)
    begun.chargeAlso(budgets)
    return begun
  }

  /**
   * Reserves from a session, which pays `unitMsat` for each response or event unless the route has a meter.
   * @throws as `begin`
   */
  async beginSession(ctx: Context, balanceId: string, unitMsat: number): Promise<MeteredRequest | SessionShort> {
    const config = ctx.offer?.meter ?? null
    const meter = config === null ? PIECES : this.#meterOf(config)
    requireReadable(ctx, meter.usage)
    const metering = meter instanceof Meter ? await meter.begin(ctx) : unitsOf(unitMsat)
    let answer: BalanceReservation | Refused
    try {
      answer = await this.#dependencies.ledger.reserve(balanceId, metering.reservedMsat)
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(error)
    }
    if (answer.kind === 'refused') return { ...answer, neededMsat: metering.reservedMsat }
    const turn = this.#turn(meter, answer)
    if (turn !== null && !(await this.#comes(turn, answer)))
      return {
        kind: 'refused',
        why: 'insufficient',
        leftMsat: this.#left(balanceId),
        neededMsat: metering.reservedMsat
      }
    return this.#metered(ctx, meter, metering, answer, true)
  }

  #meterOf(config: MeterConfig): Meter {
    let meter = this.#meters.get(config)
    if (meter === undefined) {
      meter = new Meter(config, this.#dependencies.quotes)
      this.#meters.set(config, meter)
    }
    return meter
  }

  #reserve(ctx: Context, payment: RequestPayment, meter: Meter, metering: Metering): Maybe<MeteredRequest | Reply> {
    const reserved = this.#dependencies.ledger.reserve(payment.paymentHash, metering.reservedMsat)
    return reserved instanceof Promise
      ? this.#later(reserved, ctx, payment, meter, metering)
      : this.#forward(ctx, meter, metering, reserved)
  }

  /** Forwards a request with its reservation, now or in its turn. */
  #forward(
    ctx: Context,
    meter: Meter,
    metering: Metering,
    reservation: BalanceReservation
  ): Maybe<MeteredRequest | Reply> {
    const turn = this.#turn(meter, reservation)
    if (turn === null) return this.#metered(ctx, meter, metering, reservation)
    return this.#forwardLater(turn, ctx, meter, metering, reservation)
  }

  async #forwardLater(
    turn: Promise<boolean>,
    ctx: Context,
    meter: Meter,
    metering: Metering,
    reservation: BalanceReservation
  ): Promise<MeteredRequest | Reply> {
    if (await this.#comes(turn, reservation)) return this.#metered(ctx, meter, metering, reservation)
    return await this.#usedUp(ctx, metering, this.#left(reservation.balanceId))
  }

  #turn(meter: MeteredReading, { balanceId }: BalanceReservation): Promise<boolean> | null {
    return meter.isReported ? this.#inFlight.enter(balanceId) : null
  }

  /** Waits for a turn; without one the reservation is released. */
  async #comes(turn: Promise<boolean>, reservation: BalanceReservation): Promise<boolean> {
    let comes = false
    try {
      return (comes = await turn)
    } finally {
      if (!comes) await this.#dependencies.ledger.release(reservation)
    }
  }

  #left(balanceId: string): number {
    return Math.max(0, this.#dependencies.ledger.left(balanceId) ?? 0)
  }

  async #later(
    pending: Promise<BalanceReservation | Refused>,
    ctx: Context,
    payment: RequestPayment,
    meter: Meter,
    metering: Metering
  ): Promise<MeteredRequest | Reply> {
    let answer: BalanceReservation | Refused
    try {
      answer = await pending
      if (answer.kind === 'refused' && answer.why === 'unknown' && (await this.#open(payment, meter)))
        answer = await this.#dependencies.ledger.reserve(payment.paymentHash, metering.reservedMsat)
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(error)
    }
    if (answer.kind === 'reserved') return await this.#forward(ctx, meter, metering, answer)
    return await this.#usedUp(ctx, metering, answer.leftMsat)
  }

  async #usedUp(ctx: Context, metering: Metering, balanceMsat: number): Promise<Reply> {
    const { offer, payment } = ctx
    if (offer === null || payment === null) throw new TypeError('a metered request is paid for an offer')
    await this.#requireAffordable(ctx, offer, metering)
    return await this.#dependencies.challenges.answer(ctx, offer, {
      kind: 'used-up',
      scheme: payment.scheme,
      balanceMsat,
      requiredMsat: metering.reservedMsat
    })
  }

  /** Refuses what a fresh balance could not bear: buying one would not help. Sessions and keys are topped up instead. */
  async #requireAffordable(ctx: Context, offer: RequestOffer, { reservedMsat }: Metering): Promise<void> {
    const bundleMsat = 1000 * (await this.#dependencies.offers.inSatoshis(offer))
    const canBeToppedUp = offer.sessions !== null || (offer.keys === true && hasPaidKey(ctx.headers))
    if (canBeToppedUp || reservedMsat <= bundleMsat) return
    throw new LongError(
      BALANCE_TOO_SMALL,
      'Beyond a balance',
      `This request may use up to ${reservedMsat} millisatoshis, and a balance here holds ${bundleMsat}; ask for less, such as by a smaller max_tokens. Nothing was charged.`
    )
  }

  /** Opens the balance of a payment, once; the payment is its first deposit. */
  async #open(payment: RequestPayment, meter: Meter): Promise<boolean> {
    const challenge = await this.#dependencies.claims.find(payment.paymentHash)
    const now = this.#dependencies.clock.now()
    if (challenge === null || challenge.scheme === null || challenge.tokenExpiresAt <= now) return false
    await openBundle(this.#dependencies.store, challenge, meter.config.unit, now)
    return true
  }

  #metered(
    ctx: Context,
    meter: MeteredReading,
    metering: Metering,
    reservation: BalanceReservation | Refused,
    isHeld = false
  ): MeteredRequest {
    if (reservation.kind !== 'reserved') throw new TypeError('a refusal comes with a promise')
    ctx.isReserved = true
    return new MeteredRequest({
      ctx,
      ledger: this.#dependencies.ledger,
      clock: this.#dependencies.clock,
      metering,
      reservation,
      meter,
      isHeld,
      log: this.#dependencies.log,
      inFlight: meter.isReported ? this.#inFlight : null
    })
  }
}

/** Opens the balance that a claimed challenge paid for, once. */
export async function openBundle(
  store: Pick<BalanceStore, 'open'>,
  { paymentHash, merchantId, proxyId, place, amountSats, tokenExpiresAt }: Challenge,
  unit: string,
  now: number
): Promise<void> {
  await store.open({
    id: paymentHash,
    kind: 'bundle',
    merchantId,
    proxyId,
    place,
    unit,
    depositedMsat: amountSats * 1000,
    openedAt: now,
    expiresAt: tokenExpiresAt
  })
}

/** Sessions of routes without a meter pay a flat price for each response or event. */
const PIECES: MeteredReading = { usage: 'pieces', form: null, isReported: false }

function unitsOf(unitMsat: number): Metering {
  return { model: null, markup: null, reservedMsat: unitMsat, input: 0, cost: ({ output }) => output * unitMsat }
}

function requireReadable({ upgrade }: Context, usage: MeteredReading['usage']): void {
  if (upgrade === null || usage === 'requests' || usage === 'seconds') return
  throw new LongError(
    REQUEST_MALFORMED,
    'Bad request',
    'Usage is read from responses, and an upgraded connection has no response. Send the request without Upgrade.'
  )
}

function unavailable(cause: unknown): Unavailable {
  return new Unavailable(
    'Balance unavailable',
    'The balance could not be asked at the moment; nothing was taken from it. Send the same request again.',
    5,
    {},
    cause
  )
}
