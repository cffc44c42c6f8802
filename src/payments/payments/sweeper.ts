import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { PaymentKey } from './changes.ts'
import type { DuePayment, PaymentStore, ProviderSeatName } from './store.ts'

/**
 * Milliseconds after which it looks again even when nothing is known to fall due: another process may have made a
 * payment.
 */
const REGULARLY = 30_000
/** Shortest rest between two runs, in milliseconds, whatever is due. */
const SHORTEST = 20
/** Payments that are read at once. */
const BATCH = 100
/**
 * Milliseconds after its end after which a payment expires without its provider's answer: where the provider can never
 * answer, because the account has no key for it any more, and where it merely does not (decision 178).
 */
export const ANSWERLESS = 15 * 60_000
const SILENT = 12 * 3_600_000

/** What a sweeper works with. */
export interface SweeperParts {
  readonly store: PaymentStore
  readonly clock: Clock
  readonly log: Log
  /** Seats whose payments a poller asks the provider about. */
  polled(): readonly ProviderSeatName[]
  /** Writes down what time has done to one payment, in a transaction of its own. */
  record(key: PaymentKey): Promise<unknown>
  /** Asks the provider of one payment, if it can be asked, and records the answer. Rejects when it does not answer. */
  ask(key: PaymentKey): Promise<unknown>
}

/**
 * Confirms demo payments and records expiries soon after they fall due. Several processes may sweep at once.
 *
 * A payment expires only once its provider has reported after its end that nothing was paid, or cannot be asked any
 * more: during an outage of either side a payment may have arrived that is not known here yet (decision 178).
 */
export class Sweeper {
  readonly #parts: SweeperParts
  #running: Promise<void> | null = null
  #timer: Timer | null = null
  #timerAt = 0
  #started = false
  /** Since when this gateway asks, in milliseconds since the epoch. */
  readonly #asksSince: number

  constructor(parts: SweeperParts) {
    this.#parts = parts
    this.#asksSince = parts.clock.now()
  }

  /** Begins to sweep, at once; more often than once is harmless. */
  start(): void {
    if (this.#started) return
    this.#started = true
    this.wakeAt(this.#parts.clock.now())
  }

  /** Sweeps at this time, in milliseconds since the epoch, or a little later. */
  wakeAt(time: number): void {
    if (!this.#started) return
    const { clock } = this.#parts
    const now = clock.now()
    const at = Math.min(Math.max(time, now + SHORTEST), now + REGULARLY)
    if (this.#timer !== null) {
      if (this.#timerAt <= at) return
      this.#timer.cancel()
    }
    this.#timerAt = at
    this.#timer = clock.after(at - now, () => {
      this.#timer = null
      void this.sweep()
    })
  }

  /** Sweeps now, or waits for the run that is under way. Never rejects: what failed is tried again by the next run. */
  sweep(): Promise<void> {
    return (this.#running ??= this.#run())
  }

  /**
   * Writes down what has expired by now: the same as a sweep does by itself, for a job whose failures an operator sees.
   * @throws AggregateError when payments could not be written; the others have been
   */
  async expire(): Promise<void> {
    const faults: unknown[] = []
    await this.#expiries(error => {
      faults.push(error)
    })
    if (faults.length > 0)
      throw new AggregateError(
        faults,
        `${faults.length} payments could not be written, the first because: ${String(faults[0])}`
      )
  }

  /** Stops, after the run that is under way. */
  async close(): Promise<void> {
    this.#started = false
    this.#timer?.cancel()
    this.#timer = null
    await this.#running
  }

  async #run(): Promise<void> {
    const soonest = await this.#sweep()
    // Before the next is planned: one that falls due in between would wait for this run, and none would be planned.
    this.#running = null
    this.wakeAt(soonest)
  }

  /** Returns when to sweep next, in milliseconds since the epoch. */
  async #sweep(): Promise<number> {
    const { store, clock, log } = this.#parts
    const now = clock.now()
    let soonest = now + REGULARLY
    try {
      await this.#each(
        (after, limit) => store.unconfirmed(now, after, limit),
        payment => this.#parts.record(payment)
      )
      await this.#expiries()
      soonest = (await store.nextDue(now, soonest, this.#parts.polled())) ?? soonest
    } catch (error) {
      log.warn({ err: error }, 'payments could not be swept; it is tried again soon')
    }
    return soonest
  }

  async #expiries(failed: (error: unknown) => void = () => {}): Promise<void> {
    const { store, clock, polled, record, ask } = this.#parts
    const now = clock.now()
    // A gateway that has just started has yet to ask.
    const [answerless, silent] = [ANSWERLESS, SILENT].map(pause =>
      now - this.#asksSince < ANSWERLESS ? 0 : now - pause
    ) as [number, number]
    await this.#each(
      (after, limit) => store.unexpired({ by: now, answerless: silent, polled: polled() }, after, limit),
      async payment => {
        if (payment.at > silent) await ask(payment)
        if (payment.at <= answerless) await record(payment)
      },
      failed
    )
  }

  /** Goes on behind a payment that cannot be dealt with, so that it does not stand in the way of the others. */
  async #each(
    page: (after: DuePayment | null, limit: number) => Promise<DuePayment[]>,
    deal: (payment: DuePayment) => Promise<unknown>,
    failed: (error: unknown) => void = () => {}
  ): Promise<void> {
    let after: DuePayment | null = null
    for (;;) {
      const payments: DuePayment[] = await page(after, BATCH)
      for (const payment of payments) {
        try {
          await deal(payment)
        } catch (error) {
          this.#parts.log.warn(
            { err: error, invoiceId: payment.invoiceId },
            'a payment that is due could not be written; it is tried again soon'
          )
          failed(error)
        }
      }
      if (payments.length < BATCH) return
      after = payments.at(-1) ?? null
    }
  }
}
