import type { ProviderAccount, ProviderSlot } from './account.ts'
import type { KindName } from './provider.ts'

/** A merchant whose account at a provider makes invoices. */
export interface ChargedAccount extends ProviderAccount {
  readonly id: number
}

/** What a listener hears about providers; each method is optional. */
export interface ProviderListener {
  /** An invoice was paid. Unknown hashes are ignored. Resolves once the listener has looked it up, and must not reject. */
  paid?(paymentHash: string): Promise<void>
  /** An invoice changed otherwise, such as by a partial payment; as `paid`. */
  changed?(paymentHash: string): Promise<void>
  /** A provider made an invoice for an account, null for the operator. Returns immediately and never throws. */
  charged?(account: ChargedAccount | null, slot: ProviderSlot, kind: KindName): void
  /** An account's key was saved, or has worked. Never rejects. */
  keyIsGood?(merchantId: number, slot: ProviderSlot): Promise<void>
  /** A host that the breaker had given up on answers again. Returns immediately and never throws. */
  recovered?(slot: ProviderSlot, name: KindName, host: string): void
}

/**
 * Events of providers within this process. It exists before its listeners, since a refund over the sandbox may pay an
 * invoice of another domain; each domain adds itself as it opens.
 */
export class ProviderEvents {
  readonly #listeners: ProviderListener[] = []
  readonly #begun = Promise.withResolvers<void>()

  listen(listener: ProviderListener): void {
    this.#listeners.push(listener)
  }

  /** Releases `paid` and `changed`: from here on listeners can write what follows, jobs included. Idempotent. */
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

  recovered(slot: ProviderSlot, name: KindName, host: string): void {
    for (const listener of this.#listeners) listener.recovered?.(slot, name, host)
  }
}
