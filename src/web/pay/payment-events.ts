import { eventStream, type EventSink } from '../../engine/formats/event-stream.ts'
import type { StreamBody } from '../../engine/message/reply.ts'
import type { PaymentStatus } from '../../payments/payments/schema.ts'
import { statusAt } from '../../payments/payments/changes.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import { Rerun } from '../../platform/system/rerun.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isFinalStatus } from './pay-view.ts'
import type { Payable } from './payable.ts'

export interface PaymentEventDependencies {
  byPayToken(token: string): Promise<Payable | null>
  /** Calls `changed` after each change of the payment, until unsubscribed. */
  watch(invoiceId: string, changed: () => void): () => void
  readonly clock: Clock
  readonly log: Log
}

/** Polling interval of a quiet stream: notifications are lost while the database is down. */
const LOOK_EVERY = 30_000

/**
 * Server-sent events `status` with `{status}`: one initially, one per change, including changes by time. Ends after a
 * final status, and when the database is down; clients then poll.
 */
export function paymentEvents(payment: Payable, dependencies: PaymentEventDependencies): StreamBody {
  return eventStream({
    clock: dependencies.clock,
    begin(events) {
      const follower = new Follower(payment, dependencies, events)
      return () => {
        follower.stop()
      }
    }
  })
}

class Follower {
  readonly #dependencies: PaymentEventDependencies
  readonly #events: EventSink
  readonly #token: string
  readonly #unwatch: () => void
  readonly #polling: Timer
  #due: Timer | null = null
  #sent: PaymentStatus | null = null
  // A reading in flight may miss a change.
  readonly #reading = new Rerun(() => this.#look())
  #stopped = false

  /** Subscribes before reading, so that no change is missed. */
  constructor(payment: Payable, dependencies: PaymentEventDependencies, events: EventSink) {
    this.#dependencies = dependencies
    this.#events = events
    this.#token = payment.payToken
    const look = (): void => {
      void this.#reading.run()
    }
    this.#unwatch = dependencies.watch(payment.invoiceId, look)
    this.#polling = dependencies.clock.every(LOOK_EVERY, look)
    look()
  }

  stop(): void {
    this.#stopped = true
    this.#unwatch()
    this.#polling.cancel()
    this.#due?.cancel()
  }

  /** Reads the payment and sends its changes. Never rejects. */
  async #look(): Promise<void> {
    if (this.#stopped) return
    try {
      this.#tell(await this.#dependencies.byPayToken(this.#token))
    } catch (error) {
      this.#dependencies.log.warn({ err: error }, 'the status of a payment could not be read for its page')
      this.#events.end()
    }
  }

  #tell(payment: Payable | null): void {
    if (this.#stopped) return
    if (payment === null) {
      this.#events.end()
      return
    }
    const now = this.#dependencies.clock.now()
    const status = statusAt(payment, now)
    if (status !== this.#sent) {
      this.#sent = status
      this.#events.send({ event: 'status', data: JSON.stringify({ status }) })
    }
    if (isFinalStatus(status)) this.#events.end()
    else this.#waitFor(payment, status, now)
  }

  /** Schedules a reading when time may change the status: demo confirmation or expiry. */
  #waitFor({ confirmsAt, expiresAt }: Payable, status: PaymentStatus, now: number): void {
    const due = confirmsAt ?? expiresAt
    this.#due?.cancel()
    this.#due =
      status === 'unpaid' && due > now
        ? this.#dependencies.clock.after(due - now, () => {
            void this.#reading.run()
          })
        : null
  }
}
