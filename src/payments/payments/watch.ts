import type { Database } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'

/** Channel on which the invoice id of a changed payment is told to every process, when the change is committed. */
export const PAYMENT_CHANNEL = 'boltgate_payments'

/**
 * Tells listeners of this process that a payment has changed, whichever process changed it. What happens while the
 * database is away is lost: whoever listens for long must look again now and then.
 */
export class PaymentWatch {
  readonly #database: Database
  readonly #log: Log
  readonly #listeners = new Map<string, Set<() => void>>()
  #stop: Promise<() => Promise<void>> | null = null

  constructor(database: Database, log: Log) {
    this.#database = database
    this.#log = log
  }

  /**
   * Begins to hear changes; more often than once is harmless. Rejects when the database is away, and may be called
   * again then.
   */
  async start(): Promise<void> {
    const stop = (this.#stop ??= this.#database.listen(PAYMENT_CHANNEL, invoiceId => {
      this.#heard(invoiceId)
    }))
    try {
      await stop
    } catch (error) {
      if (this.#stop === stop) this.#stop = null
      throw error
    }
  }

  /** Calls `changed` for each change of the payment, until the function that this returns is called. */
  watch(invoiceId: string, changed: () => void): () => void {
    // Two listeners may be the same function.
    const listener = (): void => {
      changed()
    }
    const listeners = this.#listeners.get(invoiceId) ?? new Set()
    this.#listeners.set(invoiceId, listeners)
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(invoiceId) === listeners) this.#listeners.delete(invoiceId)
    }
  }

  /** How many payments have listeners. */
  get size(): number {
    return this.#listeners.size
  }

  /** Hears nothing any more. Never rejects: a connection that is gone hears nothing either. */
  async close(): Promise<void> {
    const stop = this.#stop
    this.#stop = null
    this.#listeners.clear()
    try {
      await (
        await stop
      )?.()
    } catch (error) {
      this.#log.debug({ err: error }, 'listening to payments ended with an error')
    }
  }

  #heard(invoiceId: string): void {
    // A copy: a listener may add itself again.
    const listeners = [...(this.#listeners.get(invoiceId) ?? [])]
    for (const listener of listeners) {
      try {
        listener()
      } catch (error) {
        this.#log.error({ err: error, invoiceId }, 'a listener to a payment failed')
      }
    }
  }
}
