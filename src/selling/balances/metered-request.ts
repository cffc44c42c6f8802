import { EventReader } from '../../engine/formats/event-reader.ts'
import type { LongError } from '../../engine/operations/errors.ts'
import type { UpstreamRequest } from '../../engine/pipeline/plugin.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { Timer } from '../../platform/system/clock.ts'
import { requestingUsage } from '../usage/forms.ts'
import type { Usage } from '../usage/usage.ts'
import { MeteredCharge, type MeteredChargeOptions, HeldStream } from './metered-charge.ts'
import { isBrokenUpload } from '../holding/paid-responses.ts'
import type { GrowthResult, Settled } from './ledger.ts'
import {
  BALANCE_HEADER,
  balanceUnavailable,
  balanceEvent,
  dropOurHeaders,
  LAST_CHARGED_HEADER,
  reportCharge,
  hasBody,
  usageOfHead,
  usedUp
} from './metered-head.ts'
import { readsBody } from './metered-body.ts'
import type { BodyFilter } from '../../engine/message/context.ts'
import type { EventUsage } from '../usage/events.ts'
import type { BalanceReservation } from './slice.ts'

interface MeteredOptions extends MeteredChargeOptions {
  /** Event streams of sessions go out event by event (`HeldStream`). */
  readonly isHeld: boolean
}

/** Limits, in milliseconds and bytes, for finishing an event after the balance is used up. */
const EVENT_ENDS = 1_000
const EVENT_REST = 16_384

/**
 * One request that takes from a balance. Its reservation grows while the response flows, and is settled once. An
 * exhausted balance ends the response.
 */
export class MeteredRequest {
  readonly #options: MeteredOptions
  readonly #charge: MeteredCharge
  #held: HeldStream | null = null
  /** The client did not request the usage report. */
  #hidesUsage = false
  #isFiltered = false
  /** Growing the reservation, or ending the response. */
  #growing: Promise<void> | null = null
  /** The balance is exhausted; an event stream may finish its event. */
  #isUsedUp = false
  #grace = EVENT_REST
  #timer: Timer | null = null

  constructor(options: MeteredOptions) {
    this.#options = options
    this.#charge = new MeteredCharge(options)
  }

  /** Charges these too; see `reserveBudgets`. */
  chargeAlso(budgets: readonly BalanceReservation[]): void {
    this.#charge.budgets = budgets
  }

  /** Releases the reservation of a request that is not forwarded. */
  abandon(): void {
    void this.#charge.settle(null, 0, 'reservation')
  }

  forwarding(out: UpstreamRequest): void {
    const { clock, ctx, meter } = this.#options
    this.#charge.forwardedAt = clock.monotonic()
    this.#options.metering.serve?.(out.model)
    if (readsBody(meter)) out.headers.set('Accept-Encoding', 'identity')
    // A partial response has no usage.
    if (meter.form !== null) out.headers.delete('range')
    const { collected } = ctx.body
    const body = meter.usage === 'openai' && collected !== null ? requestingUsage(collected) : null
    if (body === null) return
    out.body = body
    this.#hidesUsage = true
  }

