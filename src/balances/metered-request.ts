import type { UsageConfig } from '../config/meter.ts'
import type { Context } from '../gateway/context.ts'
import { ClientGone, LongError, Unavailable } from '../gateway/errors.ts'
import { encodeEvent } from '../gateway/event-stream.ts'
import { tableOf } from '../gateway/header-names.ts'
import type { UpstreamRequest } from '../gateway/plugin.ts'
import type { Head, Outcome } from '../gateway/reply.ts'
import type { Clock, Timer } from '../system/clock.ts'
import { EventCount, EventUsage } from '../usage/events.ts'
import type { UsageForm } from '../usage/forms.ts'
import { JsonUsage } from '../usage/json.ts'
import { TAIL, units, type Usage, type UsageReader } from '../usage/usage.ts'
import type { Ledger, Grown, Settled } from './ledger.ts'
import type { BalanceReservation } from './slice.ts'
import type { Metering } from './meter.ts'
import type { EntryBasis } from './store.ts'

/** Headers of a metered response, in millisatoshis. */
export const BALANCE_HEADER = 'X-Balance-Msat'
export const CHARGED_HEADER = 'X-Charged-Msat'
/** What the request before was charged, where that could not be told with its own head. */
export const LAST_CHARGED_HEADER = 'X-Last-Charged-Msat'

const OUR_HEADERS = [BALANCE_HEADER, CHARGED_HEADER, LAST_CHARGED_HEADER].map(name => name.toLowerCase())
const OURS = tableOf(new Map(OUR_HEADERS.map(name => [name, true])), false)

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
  /** Told of what needs somebody's look: a response that could not be read, a loss. */
  warn(facts: object, text: string): void
}

/** Units of a response, and what they cost in millisatoshis. */
export interface HeldCharge {
  readonly units: number
  readonly msat: number
}

/** How long a stream that has used up its balance may go on for the end of an event. */
const EVENT_ENDS = 1_000

/**
 * One request that takes from a balance: what it reserved grows while its response flows, as far as the balance has it,
 * and is settled once, however it ends. Where nothing is left the response is ended (decision 260).
 */
export class MeteredRequest {
  readonly #parts: MeteredParts
  #reader: UsageReader | null = null
  /** Everything that flows is worth something, and not only what a response says at its end. */
  #isCounted = false
  #forwardedAt: number | null = null
  #received = 0
  #isStream = false
  #isSettled = false
  /** The last bytes of an event stream, by which the end of an event is known. */
  #tail = ''
  /** More is being asked for, or the response is being ended. */
  #asking: Promise<void> | null = null
  /** Nothing is left; an event stream goes on to the end of its event, for so many bytes at most. */
  #isUsedUp = false
  #grace = TAIL
  #timer: Timer | null = null
  /** What of a held stream is covered and may go out; and there is more that is not. */
  #paid: Usage = { input: 0, output: 0 }
  #paidMsat = 0
  #isShort = false
  #isHeld = false

  constructor(parts: MeteredParts) {
    this.#parts = parts
  }

