import type { Clock, Timer } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { DuePayment, PaymentKey, ProviderSeatName } from './store.ts'
import type { PaymentStore } from './store-sql.ts'

/** Longest sleep: another process may have made a payment. */
const REGULARLY = 30_000
const SHORTEST = 20
const BATCH = 100
/**
 * Milliseconds after its end after which a payment expires without its provider's answer: without a key for it, and
 * with one (decision 178).
 */
export const ANSWERLESS = 15 * 60_000
const SILENT = 12 * 3_600_000

interface SweeperDependencies {
  readonly store: PaymentStore
  readonly clock: Clock
  readonly log: Log
  polled(): readonly ProviderSeatName[]
  record(key: PaymentKey): Promise<unknown>
  /** Asks the provider of one payment, if possible, and records the answer. Rejects without an answer. */
  ask(key: PaymentKey): Promise<unknown>
}

/**
 * Confirms demo payments and records expiries soon after they fall due. Safe in several processes. A payment expires
 * only once its provider reported it unpaid after its end, or cannot be asked: it may have been paid during an outage
 * (decision 178).
 */
export class Sweeper {
  readonly #dependencies: SweeperDependencies
  #running: Promise<void> | null = null
  #timer: Timer | null = null
  #timerAt = 0
  #started = false
  readonly #asksSince: number

  constructor(dependencies: SweeperDependencies) {
    this.#dependencies = dependencies
    this.#asksSince = dependencies.clock.now()
  }

  /** Idempotent. */
  start(): void {
    if (this.#started) return
    this.#started = true
    this.wakeAt(this.#dependencies.clock.now())
  }

  /** Sweeps at this time (milliseconds since the epoch) or a little later. */
  wakeAt(time: number): void {
    if (!this.#started) return
    const { clock } = this.#dependencies
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

  /** Sweeps now, or joins the running sweep. Never rejects: the next run retries failures. */
  sweep(): Promise<void> {
    return (this.#running ??= this.#run())
  }

  /**
   * Records expiries for a job whose failures operators see.
   * @throws AggregateError when some payments could not be written
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

  async close(): Promise<void> {
    this.#started = false
    this.#timer?.cancel()
    this.#timer = null
    await this.#running
  }

  async #run(): Promise<void> {
    const soonest = await this.#sweep()
    // Before planning: a payment due in between would otherwise join this run and never be planned.
    this.#running = null
    this.wakeAt(soonest)
  }

  async #sweep(): Promise<number> {
    const { store, clock, log } = this.#dependencies
    const now = clock.now()
    let soonest = now + REGULARLY
    try {
      await this.#each(
        (after, limit) => store.unconfirmed(now, after, limit),
        payment => this.#dependencies.record(payment)
      )
      await this.#expiries()
      soonest = (await store.nextDue(now, soonest, this.#dependencies.polled())) ?? soonest
    } catch (error) {
      log.warn({ err: error }, 'payments could not be swept; it is tried again soon')
    }
    return soonest
  }

  async #expiries(failed: (error: unknown) => void = () => {}): Promise<void> {
    const { store, clock, polled, record, ask } = this.#dependencies
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

  /** Continues after a failed payment, so that it does not block the others. */
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
          this.#dependencies.log.warn(
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
