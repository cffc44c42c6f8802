import type { Clock, Timer } from '../../../platform/system/clock.ts'
import { JsonRecord } from '../../provider-calls/responses.ts'
import { jsonOrUndefined } from '../../../engine/formats/json-reader.ts'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import { readNwcTransaction } from './responses.ts'
import type { NwcWallet } from './calls.ts'
import type { NostrEvent } from './event.ts'
import { UndecryptableError, type Conversation } from './conversation.ts'
import type { NewsListener } from './listeners.ts'
import type { Relay } from './relay.ts'

interface Expecting {
  readonly listener: NewsListener
  readonly relays: readonly Relay[]
  /** End of each by payment hash, in milliseconds since the epoch. */
  readonly ends: Map<string, number>
  timer: Timer | null
}

/** Invoices per connection, and connections; the others are polled. */
const MAX_INVOICES = 1000
const MAX_CONNECTIONS = 5000
/** Milliseconds of listening after an invoice's end, for payments in its last second. */
const AFTER_END = 5_000

/**
 * Listens for `payment_received`, which many wallets send, while invoices are open, so idle relays can be closed.
 * Notifications are signed by the wallet, as look-ups are. The stored keys decrypt and sign nothing.
 */
export class News {
  readonly #clock: Clock
  readonly #settled: (paymentHash: string) => Promise<void>
  readonly #connections = new Map<string, Expecting>()

  /** `settled` is called once per payment and never rejects. */
  constructor(clock: Clock, settled: (paymentHash: string) => Promise<void>) {
    this.#clock = clock
    this.#settled = settled
  }

  /** Listens for an invoice's payment; `until` in milliseconds since the epoch. */
  expect({ key, client, conversation, relays }: NwcWallet, paymentHash: string, until: number): void {
    const name = `${key.wallet} ${client}`
    const known = this.#connections.get(name)
    if (known !== undefined) {
      if (known.ends.size < MAX_INVOICES) known.ends.set(paymentHash, until + AFTER_END)
      return
    }
    if (this.#connections.size >= MAX_CONNECTIONS) return
    const made: Expecting = {
      listener: {
        wallet: key.wallet,
        client,
        heard: event => {
          this.#heard(name, made, conversation, event)
        }
      },
      relays,
      ends: new Map([[paymentHash, until + AFTER_END]]),
      timer: null
    }
    if (!relays.map(relay => relay.listen(made.listener)).includes(true)) return
    this.#connections.set(name, made)
    this.#wait(name, made)
  }

  close(): void {
    for (const { timer } of this.#connections.values()) timer?.cancel()
    this.#connections.clear()
  }

  #heard(name: string, made: Expecting, conversation: Conversation, { content }: NostrEvent): void {
    let text: string
    try {
      text = conversation.decrypt(content)
    } catch (error) {
      if (!(error instanceof UndecryptableError)) throw error
      return
    }
    const told = readResponse(JsonRecord, jsonOrUndefined(text))
    const payment = readNwcTransaction(told?.['notification'], this.#clock.now())
    if (told?.['notification_type'] !== 'payment_received' || payment === null) return
    if (payment.type === 'outgoing' || payment.state !== 'settled' || !made.ends.delete(payment.paymentHash)) return
    if (made.ends.size === 0) this.#stop(name, made)
    void this.#settled(payment.paymentHash)
  }

  #wait(name: string, made: Expecting): void {
    made.timer = this.#clock.after(Math.max(...made.ends.values()) - this.#clock.now(), () => {
      const now = this.#clock.now()
      for (const [paymentHash, end] of made.ends) if (end <= now) made.ends.delete(paymentHash)
      if (made.ends.size === 0) this.#stop(name, made)
      else this.#wait(name, made)
    })
  }

  #stop(name: string, { listener, relays, timer }: Expecting): void {
    timer?.cancel()
    this.#connections.delete(name)
    for (const relay of relays) relay.unlisten(listener)
  }
}
