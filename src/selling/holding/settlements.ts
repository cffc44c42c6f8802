import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Challenge, ChallengeSource } from './challenge.ts'
import type { ChallengeStore } from './store.ts'

/**
 * Called when the provider reports a challenge's invoice as paid. Must be idempotent. If it rejects, `settled` rejects
 * too and the payment stays unrecorded, so the caller retries.
 */
export type OnSettled = (challenge: Challenge) => Promise<void>

/** What settlements are recorded with. */
export interface SettlementsOptions {
  readonly store: Pick<ChallengeStore, 'find' | 'settled'>
  /** Notes that a client has paid for one of its invoices. */
  readonly strangers: { paid(clientKey: string): void }
  readonly clock: Clock
  readonly log: Log
}

/** Invoices that their providers report as paid. */
export class Settlements {
  readonly #options: SettlementsOptions
  readonly #hooks = new Map<ChallengeSource, OnSettled>()
  readonly #watchers: Array<(paymentHash: string) => void> = []

  constructor(options: SettlementsOptions) {
    this.#options = options
  }

  /**
   * Registers the hook of a source that sells without a credential: orders, plans.
   * @throws TypeError for a source that has one
   */
  onSettled(source: ChallengeSource, hook: OnSettled): void {
    if (this.#hooks.has(source)) throw new TypeError(`two are told of settled invoices of ${source}`)
    this.#hooks.set(source, hook)
  }

  /** Calls `watcher` after each settlement of this process. */
  watch(watcher: (paymentHash: string) => void): void {
    this.#watchers.push(watcher)
  }

  /**
   * Records that an invoice was paid at its provider, so that it is not handed out again (decision 122), after the hook
   * of its source. Rejects only when the hook does: the money has moved, whether or not that can be recorded.
   */
  async settled(paymentHash: string): Promise<void> {
    const { store, strangers, clock, log } = this.#options
    if (this.#hooks.size > 0) {
      const challenge = await store.find(paymentHash)
      if (challenge !== null) {
        strangers.paid(challenge.clientKey)
        await this.#hooks.get(challenge.source)?.(challenge)
      }
    }
    try {
      await store.settled(paymentHash, clock.now())
    } catch (error) {
      log.warn({ paymentHash, err: error }, 'A settled invoice could not be noted')
    }
    for (const watcher of this.#watchers) watcher(paymentHash)
  }
}
