import { eventStream, type EventSink } from '../../engine/formats/event-stream.ts'
import type { StreamBody } from '../../engine/message/reply.ts'
import type { PaymentStatus } from '../../payments/payments/schema.ts'
import { statusAt } from '../../payments/payments/states.ts'
import type { Clock, Timer } from '../../platform/system/clock.ts'
import { Rerun } from '../../platform/system/rerun.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { isFinalStatus } from './pay-view.ts'
import type { Payable } from './payable.ts'

/** What the events of a payment are told from. */
export interface PaymentEventParts {
  /** Null when there is no payment with this token. */
  byPayToken(token: string): Promise<Payable | null>
  /** Calls `changed` after each change of the payment, until the function that this returns is called. */
  watch(invoiceId: string, changed: () => void): () => void
  readonly clock: Clock
  readonly log: Log
}

/**
 * How often a quiet stream looks for a change that nobody told it of: notifications are lost while the database is
 * away. In milliseconds.
 */
const LOOK_EVERY = 30_000

/**
 * Server-sent events `status` with `{status}`: one at once, one at each change, and one when time alone changes the
 * status. The stream ends after a final status, and when the database cannot be asked; clients then ask in other ways.
 */
export function paymentEvents(payment: Payable, parts: PaymentEventParts): StreamBody {
  return eventStream({
    clock: parts.clock,
    begin(events) {
      const follower = new Follower(payment, parts, events)
      return () => {
        follower.stop()
      }
    }
  })
}

class Follower {
  readonly #parts: PaymentEventParts
  readonly #events: EventSink
  readonly #token: string
  readonly #unwatch: () => void
  readonly #looks: Timer
  #due: Timer | null = null
  #sent: PaymentStatus | null = null
  // A change during a look may be missing from it.
  readonly #reading = new Rerun(() => this.#look())
  #stopped = false

  /** Listens before it looks, so that no change falls in between. */
  constructor(payment: Payable, parts: PaymentEventParts, events: EventSink) {
    this.#parts = parts
    this.#events = events
    this.#token = payment.payToken
    const look = (): void => {
      void this.#reading.run()
    }
    this.#unwatch = parts.watch(payment.invoiceId, look)
    this.#looks = parts.clock.every(LOOK_EVERY, look)
    look()
  }

  stop(): void {
    this.#stopped = true
    this.#unwatch()
    this.#looks.cancel()
    this.#due?.cancel()
  }

  /** Reads the payment and tells what is new. Never rejects. */
  async #look(): Promise<void> {
    if (this.#stopped) return
    try {
      this.#tell(await this.#parts.byPayToken(this.#token))
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'the status of a payment could not be read for its page')
      this.#events.end()
    }
  }

  #tell(payment: Payable | null): void {
    if (this.#stopped) return
    if (payment === null) {
      this.#events.end()
      return
    }
    const now = this.#parts.clock.now()
    const status = statusAt(payment, now)
    if (status !== this.#sent) {
      this.#sent = status
      this.#events.send({ event: 'status', data: JSON.stringify({ status }) })
    }
    if (isFinalStatus(status)) this.#events.end()
    else this.#waitFor(payment, status, now)
  }

  /** Looks again when the clock may change the status: a demo confirms itself, an invoice expires. */
  #waitFor({ confirmsAt, expiresAt }: Payable, status: PaymentStatus, now: number): void {
    const due = confirmsAt ?? expiresAt
    this.#due?.cancel()
    this.#due =
      status === 'unpaid' && due > now
        ? this.#parts.clock.after(due - now, () => {
            void this.#reading.run()
          })
        : null
  }
}
