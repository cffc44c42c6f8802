import type { UsageConfig } from '../../engine/checks/meter.ts'
import type { Context } from '../../engine/message/context.ts'
import { ClientGone, ResponseTooLarge, type LongError } from '../../engine/operations/errors.ts'
import type { UpstreamRequest } from '../../engine/pipeline/plugin.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { UsageForm } from '../usage/forms.ts'
import { askingForUsage } from '../usage/request.ts'
import type { Usage } from '../usage/usage.ts'
import type { Ledger, Grown, Settled } from './ledger.ts'
import type { Metering } from './meter.ts'
import {
  BALANCE_HEADER,
  balanceAway,
  balanceEvent,
  dropOurHeaders,
  LAST_CHARGED_HEADER,
  reportCharge,
  hasBody,
  usageOfHead,
  usedUp
} from './metered-head.ts'
import { readsBody, MeteredBody } from './metered-body.ts'
import type { BalanceReservation } from './slice.ts'
import type { EntryBasis } from './store.ts'
import { UsageChunkFilter } from './usage-chunk-filter.ts'

/** What a metered request is settled with. */
export interface MeteredParts {
  readonly ctx: Context
  readonly ledger: Ledger
  readonly clock: Clock
  readonly metering: Metering
  readonly reservation: BalanceReservation
  readonly usage: UsageConfig | 'pieces'
  /** How usage is read from a body; null where it stands elsewhere or is counted. */
  readonly form: UsageForm | null
  /** Of a session: its event streams go out event by event, each once it is covered (`admit`). */
  readonly isHeld: boolean
  /** Logs a response that could not be read, or a loss. */
  warn(facts: object, text: string): void
  /** Called once, when the request is settled. `isShort`: the balance could not bear what it cost. */
  ended(isShort: boolean): void
}

/** Units of a response, and what they cost in millisatoshis. */
export interface HeldCharge {
  readonly units: number
  readonly msat: number
}

/** Milliseconds and bytes that a stream which has used up its balance may go on for, to the end of its event. */
const EVENT_ENDS = 1_000
const EVENT_REST = 16_384

/**
 * One request that takes from a balance: what it reserved grows while its response flows, as far as the balance has it,
 * and is settled once, however it ends. Where nothing is left the response is ended.
 */
export class MeteredRequest {
  readonly #parts: MeteredParts
  /** Null before the head, and where nothing is read of the response. */
  #body: MeteredBody | null = null
  #forwardedAt: number | null = null
  #received = 0
  #isSettled = false
  /** The request asks the upstream for usage that its client did not ask for. */
  #hidesUsage = false
  /** The body comes through a filter of ours. */
  #isFiltered = false
  /** The usage as the head told it; charged once the response is over, which may break off. */
  #known: Usage | null = null
  /** More is being asked for, or the response is being ended. */
  #asking: Promise<void> | null = null
  /** Nothing is left; an event stream goes on to the end of its event, for so many bytes at most. */
  #isUsedUp = false
  #grace = EVENT_REST
  #timer: Timer | null = null
  /** What of a held stream is covered and may go out; and there is more that is not. */
  #paid: Usage = { input: 0, output: 0 }
  #paidMsat = 0
  #isShort = false
  #isHeld = false

  constructor(parts: MeteredParts) {
    this.#parts = parts
  }

