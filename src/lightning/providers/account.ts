import type { SealedPlace } from '../../platform/keys/secrets.ts'

/** The two provider slots (contract, Naming convention); configuration sets the kind. */
export type ProviderSlot = 'primary' | 'alternate'

/** A ciphertext and its location, authenticated together. */
export interface SealedValue {
  readonly ciphertext: string
  readonly place: SealedPlace
}

/** Inputs of provider resolution (contract, What the service does 4). */
export interface AccountFacts {
  /** Explicit choice; null when never made. */
  readonly providerChoice: ProviderSlot | null
  readonly hasPrimaryKey: boolean
  readonly hasAlternateKey: boolean
}

export interface ProviderAccount {
  readonly providerChoice: ProviderSlot | null
  readonly primaryKey: SealedValue | null
  readonly alternateKey: SealedValue | null
}

/**
 * The slot that makes invoices, in the contract's order: the explicit choice, even without a key (decision 69); the
 * only saved key; else the platform's default.
 */
export function resolveProvider(facts: AccountFacts): ProviderSlot {
  if (facts.providerChoice !== null) return facts.providerChoice
  return facts.hasAlternateKey && !facts.hasPrimaryKey ? 'alternate' : 'primary'
}

/**
 * The choice after saving a key in `slot`. A primary key makes the first choice, even beside a lone alternate key;
 * nothing else changes it (decision 68).
 */
export function choiceAfterSaving(slot: ProviderSlot, choice: ProviderSlot | null): ProviderSlot | null {
  return choice === null && slot === 'primary' ? 'primary' : choice
}

/** The account's key in a slot, by default the one that makes its invoices. */
export function keyInSlot(account: ProviderAccount, slot = providerOf(account)): SealedValue | null {
  return slot === 'primary' ? account.primaryKey : account.alternateKey
}

export function providerOf(account: ProviderAccount): ProviderSlot {
  return resolveProvider({
    providerChoice: account.providerChoice,
    hasPrimaryKey: account.primaryKey !== null,
    hasAlternateKey: account.alternateKey !== null
  })
}
