import type { Usage } from '../usage/usage.ts'
import type { MeteredCharge, MeteredChargeOptions } from './metered-charge.ts'
import type { GrowthResult } from './ledger.ts'
import { usedUp } from './metered-head.ts'

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