  /** Has the upstream send its response so that the usage can be read. */
  forwarding(out: UpstreamRequest): void {
    const { clock, ctx, usage } = this.#parts
    this.#forwardedAt = clock.monotonic()
    if (readsBody(this.#parts)) out.headers.set('Accept-Encoding', 'identity')
    // A part of a response leaves out its usage.
    if (this.#parts.form !== null) out.headers.delete('range')
    const { collected } = ctx.body
    const body = usage === 'openai' && collected !== null ? askingForUsage(collected) : null
    if (body === null) return
    out.body = body
    this.#hidesUsage = true
  }

  /** The head of the response: what is known by now is settled and told. */
  head(head: Head): void | Promise<void> {
    const { usage, reservation, ledger } = this.#parts
    dropOurHeaders(head)
    const last = ledger.lastCharged(reservation.balanceId)
    const isSold = this.#forwardedAt !== null ? head.source === 'upstream' : head.source !== 'error'
    const known = !isSold || head.status >= 400 ? null : usageOfHead(head, usage, this.#parts.ctx.method)
    if (known !== null && usage === 'bytes') {
      // More than the balance bears is counted as it flows, and ended there.
      const grown = this.#grow(this.#parts.metering.cost(known))
      if (grown instanceof Promise)
        return grown.then(later => this.#head(head, last, isSold, later === 'grown' ? known : null))
      if (grown !== 'grown') return this.#head(head, last, isSold, null)
    }
    return this.#head(head, last, isSold, known)
  }

  #head(head: Head, last: number | null, isSold: boolean, known: Usage | null): void | Promise<void> {
    const { usage, ctx, reservation, ledger } = this.#parts
    const left = ledger.left(reservation.balanceId)
    if (!isSold || head.status >= 400 || known !== null) {
      const chargedMsat = known === null ? 0 : this.#parts.metering.cost(known)
      if (hasBody(head, ctx.method) && left !== null && chargedMsat > 0 && chargedMsat <= reservation.msat) {
        this.#known = known
        if (usage === 'bytes') this.#body = this.#bodyOf(head)
        reportCharge(head, { chargedMsat, leftMsat: left + reservation.msat - chargedMsat, unpaidMsat: 0 })
        return
      }
      const settled = this.#settle(known, chargedMsat, 'usage')
      if (settled instanceof Promise) return settled.then(later => reportCharge(head, later))
      reportCharge(head, settled)
      return
    }
    if (ctx.method !== 'HEAD') this.#body = this.#bodyOf(head)
    this.#isHeld = this.#parts.isHeld && this.#isStream && this.#body?.hasUnits === true
    if (this.#hidesUsage && !this.#isHeld) this.#filter(head)
    if (left !== null) head.headers.append(BALANCE_HEADER, String(Math.max(0, left)))
    if (last !== null) head.headers.append(LAST_CHARGED_HEADER, String(last))
    if (usage === 'seconds') this.#tick()
  }

  /** Keeps the chunk that the client did not ask for from it. */
  #filter(head: Head): void {
    const events = this.#body?.events ?? null
    const { response } = this.#parts.ctx
    if (events === null || response === null) return
    head.headers.delete('content-length')
    this.#isFiltered = true
    response.filter(out => new UsageChunkFilter(events, bytes => this.#take(bytes), out))
  }

  /** Whether the events of this response go out one by one, by `admit`; known with its head. */
  get isHeldStream(): boolean {
    return this.#isHeld
  }

  /** Takes the next event of a held stream, and covers it if it can. */
  admit(event: Uint8Array): Grown | Promise<Grown> {
    this.#received += event.byteLength
    this.#body?.take(event)
    return this.cover()
  }

  /** Whether the event that was admitted last is a usage report that the client did not ask for. */
  get isHidden(): boolean {
    return this.#hidesUsage && this.#body?.events?.isUsageChunk === true
  }

  /** Covers what was admitted. What is refused may be asked for again; what is never covered is not charged. */
  cover(): Grown | Promise<Grown> {
    const msat = this.#soFarMsat()
    const usage = { input: this.#parts.metering.input, output: this.#body?.unitsOut ?? 0 }
    const grown = this.#grow(msat)
    if (grown instanceof Promise) {
      this.#isShort = true
      return grown.then(later => this.#isCovered(later, usage, msat))
    }
    return this.#isCovered(grown, usage, msat)
  }

  #isCovered(grown: Grown, usage: Usage, msat: number): Grown {
    this.#isShort = grown !== 'grown'
    if (!this.#isShort) [this.#paid, this.#paidMsat] = [usage, msat]
    return grown
  }

  /** Settles a held stream: at what it said when it came whole, else at what was covered. */
  async finish(isWhole: boolean): Promise<HeldCharge> {
    const read = isWhole && !this.#isShort ? this.#read(true) : null
    const { chargedMsat } = await (this.#isSettled
      ? { chargedMsat: this.#paidMsat }
      : this.#isShort
        ? this.#settle(this.#paid, this.#paidMsat, 'usage')
        : this.#settleRead(isWhole))
    const { input, output } = read ?? this.#paid
    return { units: this.#isCounted ? output : input + output, msat: chargedMsat }
  }

  /** Millisatoshis that are left of the balance as far as it is known here, and that a held stream lacks. */
  get leftMsat(): number {
    return Math.max(0, this.#parts.ledger.left(this.#parts.reservation.balanceId) ?? 0)
  }

  get lackingMsat(): number {
    return Math.max(0, this.#soFarMsat() - this.#paidMsat)
  }

  /** Ends a held stream between two events, of which the last has said why. */
  cut(): void {
    this.#parts.ctx.response?.cut(usedUp(), new Uint8Array(0))
  }

  /** A promise where the upstream must wait: for what the ledger says, or for the end. */
  chunk(bytes: Uint8Array): void | Promise<void> {
    if (!this.#isHeld && !this.#isFiltered) return this.#take(bytes)
  }

  #take(bytes: Uint8Array): void | Promise<void> {
    this.#received += bytes.byteLength
    if (this.#isSettled) return this.#asking ?? undefined
    this.#body?.take(bytes)
    if (this.#isUsedUp) {
      this.#grace -= bytes.byteLength
      if (!this.#isBetweenEvents() && this.#grace > 0) return
      // These bytes go first.
      this.#asking = Promise.resolve().then(() => this.#end(usedUp()))
      return this.#asking
    }
    return this.#asking ?? this.#cover(this.#soFarMsat())
  }

  /** What the units cost that are known to have come out by now; 0 where a response tells only at its end. */
  #soFarMsat(): number {
    const { metering, usage } = this.#parts
    if (usage === 'seconds') return 0
    const seen = this.#body?.unitsOut ?? 0
    if (seen === 0) return 0
    return metering.cost({ input: this.#isCounted ? 0 : metering.input, output: seen })
  }

  /** At every whole second: the one that begins must be reserved. */
  #tick(): void {
    const { clock, metering } = this.#parts
    if (this.#isSettled || this.#isUsedUp) return
    const elapsed = clock.monotonic() - (this.#forwardedAt ?? clock.monotonic())
    if (this.#asking === null) void this.#cover(metering.cost({ input: 0, output: Math.floor(elapsed / 1000) + 1 }))
    this.#timer = clock.after(1000 - (elapsed % 1000), () => {
      this.#tick()
    })
  }

  /** Sees to it that what a request costs by now is reserved, or that its response ends. */
  #cover(msat: number): void | Promise<void> {
    const grown = this.#grow(msat)
    if (grown === 'grown') return
    this.#asking = this.#covered(grown)
    return this.#asking
  }

  #grow(msat: number): Grown | Promise<Grown> {
    const { ledger, reservation, metering } = this.#parts
    const need = msat - reservation.msat
    return need <= 0 ? 'grown' : ledger.grow(reservation, need, metering.reservedMsat)
  }

  async #covered(asked: Grown | Promise<Grown>): Promise<void> {
    const grown = await asked
    this.#asking = null
    if (grown === 'grown' || this.#isSettled) return
    if (grown === 'away') {
      await this.#end(balanceAway())
      return
    }
    this.#isUsedUp = true
    if (!this.#isStream || this.#isBetweenEvents()) {
      await this.#end(usedUp())
      return
    }
    this.#timer?.cancel()
    this.#timer = this.#parts.clock.after(EVENT_ENDS, () => {
      if (!this.#isSettled) this.#asking ??= this.#end(usedUp())
    })
  }

  /** Settles at what flowed and ends the response: an event stream between its events, and anything else by a fault. */
  async #end(error: LongError): Promise<void> {
    if (this.#isSettled) return
    this.#asking = this.#ended(error, this.#settleRead(false))
    await this.#asking
  }

  async #ended(error: LongError, settling: Settled | Promise<Settled>): Promise<void> {
    const { chargedMsat, leftMsat } = await settling
    const last =
      this.#isStream && this.#isUsedUp && this.#isBetweenEvents()
        ? balanceEvent({ used_up: true, charged_msat: chargedMsat, balance_msat: Math.max(0, leftMsat) })
        : null
    this.#parts.ctx.response?.cut(error, last)
  }

  #isBetweenEvents(): boolean {
    return this.#received === 0 || this.#body?.isBetweenEvents === true
  }

  /** The event behind the last of a stream; null where the response is none, or the charge is not known at once. */
  last(): Uint8Array | null {
    if (this.#isSettled || this.#isHeld) return null
    // Behind an event without its blank line ours would become a part of it.
    const isWhole = this.#isBetweenEvents()
    const settled = this.#settleRead(true)
    if (!this.#isStream || !isWhole || this.#known !== null || settled instanceof Promise) return null
    return balanceEvent({ charged_msat: settled.chargedMsat, balance_msat: Math.max(0, settled.leftMsat) })
  }

  /**
   * Settles a request that is over. A failed upstream is paid nothing. A client that left, or asked for more than the
   * gateway passes on, is charged where the upstream has its request: the work is done.
   */
  done({ delivered, source, error }: Outcome): void {
    if (this.#isSettled) return
    if (this.#isShort) {
      void this.#settle(this.#paid, this.#paidMsat, 'usage')
      return
    }
    const isOfClient = error instanceof ClientGone || (source !== 'error' && error instanceof ResponseTooLarge)
    const isAbandoned = isOfClient && this.#forwardedAt !== null
    if (delivered && source !== 'error') void this.#settleRead(true)
    else if (isAbandoned || (this.#isCounted && this.#received > 0)) void this.#settleRead(false)
    else void this.#settle(null, 0, 'usage')
  }

  /** With what the response said, or what was counted; else with the reservation, but for an answer without a byte. */
  #settleRead(isWhole: boolean): Settled | Promise<Settled> {
    const { metering } = this.#parts
    const read = this.#read(isWhole)
    if (read !== null) return this.#settle(read, metering.cost(read), 'usage')
    if (isWhole && this.#received === 0) return this.#settle(null, 0, 'usage')
    // A client that asks for no usage, or leaves before it is said, pays no less than what it has seen.
    const seen = this.#body?.seen ?? 0
    const seenMsat = seen === 0 ? 0 : metering.cost({ input: metering.input, output: seen })
    return this.#settle(null, Math.max(metering.reservedMsat, seenMsat), 'reservation')
  }

  #read(isWhole: boolean): Usage | null {
    const { usage, clock } = this.#parts
    // Of bytes that were announced those that came are charged where the rest does not.
    if (this.#known !== null && (isWhole || !this.#isCounted)) return this.#known
    if (usage !== 'seconds') return this.#body?.read(isWhole) ?? null
    const since = this.#forwardedAt ?? clock.monotonic()
    return { input: 0, output: Math.ceil((clock.monotonic() - since) / 1000) }
  }

  #settle(usage: Usage | null, msat: number, basis: EntryBasis): Settled | Promise<Settled> {
    this.#isSettled = true
    this.#timer?.cancel()
    const { ledger, reservation, metering, ctx, clock } = this.#parts
    const settled = ledger.settle(reservation, msat, {
      at: clock.now(),
      request: ctx.correlationId.slice(0, 100),
      model: metering.model,
      input: usage?.input ?? null,
      output: usage?.output ?? null,
      basis
    })
    if (settled instanceof Promise) return settled.then(later => this.#noted(later))
    return this.#noted(settled)
  }

  #noted(settled: Settled): Settled {
    const { unpaidMsat } = settled
    const { reservation, ctx } = this.#parts
    this.#parts.ended(unpaidMsat > 0)
    if (unpaidMsat > 0)
      this.#parts.warn(
        { balance: reservation.balanceId, unpaidMsat, route: ctx.route.name },
        'A request used more than was left of its balance; the rest is lost'
      )
    return settled
  }

  get #isStream(): boolean {
    return this.#body?.isStream === true
  }

  get #isCounted(): boolean {
    return this.#body?.isCounted === true
  }

  #bodyOf(head: Head): MeteredBody {
    const { usage, form, metering, warn, ctx } = this.#parts
    return new MeteredBody(head, { usage, form, input: metering.input }, coding => {
      warn(
        { route: ctx.route.name, coding },
        'The upstream compressed its response although it was asked not to; the reservation is charged'
      )
    })
  }
}