  /** What is asked of the upstream must come so that it can be read. */
  forwarding(out: UpstreamRequest): void {
    this.#forwardedAt = this.#parts.clock.monotonic()
    if (this.#readsBody()) out.headers.set('Accept-Encoding', 'identity')
  }

  /** The head of the response: what is known by now is settled and told. */
  head(head: Head): void | Promise<void> {
    const { usage, reservation, ledger } = this.#parts
    // Nobody else's are believed.
    if (head.headers.pairs.some((name, at) => at % 2 === 0 && OURS.of(name)))
      for (const name of OUR_HEADERS) head.headers.delete(name)
    const last = ledger.lastCharged(reservation.balanceId)
    const isSold = this.#forwardedAt !== null ? head.source === 'upstream' : head.source !== 'error'
    const known = !isSold || head.status >= 400 ? null : this.#knownWith(head, usage)
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
    if (!isSold || head.status >= 400 || known !== null) {
      const settled = this.#settle(known, known === null ? 0 : this.#parts.metering.cost(known), 'usage')
      if (settled instanceof Promise) return settled.then(later => tell(head, later))
      tell(head, settled)
      return
    }
    if (ctx.method !== 'HEAD') this.#reader = this.#readerOf(head)
    this.#isHeld = this.#parts.isHeld && this.#isStream && this.#reader !== null
    const left = ledger.left(reservation.balanceId)
    if (left !== null) head.headers.append(BALANCE_HEADER, String(Math.max(0, left)))
    if (last !== null) head.headers.append(LAST_CHARGED_HEADER, String(last))
    if (usage === 'seconds') this.#tick()
  }

  /** Whether the events of this response go out one by one, by `admit`; known with its head. */
  get isHeldStream(): boolean {
    return this.#isHeld
  }

  /** Takes the next event of a held stream, and covers it if it can. */
  admit(event: Uint8Array): Grown | Promise<Grown> {
    this.#received += event.byteLength
    this.#reader?.chunk(event)
    return this.cover()
  }

  /** Covers what was admitted. What is refused may be asked for again; what is never covered is not charged. */
  cover(): Grown | Promise<Grown> {
    const msat = this.#soFarMsat()
    const usage = { input: this.#parts.metering.input, output: this.#unitsOut() }
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

  /** Units that came out by now. */
  #unitsOut(): number {
    if (this.#reader === null) return 0
    return this.#isCounted ? (this.#reader.read(false)?.output ?? 0) : this.#reader.seen
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
    if (this.#isHeld) return
    this.#received += bytes.byteLength
    if (this.#isStream) this.#tail = (this.#tail + latin1(bytes.subarray(-4))).slice(-4)
    if (this.#isSettled) return this.#asking ?? undefined
    this.#reader?.chunk(bytes)
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
    const seen = this.#unitsOut()
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
      await this.#end(away())
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
    return this.#received === 0 || /(?:\n\r?\n|\r\r)$/.test(this.#tail)
  }

  /** The event behind the last of a stream; null where the response is none, or the charge is not known at once. */
  last(): Uint8Array | null {
    if (this.#isSettled || this.#isHeld) return null
    const settled = this.#settleRead(true)
    if (!this.#isStream || settled instanceof Promise) return null
    return balanceEvent({ charged_msat: settled.chargedMsat, balance_msat: Math.max(0, settled.leftMsat) })
  }

  /**
   * The request is over. An upstream that failed is not paid for what it would have said at its end; a client that left
   * is charged what was reserved where the upstream has its request, for the work is done (decision 259).
   */
  done({ delivered, source, error }: Outcome): void {
    if (this.#isSettled) return
    if (this.#isShort) {
      void this.#settle(this.#paid, this.#paidMsat, 'usage')
      return
    }
    const isAbandoned = error instanceof ClientGone && this.#forwardedAt !== null
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
    const seen = this.#reader?.seen ?? 0
    const seenMsat = seen === 0 ? 0 : metering.cost({ input: metering.input, output: seen })
    return this.#settle(null, Math.max(metering.reservedMsat, seenMsat), 'reservation')
  }

  #read(isWhole: boolean): Usage | null {
    const { usage, clock } = this.#parts
    if (usage !== 'seconds') return this.#reader?.read(isWhole) ?? null
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
    if (settled.unpaidMsat > 0)
      this.#parts.warn(
        {
          balance: this.#parts.reservation.balanceId,
          unpaidMsat: settled.unpaidMsat,
          route: this.#parts.ctx.route.name
        },
        'A request used more than was left of its balance; the rest is lost'
      )
    return settled
  }

  #knownWith(head: Head, usage: UsageConfig | 'pieces'): Usage | null {
    if (usage === 'requests' || (usage === 'pieces' && (this.#parts.ctx.method === 'HEAD' || !isEventStream(head))))
      return { input: 0, output: 1 }
    if (typeof usage === 'object' && 'header' in usage) {
      const said = units(head.headers.get(usage.header.toLowerCase()))
      return said === null ? null : { input: 0, output: said }
    }
    if (usage !== 'bytes' || this.#parts.ctx.method === 'HEAD') return null
    // Its length is that of what was not sent.
    if (head.status === 304) return { input: 0, output: 0 }
    const length = units(head.headers.get('content-length'))
    return length === null ? null : { input: 0, output: length }
  }

  #readsBody(): boolean {
    const { form, usage } = this.#parts
    return form !== null || usage === 'events' || usage === 'pieces'
  }

  #readerOf(head: Head): UsageReader | null {
    const { usage, form } = this.#parts
    this.#isStream = isEventStream(head)
    this.#isCounted = usage === 'bytes' || usage === 'seconds' || usage === 'events' || usage === 'pieces'
    if (usage === 'bytes') return new ByteCount()
    if (!this.#readsBody()) return null
    const coding = head.headers.get('content-encoding')
    if (coding !== undefined && coding.trim().toLowerCase() !== 'identity') {
      this.#parts.warn(
        { route: this.#parts.ctx.route.name, coding },
        'The upstream compressed its response although it was asked not to; the reservation is charged'
      )
      this.#isCounted = false
      return null
    }
    if (usage === 'events') return new EventCount()
    if (usage === 'pieces') return new EventCount(true)
    if (form === null) return null
    return this.#isStream ? new EventUsage(form) : new JsonUsage(form)
  }
}

function isEventStream(head: Head): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(head.headers.get('content-type') ?? '')
}

/** Counts the bytes of a response's body. */
class ByteCount implements UsageReader {
  readonly seen = 0
  #bytes = 0

  chunk(bytes: Uint8Array): void {
    this.#bytes += bytes.byteLength
  }

  read(): Usage {
    return { input: 0, output: this.#bytes }
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function balanceEvent(facts: object): Uint8Array {
  return Buffer.from(encodeEvent({ event: 'balance', data: JSON.stringify(facts) }))
}

function usedUp(): LongError {
  return new LongError(402, 'Balance used up', 'The balance was used up while the response was sent.')
}

function away(): Unavailable {
  return new Unavailable(
    'Balance unavailable',
    'The balance could not be asked for more while the response was sent.',
    5
  )
}

function tell(head: Head, settled: Settled): void {
  head.headers.append(CHARGED_HEADER, String(settled.chargedMsat))
  head.headers.append(BALANCE_HEADER, String(Math.max(0, settled.leftMsat)))
}