  /** Settles and reports what is known with the head. */
  head(head: Head): void | Promise<void> {
    const { ctx, meter, reservation, ledger, metering } = this.#options
    dropOurHeaders(head)
    // Settled with the outcome.
    if (isBrokenUpload(ctx, head)) return
    const last = ledger.lastCharged(reservation.balanceId)
    const isSold = this.#charge.forwardedAt !== null ? head.source === 'upstream' : head.source !== 'error'
    const known = !isSold || head.status >= 400 ? null : usageOfHead(head, meter.usage, ctx.method)
    if (known !== null && meter.usage === 'bytes') {
      // A cost beyond the balance is counted as it flows, and cut.
      const grown = this.#charge.grow(metering.cost(known))
      if (grown instanceof Promise)
        return grown.then(later => this.#head(head, last, isSold, later === 'grown' ? known : null))
      if (grown !== 'grown') return this.#head(head, last, isSold, null)
    }
    return this.#head(head, last, isSold, known)
  }

  #head(head: Head, last: number | null, isSold: boolean, known: Usage | null): void | Promise<void> {
    const { meter, ctx, reservation, ledger, metering, isHeld } = this.#options
    const { usage } = meter
    const charge = this.#charge
    const left = ledger.left(reservation.balanceId)
    if (!isSold || head.status >= 400 || known !== null) {
      const chargedMsat = known === null ? 0 : metering.cost(known)
      if (hasBody(head, ctx.method) && left !== null && chargedMsat > 0 && chargedMsat <= reservation.msat) {
        charge.known = known
        if (usage === 'bytes') charge.open(head)
        reportCharge(head, { chargedMsat, leftMsat: left + reservation.msat - chargedMsat, unpaidMsat: 0 })
        return
      }
      const settled = charge.settle(known, chargedMsat, 'usage')
      if (settled instanceof Promise) return settled.then(later => reportCharge(head, later))
      reportCharge(head, settled)
      return
    }
    if (ctx.method !== 'HEAD') charge.open(head)
    if (isHeld && charge.isStream && charge.body?.hasUnits === true)
      this.#held = new HeldStream(charge, this.#options, this.#hidesUsage)
    else if (this.#hidesUsage) this.#filter(head)
    else if (usage === 'pieces' && charge.isStream && ctx.response !== null) {
      head.headers.delete('content-length')
      this.#isFiltered = true
      ctx.response.filter(
        out =>
          new EventByEvent(
            piece => this.#take(piece),
            () => charge.isSettled,
            out
          )
      )
    }
    if (left !== null) head.headers.append(BALANCE_HEADER, String(Math.max(0, left)))
    if (last !== null) head.headers.append(LAST_CHARGED_HEADER, String(last))
    if (usage === 'seconds') this.#tick()
  }

  #filter(head: Head): void {
    const events = this.#charge.body?.events ?? null
    const { response } = this.#options.ctx
    if (events === null || response === null) return
    head.headers.delete('content-length')
    this.#isFiltered = true
    response.filter(out => new UsageChunkFilter(events, bytes => this.#take(bytes), out))
  }

  /** The held event stream; null for other responses. Known with the head. */
  get held(): HeldStream | null {
    return this.#held
  }

  /** Returns a promise for back-pressure: on the ledger, or to end the response. */
  chunk(bytes: Uint8Array): void | Promise<void> {
    if (this.#held === null && !this.#isFiltered) return this.#take(bytes)
  }

  #take(bytes: Uint8Array): void | Promise<void> {
    this.#charge.take(bytes)
    if (this.#charge.isSettled) return this.#growing ?? undefined
    if (this.#isUsedUp) {
      this.#grace -= bytes.byteLength
      if (!this.#charge.isBetweenEvents && this.#grace > 0) return
      // These bytes go first.
      this.#growing = Promise.resolve().then(() => this.#end(usedUp()))
      return this.#growing
    }
    return this.#growing ?? this.#cover(this.#charge.soFarMsat)
  }

  /** Reserves each second that begins. */
  #tick(): void {
    const { clock, metering } = this.#options
    if (this.#charge.isSettled || this.#isUsedUp) return
    const elapsed = clock.monotonic() - (this.#charge.forwardedAt ?? clock.monotonic())
    if (this.#growing === null) void this.#cover(metering.cost({ input: 0, output: Math.floor(elapsed / 1000) + 1 }))
    this.#timer = clock.after(1000 - (elapsed % 1000), () => {
      this.#tick()
    })
  }

  #cover(msat: number): void | Promise<void> {
    const grown = this.#charge.grow(msat)
    if (grown === 'grown') return
    this.#growing = this.#covered(grown)
    return this.#growing
  }

  async #covered(growth: GrowthResult | Promise<GrowthResult>): Promise<void> {
    const grown = await growth
    this.#growing = null
    if (grown === 'grown' || this.#charge.isSettled) return
    if (grown === 'away') {
      await this.#end(balanceUnavailable())
      return
    }
    this.#isUsedUp = true
    if (!this.#charge.isStream || this.#charge.isBetweenEvents) {
      await this.#end(usedUp())
      return
    }
    this.#timer?.cancel()
    this.#timer = this.#options.clock.after(EVENT_ENDS, () => {
      if (!this.#charge.isSettled) this.#growing ??= this.#end(usedUp())
    })
  }

  /** Settles at what flowed and ends the response: event streams between events, others by an error. */
  async #end(error: LongError): Promise<void> {
    if (this.#charge.isSettled) return
    this.#timer?.cancel()
    this.#growing = this.#ended(error, this.#charge.settleRead(false))
    await this.#growing
  }

  async #ended(error: LongError, settling: Settled | Promise<Settled>): Promise<void> {
    const { chargedMsat, leftMsat } = await settling
    const last =
      this.#charge.isStream && this.#isUsedUp && this.#charge.isBetweenEvents
        ? balanceEvent({ used_up: true, charged_msat: chargedMsat, balance_msat: Math.max(0, leftMsat) })
        : null
    this.#options.ctx.response?.cut(error, last)
  }

  /** Event after the last of a stream; null for other responses, or while the charge is pending. */
  last(): Uint8Array | null {
    const charge = this.#charge
    if (charge.isSettled || this.#held !== null) return null
    // After an event without its blank line, ours would become a part of it.
    const isWhole = charge.isBetweenEvents
    this.#timer?.cancel()
    const settled = charge.settleRead(true)
    if (!charge.isStream || !isWhole || charge.known !== null || settled instanceof Promise) return null
    return balanceEvent({ charged_msat: settled.chargedMsat, balance_msat: Math.max(0, settled.leftMsat) })
  }

  done(outcome: Outcome): void {
    if (this.#charge.isSettled) return
    this.#timer?.cancel()
    if (this.#held?.settleShort() !== true) this.#charge.settleOutcome(outcome)
  }
}

/** Lets each event of a stream go once it is covered: one piece of a fast upstream may have thousands. */
class EventByEvent implements BodyFilter {
  readonly #take: (event: Uint8Array) => void | Promise<void>
  readonly #isOver: () => boolean
  readonly #out: (bytes: Uint8Array) => void
  readonly #ends: number[] = []
  #running: Promise<void> | undefined
  readonly #reader = new EventReader({ boundary: end => this.#ends.push(end) })

  constructor(
    take: (event: Uint8Array) => void | Promise<void>,
    isOver: () => boolean,
    out: (bytes: Uint8Array) => void
  ) {
    this.#take = take
    this.#isOver = isOver
    this.#out = out
  }

  write(bytes: Uint8Array): void | Promise<void> {
    this.#reader.feed(bytes)
    const ends = [...new Set([...this.#ends.splice(0), bytes.byteLength])]
    const events = ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
    for (const [at, event] of events.entries()) {
      if (this.#isOver()) return
      const pending = this.#take(event)
      if (pending !== undefined) {
        // Copies: the connection reuses its memory.
        const [first = Buffer.alloc(0), ...rest] = events.slice(at).map(own => Buffer.from(own))
        return (this.#running = this.#later(pending, first, rest))
      }
      this.#out(event)
    }
  }

  async #later(pending: Promise<void>, first: Uint8Array, rest: readonly Uint8Array[]): Promise<void> {
    await pending
    if (!this.#isOver()) this.#out(first)
    for (const event of rest) {
      if (this.#isOver()) return
      await this.#take(event)
      if (!this.#isOver()) this.#out(event)
    }
  }

  end(): void | Promise<void> {
    return this.#running
  }
}

/** A longer event is no usage report and passes in pieces. */
const LONGEST = 16_384

export class UsageChunkFilter implements BodyFilter {
  readonly #reader: EventUsage
  readonly #take: (bytes: Uint8Array) => void | Promise<void>
  readonly #out: (bytes: Uint8Array) => void
  #kept: Buffer[] = []
  #size = 0
  /** The start of this event has passed. */
  #isPassing = false

  /** `take` feeds the reader and returns a promise for back-pressure. */
  constructor(reader: EventUsage, take: (bytes: Uint8Array) => void | Promise<void>, out: (bytes: Uint8Array) => void) {
    this.#reader = reader
    this.#take = take
    this.#out = out
  }

  write(bytes: Uint8Array): void | Promise<void> {
    // Passed bytes begin at `from`, the current event at `at`.
    let [from, at] = [0, 0]
    this.#reader.onEvent = end => {
      if (this.#reader.isUsageChunk && !this.#isPassing) {
        if (at > from) this.#pass(bytes.subarray(from, at))
        this.#kept = []
        this.#size = 0
        from = end
      }
      this.#isPassing = false
      at = end
    }
    const pending = this.#take(bytes)
    this.#reader.onEvent = null
    if (at > from) this.#pass(bytes.subarray(from, at))
    const rest = bytes.subarray(at)
    if (rest.byteLength === 0) return pending
    this.#size += rest.byteLength
    if (this.#isPassing) this.#out(rest)
    else this.#kept.push(Buffer.from(rest))
    if (this.#size > LONGEST) {
      this.#flush()
      this.#isPassing = true
    }
    return pending
  }

  end(): void {
    this.#flush()
  }

  #pass(bytes: Uint8Array): void {
    this.#flush()
    this.#out(bytes)
  }

  #flush(): void {
    for (const piece of this.#kept) this.#out(piece)
    this.#kept = []
    this.#size = 0
  }
}
