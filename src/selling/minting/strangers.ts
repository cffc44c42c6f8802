import { StateUnavailable, type Maybe, type State } from '../../platform/state/state.ts'
import type { Stranger } from '../../lightning/provider-calls/budgets.ts'

/** Half-life of what a client left unpaid: an hour later an eighth of it counts. */
const UNPAID_HALF_LIFE = 20 * 60_000
/** With this half-life a steady place has a tally of what it makes in a minute. */
const MINUTE_HALF_LIFE = 60_000 * Math.LN2
/** How long a client that has paid is known by it. */
const PAYING_MS = 24 * 3_600_000
/** What a refused wish still counts as: whoever asks again and again comes behind those who have not asked. */
const REFUSED = 0.02

/** One client's wish for an invoice, as it stands among those of all strangers. */
export interface Wish {
  readonly stranger: Stranger
  /** No invoice was made for it. */
  refused(): void
}

/**
 * What is known of clients without a key: how much they left unpaid lately, how busy their place is, and whether they
 * have paid. It decides who comes first where a provider's budget is short, and nothing else; with Redis all processes
 * know the same.
 */
export class Strangers {
  readonly #state: State

  constructor(state: State) {
    this.#state = state
  }

  /**
   * Counts a wish at once, so that many at the same moment do not each count as the first. `clientKey` is the client's
   * network.
   */
  async wish(clientKey: string, place: string): Promise<Wish> {
    try {
      const [unpaid, inPlace, paid] = await Promise.all([
        this.#state.tally(unpaidOf(clientKey), 1, UNPAID_HALF_LIFE),
        this.#state.tally(madeIn(place), 1, MINUTE_HALF_LIFE),
        this.#state.get(paidBy(clientKey))
      ])
      return {
        stranger: { hasPaid: paid !== undefined, unpaid, inPlace },
        refused: () => {
          this.#later(() => this.#state.tally(unpaidOf(clientKey), REFUSED - 1, UNPAID_HALF_LIFE))
          this.#later(() => this.#state.tally(madeIn(place), -1, MINUTE_HALF_LIFE))
        }
      }
    } catch (error) {
      if (!(error instanceof StateUnavailable)) throw error
      // Nothing is known of anybody: all are the same.
      return { stranger: { hasPaid: false, unpaid: 0, inPlace: 0 }, refused: () => {} }
    }
  }

  /** The client has paid for one of its invoices. */
  paid(clientKey: string): void {
    this.#later(() => this.#state.set(paidBy(clientKey), '1', PAYING_MS))
    this.#later(() => this.#state.tally(unpaidOf(clientKey), -Number.MAX_SAFE_INTEGER, UNPAID_HALF_LIFE))
  }

  /** Nobody waits for it, and it may be lost. */
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
