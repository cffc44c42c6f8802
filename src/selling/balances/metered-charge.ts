import type { Attributes } from '@opentelemetry/api'
import type { Context } from '../../engine/message/context.ts'
import { GatewayError, ResponseTooLarge, LongError } from '../../engine/operations/errors.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Use } from './entries.ts'
import type { Usage } from '../usage/usage.ts'
import type { GrowthResult, Ledger, Settled } from './ledger.ts'
import type { MeteredReading, Metering } from './meter.ts'
import { MeteredBody, readsBody } from './metered-body.ts'
import type { BalanceReservation } from './slice.ts'
import type { EntryBasis } from './balance.ts'
import { usedUp } from './metered-head.ts'
import { RATE_LIMITED } from '../../engine/operations/error-kinds.ts'

export interface MeteredChargeOptions {
  readonly ctx: Context
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
  readonly metering: Metering
  readonly reservation: BalanceReservation
  readonly meter: MeteredReading
  /** Concurrency slot that the request holds until it is settled. */
  readonly inFlight: ConcurrencyLimit | null
}

/** Cost of one request by its response: grows the reservation meanwhile and settles it once. */
export class MeteredCharge {
  /** Null before the head, and if the body is not read. */
  body: MeteredBody | null = null
  /** Monotonic milliseconds. */
  forwardedAt: number | null = null
  /** Usage from the head, charged at the end, since the response may break off. */
  known: Usage | null = null
  /** Of a narrowed key: charged beside the balance. Set before the request is forwarded. */
  budgets: readonly BalanceReservation[] = []
  readonly #options: MeteredChargeOptions
  #received = 0
  #isSettled = false

  constructor(options: MeteredChargeOptions) {
    this.#options = options
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  get isStream(): boolean {
    return this.body?.isStream === true
  }

  get isCounted(): boolean {
    return this.body?.isCounted === true
  }

  get isBetweenEvents(): boolean {
    return this.#received === 0 || this.body?.isBetweenEvents === true
  }

  open(head: Head): void {
    const { meter, metering, log, ctx } = this.#options
    this.body = new MeteredBody(head, meter, metering.input, coding => {
      log.warn(
        { route: ctx.route.name, coding },
        'The upstream compressed its response although it was asked not to; the reservation is charged'
      )
    })
  }

  take(bytes: Uint8Array): void {
    this.#received += bytes.byteLength
    if (!this.#isSettled) this.body?.take(bytes)
  }

  get soFarMsat(): number {
    const { metering, meter } = this.#options
    if (meter.usage === 'seconds') return 0
    const seen = this.body?.unitsOut ?? 0
    if (seen === 0) return 0
    return metering.cost({ input: this.isCounted ? 0 : metering.input, output: seen })
  }

  grow(msat: number): GrowthResult | Promise<GrowthResult> {
    const { reservation } = this.#options
    const need = msat - reservation.msat
    if (need <= 0) return 'grown'
    return this.budgets.length === 0 ? this.#growOwn(need) : this.#growAll(msat, need)
  }

  #growOwn(need: number): GrowthResult | Promise<GrowthResult> {
    const { ledger, reservation, metering } = this.#options
    return ledger.grow(reservation, need, metering.reservedMsat)
  }

  async #growAll(msat: number, need: number): Promise<GrowthResult> {
    for (const budget of this.budgets) {
      const lacking = msat - budget.msat
      const grown = lacking <= 0 ? 'grown' : await this.#options.ledger.grow(budget, lacking, lacking)
      if (grown !== 'grown') return grown
    }
    return await this.#growOwn(need)
  }

  /** Usage of the whole or partial response; null if not reported. */
  read(isWhole: boolean): Usage | null {
    const { meter, clock } = this.#options
    // A broken response with an announced length is charged by the bytes that came.
    if (this.known !== null && (isWhole || !this.isCounted)) return this.known
    if (meter.usage !== 'seconds') return this.body?.read(isWhole) ?? null
    const since = this.forwardedAt ?? clock.monotonic()
    return { input: 0, output: Math.ceil((clock.monotonic() - since) / 1000) }
  }

