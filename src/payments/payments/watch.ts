import type { Database } from '../../platform/database/database.ts'
import type { Log } from '../../platform/telemetry/log.ts'

/** Channel that carries the invoice ids of committed changes to every process. */
export const PAYMENT_CHANNEL = 'boltgate_payments'

/**
 * Notifies listeners of payment changes by any process. Changes during a database outage are lost: long-lived listeners
 * must poll occasionally.
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

  /** Starts listening; idempotent. Rejects when the database is down; can be retried. */
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

  /** Calls `changed` for each change until unsubscribed. */
  watch(invoiceId: string, changed: () => void): () => void {
    // A wrapper: two listeners may be the same function.
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

  get size(): number {
    return this.#listeners.size
  }

  /** Stops listening. Never rejects: a lost connection hears nothing either. */
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
    // A copy: a listener may resubscribe.
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
