import { EventEmitter } from 'node:events'
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
  /** By invoice id. */
  readonly #changes = new EventEmitter().setMaxListeners(0)
  #stop: Promise<() => Promise<void>> | null = null

  constructor(database: Database, log: Log) {
    this.#database = database
    this.#log = log
  }

  /** Starts listening; idempotent. Rejects when the database is down; can be retried. */
  async start(): Promise<void> {
    const stop = (this.#stop ??= this.#database.listen(PAYMENT_CHANNEL, invoiceId => {
      this.#changes.emit(eventOf(invoiceId))
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
    const listener = (): void => {
      try {
        changed()
      } catch (error) {
        this.#log.error({ err: error, invoiceId }, 'a listener to a payment failed')
      }
    }
    const event = eventOf(invoiceId)
    this.#changes.on(event, listener)
    return () => this.#changes.off(event, listener)
  }

  get size(): number {
    return this.#changes.eventNames().length
  }

  /** Stops listening. Never rejects: a lost connection hears nothing either. */
  async close(): Promise<void> {
    const stop = this.#stop
    this.#stop = null
    this.#changes.removeAllListeners()
    try {
      await (
        await stop
      )?.()
    } catch (error) {
      this.#log.debug({ err: error }, 'listening to payments ended with an error')
    }
  }
}

/** An event named `error` without listeners would throw. */
function eventOf(invoiceId: string): string {
  return `changed ${invoiceId}`
}
