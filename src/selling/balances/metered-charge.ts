import type { UsageConfig } from '../../engine/checks/meter.ts'
import type { Context } from '../../engine/message/context.ts'
import { ClientGone, ResponseTooLarge } from '../../engine/operations/errors.ts'
import type { Head, Outcome } from '../../engine/message/reply.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { UsageForm } from '../usage/forms.ts'
import type { Usage } from '../usage/usage.ts'
import type { Grown, Ledger, Settled } from './ledger.ts'
import type { Metering } from './meter.ts'
import { MeteredBody } from './metered-body.ts'
import type { BalanceReservation } from './slice.ts'
import type { EntryBasis } from './balance.ts'
import type { RequestsUnderWay } from './under-way.ts'

/** What a metered request is charged with. */
export interface MeteredChargeOptions {
  readonly ctx: Context
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
  readonly metering: Metering
  readonly reservation: BalanceReservation
  readonly usage: UsageConfig | 'pieces'
  /** How usage is read from a body; null where it is elsewhere or is counted. */
  readonly form: UsageForm | null
  /** Where the request holds a place, which it leaves when it is settled. */
  readonly underWay: RequestsUnderWay | null
}

/** What one request costs by what its response reports: grows its reservation meanwhile, and settles it once. */
export class MeteredCharge {
  /** Null before the head, and where nothing is read of the response. */
  body: MeteredBody | null = null
  /** When the request was forwarded, in the clock's monotonic milliseconds. */
  forwardedAt: number | null = null
  /** The usage as the head told it; charged once the response is over, which may break off. */
  known: Usage | null = null
  readonly #options: MeteredChargeOptions
  #received = 0
  #isSettled = false

  constructor(options: MeteredChargeOptions) {
    this.#options = options
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  /** An event stream that can be read. */
  get isStream(): boolean {
    return this.body?.isStream === true
  }

  get isCounted(): boolean {
    return this.body?.isCounted === true
  }

  get isBetweenEvents(): boolean {
    return this.#received === 0 || this.body?.isBetweenEvents === true
  }

  /** Reads the body of a response. */
  open(head: Head): void {
    const { usage, form, metering, log, ctx } = this.#options
    this.body = new MeteredBody(head, { usage, form, input: metering.input }, coding => {
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

  /** What the units cost that are known to have come out by now; 0 where a response reports only at its end. */
  get soFarMsat(): number {
    const { metering, usage } = this.#options
    if (usage === 'seconds') return 0
    const seen = this.body?.unitsOut ?? 0
    if (seen === 0) return 0
    return metering.cost({ input: this.isCounted ? 0 : metering.input, output: seen })
  }

  /** Reserves `msat` in all. */
  grow(msat: number): Grown | Promise<Grown> {
    const { ledger, reservation, metering } = this.#options
    const need = msat - reservation.msat
    return need <= 0 ? 'grown' : ledger.grow(reservation, need, metering.reservedMsat)
  }

  /** The usage of the response; of a part of it where it is not whole. Null where it was not reported. */
  read(isWhole: boolean): Usage | null {
    const { usage, clock } = this.#options
    // Of bytes that were announced those that came are charged where the rest does not.
    if (this.known !== null && (isWhole || !this.isCounted)) return this.known
    if (usage !== 'seconds') return this.body?.read(isWhole) ?? null
    const since = this.forwardedAt ?? clock.monotonic()
    return { input: 0, output: Math.ceil((clock.monotonic() - since) / 1000) }
  }

  /**
   * Settles a request that is over. A failed upstream is paid nothing. A client that left, or asked for more than the
   * gateway passes on, is charged where the upstream has its request: the work is done.
   */
  settleOutcome({ delivered, source, error }: Outcome): void {
    const isOfClient = error instanceof ClientGone || (source !== 'error' && error instanceof ResponseTooLarge)
    const isAbandoned = isOfClient && this.forwardedAt !== null
    if (delivered && source !== 'error') void this.settleRead(true)
    else if (isAbandoned || (this.isCounted && this.#received > 0)) void this.settleRead(false)
    else void this.settle(null, 0, 'usage')
  }

  /** With what the response reported, or what was counted; else with the reservation, but for one without a byte. */
  settleRead(isWhole: boolean): Settled | Promise<Settled> {
    const { metering } = this.#options
    const read = this.read(isWhole)
    if (read !== null) return this.settle(read, metering.cost(read), 'usage')
    if (isWhole && this.#received === 0) return this.settle(null, 0, 'usage')
    // A client that asks for no usage, or leaves before it is reported, pays no less than what it has seen.
    const seen = this.body?.seen ?? 0
    const seenMsat = seen === 0 ? 0 : metering.cost({ input: metering.input, output: seen })
    return this.settle(null, Math.max(metering.reservedMsat, seenMsat), 'reservation')
  }

  settle(usage: Usage | null, msat: number, basis: EntryBasis): Settled | Promise<Settled> {
    this.#isSettled = true
    const { ledger, reservation, metering, ctx, clock } = this.#options
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
    const { reservation, ctx, log, underWay } = this.#options
    underWay?.leave(reservation.balanceId, unpaidMsat > 0)
    if (unpaidMsat > 0)
      log.warn(
        { balance: reservation.balanceId, unpaidMsat, route: ctx.route.name },
        'A request used more than was left of its balance; the rest is lost'
      )
    return settled
  }
}