  /**
   * Settles a finished request. Upstream failures are free. If the client left, its upload broke off or its response
   * was too large, it pays once the upstream was sent the request, except for a HEAD whose body would be billed.
   */
  settleOutcome({ delivered, source, error }: Outcome): void {
    const isOfClient =
      (error instanceof GatewayError && error.status < 500) || (source !== 'error' && error instanceof ResponseTooLarge)
    const isAbandoned = isOfClient && this.#options.ctx.isSent && !this.#isBodiless
    if (delivered && source !== 'error') void this.settleRead(true)
    else if (isAbandoned || (this.isCounted && this.#received > 0)) void this.settleRead(false)
    else void this.settle(null, 0, 'usage')
  }

  get #isBodiless(): boolean {
    const { ctx, meter } = this.#options
    return ctx.method === 'HEAD' && meter.usage !== 'pieces' && (meter.usage === 'bytes' || readsBody(meter))
  }

  /** By reported or counted usage, else the reservation; an empty response without either is free. */
  settleRead(isWhole: boolean): Settled | Promise<Settled> {
    const { metering } = this.#options
    const read = this.read(isWhole)
    if (read !== null) return this.settle(read, metering.cost(read), 'usage')
    if (isWhole && this.#received === 0) return this.settle(null, 0, 'usage')
    // A client that skips the usage report pays at least for what it has seen.
    const seen = this.body?.seen ?? 0
    const seenMsat = seen === 0 ? 0 : metering.cost({ input: metering.input, output: seen })
    return this.settle(null, Math.max(metering.reservedMsat, seenMsat), 'reservation')
  }

  settle(usage: Usage | null, msat: number, basis: EntryBasis): Settled | Promise<Settled> {
    this.#isSettled = true
    const { ledger, reservation, metering, ctx, clock } = this.#options
    const use = {
      at: clock.now(),
      request: ctx.correlationId.slice(0, 100),
      model: metering.model,
      markup: metering.markup,
      input: usage?.input ?? null,
      output: usage?.output ?? null,
      basis
    }
    ctx.trace?.set(describe(this.#options.meter.usage, use))
    // No cost: the balance's entry has it.
    for (const budget of this.budgets) void ledger.settle(budget, msat, { ...use, markup: null })
    const settled = ledger.settle(reservation, msat, use)
    if (settled instanceof Promise) return settled.then(later => this.#noted(later))
    return this.#noted(settled)
  }

  #noted(settled: Settled): Settled {
    const { unpaidMsat } = settled
    const { reservation, ctx, log, inFlight } = this.#options
    inFlight?.leave(reservation.balanceId, unpaidMsat > 0)
    if (unpaidMsat > 0)
      log.warn(
        { balance: reservation.balanceId, unpaidMsat, route: ctx.route.name },
        'A request used more than was left of its balance; the rest is lost'
      )
    return settled
  }
}

export interface HeldCharge {
  readonly units: number
  readonly msat: number
}

/** An event stream whose events go out once the balance covers them. */
export class HeldStream {
  readonly #charge: MeteredCharge
  readonly #options: Pick<MeteredChargeOptions, 'ctx' | 'ledger' | 'metering' | 'reservation'>
  readonly #hidesUsage: boolean
  /** Covered by the balance; may go out. */
  #paid: Usage = { input: 0, output: 0 }
  #paidMsat = 0
  /** More was admitted than is covered. */
  #isShort = false

  /** `hidesUsage`: withholds usage reports that the client did not request. */
  constructor(charge: MeteredCharge, options: MeteredChargeOptions, hidesUsage: boolean) {
    this.#charge = charge
    this.#options = options
    this.#hidesUsage = hidesUsage
  }

  admit(event: Uint8Array): GrowthResult | Promise<GrowthResult> {
    this.#charge.take(event)
    return this.cover()
  }

  /** The last admitted event is a usage report that the client did not request. */
  get isHidden(): boolean {
    return this.#hidesUsage && this.#charge.body?.events?.isUsageChunk === true
  }

  /** Covers admitted events. A refusal may be retried; what is never covered is not charged. */
  cover(): GrowthResult | Promise<GrowthResult> {
    const msat = this.#charge.soFarMsat
    const usage = { input: this.#options.metering.input, output: this.#charge.body?.unitsOut ?? 0 }
    const grown = this.#charge.grow(msat)
    if (grown instanceof Promise) {
      this.#isShort = true
      return grown.then(later => this.#isCovered(later, usage, msat))
    }
    return this.#isCovered(grown, usage, msat)
  }

  #isCovered(grown: GrowthResult, usage: Usage, msat: number): GrowthResult {
    this.#isShort = grown !== 'grown'
    if (!this.#isShort) [this.#paid, this.#paidMsat] = [usage, msat]
    return grown
  }

  /** Settles a whole stream at its reported usage, any other at what was covered. */
  async finish(isWhole: boolean): Promise<HeldCharge> {
    const charge = this.#charge
    const read = isWhole && !this.#isShort ? charge.read(true) : null
    const { chargedMsat } = await (charge.isSettled
      ? { chargedMsat: this.#paidMsat }
      : this.#isShort
        ? charge.settle(this.#paid, this.#paidMsat, 'usage')
        : charge.settleRead(isWhole))
    const { input, output } = read ?? this.#paid
    return { units: charge.isCounted ? output : input + output, msat: chargedMsat }
  }

  /** Settles a broken stream at what was covered; false if that is everything. */
  settleShort(): boolean {
    if (this.#isShort) void this.#charge.settle(this.#paid, this.#paidMsat, 'usage')
    return this.#isShort
  }

  get leftMsat(): number {
    const { ledger, reservation } = this.#options
    return Math.max(0, ledger.left(reservation.balanceId) ?? 0)
  }

  get lackingMsat(): number {
    return Math.max(0, this.#charge.soFarMsat - this.#paidMsat)
  }

  /** Ends the response between events, after an error event. */
  cut(): void {
    this.#options.ctx.response?.cut(usedUp(), new Uint8Array(0))
  }
}

const MOST = 16
const MOST_WAITING = 64
const WAIT = 30_000

interface Waiter {
  readonly resolve: (isBorne: boolean) => void
}

interface Under {
  count: number
  waiting: Waiter[]
}

/**
 * Bounds concurrent requests of a balance whose cost is known only at their end. Images, files and earlier responses
 * escape the estimate; each request in flight can lose their cost.
 */
export class ConcurrencyLimit {
  readonly #clock: Clock
  readonly #balances = new Map<string, Under>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Returns null if a slot is free, else waits for one. Resolves with false, without a slot, if an earlier request
   * overran the balance.
   * @throws LongError 429 after 30 seconds, or if 64 requests wait
   */
  enter(balanceId: string): Promise<boolean> | null {
    let under = this.#balances.get(balanceId)
    if (under === undefined) this.#balances.set(balanceId, (under = { count: 0, waiting: [] }))
    if (under.count < MOST) {
      under.count++
      return null
    }
    return under.waiting.length < MOST_WAITING ? this.#wait(under) : Promise.reject(busy())
  }

  /** Frees a slot. `isShort`: the request overran the balance. */
  leave(balanceId: string, isShort: boolean): void {
    const under = this.#balances.get(balanceId)
    if (under === undefined) return
    if (isShort) for (const { resolve } of under.waiting.splice(0)) resolve(false)
    const next = under.waiting.shift()
    if (next !== undefined) next.resolve(true)
    else if (--under.count === 0) this.#balances.delete(balanceId)
  }

  async #wait(under: Under): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    const waiter = { resolve }
    under.waiting.push(waiter)
    const timer = this.#clock.after(WAIT, () => {
      under.waiting = under.waiting.filter(each => each !== waiter)
      reject(busy())
    })
    try {
      return await promise
    } finally {
      timer.cancel()
    }
  }
}

function busy(): LongError {
  return new LongError(
    RATE_LIMITED,
    'Balance busy',
    `More than ${MOST} requests of this balance are in flight. Nothing was charged; send the request again.`,
    { retryAfter: 5 },
    ['Retry-After', '5']
  )
}

/** Attributes of generative AI by OpenTelemetry's conventions; none for other units. */
function describe(usage: MeteredReading['usage'], { model, input, output }: Use): Attributes {
  if (usage !== 'openai' && usage !== 'anthropic' && usage !== 'gemini') return {}
  return {
    'gen_ai.provider.name': usage === 'gemini' ? 'gcp.gemini' : usage,
    ...(model === null ? {} : { 'gen_ai.request.model': model }),
    ...(input === null ? {} : { 'gen_ai.usage.input_tokens': input }),
    ...(output === null ? {} : { 'gen_ai.usage.output_tokens': output })
  }
}
