import type { ProviderSlot } from './account.ts'
import type { KindName } from './provider.ts'

/** Is told of a host of a slot's provider that had been left alone and answers again. Answers at once, never throws. */
export type RecoveryListener = (slot: ProviderSlot, name: KindName, host: string) => void

/** Hosts that answer again. It exists before those who are told, who add themselves as they are opened. */
export class Recoveries {
  readonly #listeners: RecoveryListener[] = []

  listen(listener: RecoveryListener): void {
    this.#listeners.push(listener)
  }

  tell(slot: ProviderSlot, name: KindName, host: string): void {
    for (const listener of this.#listeners) listener(slot, name, host)
  }
}
