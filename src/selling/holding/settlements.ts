import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Challenge, ChallengeSource } from './challenge.ts'
import type { ChallengeStore } from './store.ts'

/**
 * Called when the provider reports a challenge's invoice as paid. Must be idempotent. If it rejects, `settled` rejects
 * too and the payment stays unrecorded, so the caller retries.
 */
type OnSettled = (challenge: Challenge) => Promise<void>

interface SettlementsOptions {
  readonly store: Pick<ChallengeStore, 'find' | 'settled'>
  readonly reputation: { paid(clientKey: string): void }
  readonly clock: Clock
  readonly log: Log
}

export class Settlements {
  readonly #options: SettlementsOptions
  readonly #hooks = new Map<ChallengeSource, OnSettled>()
  readonly #watchers: Array<(paymentHash: string) => void> = []

  constructor(options: SettlementsOptions) {
    this.#options = options
  }

  /**
   * Registers the hook of a source that sells without credentials: orders, plans.
   * @throws TypeError if the source has one
   */
  onSettled(source: ChallengeSource, hook: OnSettled): void {
    if (this.#hooks.has(source)) throw new TypeError(`two listeners for settled invoices of ${source}`)
    this.#hooks.set(source, hook)
  }

  watch(watcher: (paymentHash: string) => void): void {
    this.#watchers.push(watcher)
  }

  /**
   * Runs the source's hook, then records a payment at the provider, so that the invoice is not reused (decision 122).
   * Rejects only with the hook: the money has moved, recorded or not.
   */
  async settled(paymentHash: string): Promise<void> {
    const { store, reputation, clock, log } = this.#options
    if (this.#hooks.size > 0) {
      const challenge = await store.find(paymentHash)
      if (challenge !== null) {
        reputation.paid(challenge.clientKey)
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
