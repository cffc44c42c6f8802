import type { SealedPlace } from '../../platform/keys/secrets.ts'

/**
 * The two places in which a provider can stand (contract, Naming convention); which kind stands there is the
 * configuration's.
 */
export type ProviderSlot = 'primary' | 'alternate'

/** A ciphertext together with where it lives, which is authenticated with it. */
export interface SealedValue {
  readonly ciphertext: string
  readonly place: SealedPlace
}

/** What provider resolution looks at (contract, What the service does 4). */
export interface AccountFacts {
  /** The account's explicit choice; null when it never made one. */
  readonly providerChoice: ProviderSlot | null
  readonly hasPrimaryKey: boolean
  readonly hasAlternateKey: boolean
}

/** Who is to be paid: an account with its provider keys, still sealed. */
export interface ProviderAccount {
  readonly providerChoice: ProviderSlot | null
  readonly primaryKey: SealedValue | null
  readonly alternateKey: SealedValue | null
}

/**
 * The slot that makes an account's invoices, in the contract's order: the explicit choice, even one whose key is
 * missing (decision 69); else the only key that is saved; else, with both or none, the platform's default.
 */
export function resolveProvider(facts: AccountFacts): ProviderSlot {
  if (facts.providerChoice !== null) return facts.providerChoice
  return facts.hasAlternateKey && !facts.hasPrimaryKey ? 'alternate' : 'primary'
}

/**
 * The explicit choice after a key was saved in `slot`: saving a primary key makes the choice where there was none, even
 * beside a lone alternate key; nothing overwrites a choice, and an alternate key never makes one (decision 68).
 */
export function choiceAfterSaving(slot: ProviderSlot, choice: ProviderSlot | null): ProviderSlot | null {
  return choice === null && slot === 'primary' ? 'primary' : choice
}

/** The same resolution for an account whose keys are at hand. */
export function providerOf(account: ProviderAccount): ProviderSlot {
  return resolveProvider({
    providerChoice: account.providerChoice,
    hasPrimaryKey: account.primaryKey !== null,
    hasAlternateKey: account.alternateKey !== null
  })
}
