import { StateUnavailable, type Maybe, type State } from '../../platform/state/state.ts'
import type { AnonymousClient } from '../../lightning/provider-calls/budgets.ts'

/** Half-life of unpaid invoices: an eighth counts after an hour. */
const UNPAID_HALF_LIFE = 20 * 60_000
/** With this half-life, a steady place's tally is its invoices per minute. */
const MINUTE_HALF_LIFE = 60_000 * Math.LN2
/** Milliseconds that a payment is remembered. */
const PAYING_MS = 24 * 3_600_000
/** Weight of a refused request, so that retries rank behind first requests. */
const REFUSED = 0.02

export interface InvoiceRequest {
  readonly client: AnonymousClient
  refused(): void
}

/**
 * Reputation of clients without a key: recent unpaid invoices, load on the place, and past payments. Ranks them when a
 * provider's budget is short; Redis shares it among processes.
 */
export class ClientReputation {
  readonly #state: State

  constructor(state: State) {
    this.#state = state
  }

  /** Counts immediately, so that concurrent requests do not each count as the first. `clientKey`: the network. */
  async request(clientKey: string, place: string): Promise<InvoiceRequest> {
    try {
      const [unpaid, inPlace, paid] = await Promise.all([
        this.#state.tally(unpaidOf(clientKey), 1, UNPAID_HALF_LIFE),
        this.#state.tally(madeIn(place), 1, MINUTE_HALF_LIFE),
        this.#state.get(paidBy(clientKey))
      ])
      return {
        client: { hasPaid: paid !== undefined, unpaid, inPlace },
        refused: () => {
          this.#later(() => this.#state.tally(unpaidOf(clientKey), REFUSED - 1, UNPAID_HALF_LIFE))
          this.#later(() => this.#state.tally(madeIn(place), -1, MINUTE_HALF_LIFE))
        }
      }
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      // All clients rank the same.
      return { client: { hasPaid: false, unpaid: 0, inPlace: 0 }, refused: () => {} }
    }
  }

  paid(clientKey: string): void {
    this.#later(() => this.#state.set(paidBy(clientKey), '1', PAYING_MS))
    this.#later(() => this.#state.tally(unpaidOf(clientKey), -Number.MAX_SAFE_INTEGER, UNPAID_HALF_LIFE))
  }

  /** Fire and forget; the write may be lost. */
  #later(write: () => Maybe<unknown>): void {
    const written = write()
    if (!(written instanceof Promise)) return
    written.catch((error: unknown) => {
      if (!(error instanceof StateUnavailable)) throw error
    })
  }
}

function unpaidOf(clientKey: string): string {
  return `unpaid ${clientKey}`
}

function madeIn(place: string): string {
  return `place ${place}`
}

function paidBy(clientKey: string): string {
  return `paid by ${clientKey}`
}
