import type { ProviderAccount, ProviderSlot } from './slot-keys.ts'
import type { KindName } from '../provider-calls/provider.ts'

export interface ChargedAccount extends ProviderAccount {
  readonly id: number
}

interface ProviderListener {
  /** An invoice was paid. Resolves after the look-up, ignores unknown hashes, never rejects. */
  paid?(paymentHash: string): Promise<void>
  /** Another change, such as a partial payment; as `paid`. */
  changed?(paymentHash: string): Promise<void>
  /** An invoice was made for an account, null for the operator. Synchronous; never throws. */
  charged?(account: ChargedAccount | null, slot: ProviderSlot, kind: KindName): void
  /** A key was saved or has worked. Never rejects. */
  keyIsGood?(merchantId: number, slot: ProviderSlot): Promise<void>
  /** An account's key is refused, for the first time since it worked. Never rejects. */
  keyRefused?(merchantId: number, slot: ProviderSlot, reason: string): Promise<void>
  /** A host whose breaker was open answers again. Synchronous; never throws. */
  recovered?(slot: ProviderSlot, name: KindName, host: string): void
}

/**
 * In-process provider events. Created before its listeners, since a sandbox refund may pay another domain's invoice;
 * domains register as they open.
 */
export class ProviderEvents {
  readonly #listeners: ProviderListener[] = []
  readonly #begun = Promise.withResolvers<void>()

  listen(listener: ProviderListener): void {
    this.#listeners.push(listener)
  }

  /** Releases `paid` and `changed` once listeners can write, jobs included. Idempotent. */
  begin(): void {
    this.#begun.resolve()
  }

  async paid(paymentHash: string): Promise<void> {
    await this.#begun.promise
    await Promise.all(this.#listeners.map(listener => listener.paid?.(paymentHash)))
  }

  async changed(paymentHash: string): Promise<void> {
    await this.#begun.promise
    await Promise.all(this.#listeners.map(listener => listener.changed?.(paymentHash)))
  }

  charged(account: ChargedAccount | null, slot: ProviderSlot, kind: KindName): void {
    for (const listener of this.#listeners) listener.charged?.(account, slot, kind)
  }

  async keyIsGood(merchantId: number, slot: ProviderSlot): Promise<void> {
    await Promise.all(this.#listeners.map(listener => listener.keyIsGood?.(merchantId, slot)))
  }

  async keyRefused(merchantId: number, slot: ProviderSlot, reason: string): Promise<void> {
    await Promise.all(this.#listeners.map(listener => listener.keyRefused?.(merchantId, slot, reason)))
  }

  recovered(slot: ProviderSlot, name: KindName, host: string): void {
    for (const listener of this.#listeners) listener.recovered?.(slot, name, host)
  }
}
