import type { KindName } from '../provider-calls/provider.ts'
import type { SealedValue } from '../../platform/keys/secrets.ts'

export interface KeyedSeat {
  readonly name: string
  readonly kind: KindName
  /** As `ProviderKind.keyFault`. */
  keyFault(key: string): string | undefined
}

export interface SlotKey<Seat> {
  readonly seat: Seat
  readonly key: string
}

/** Keys that cannot be matched. The message holds none of the text. */
export class SlotKeysError extends Error {
  override name = 'SlotKeysError'
}

/** `kind:key`; with slashes it is an address. */
const NAMED = /^([a-z][a-z0-9-]*):(?!\/\/)(\S+)$/
/** A kind that accepts this accepts any text. */
const ANY_TEXT = '0'.repeat(40)

/**
 * An account's keys in a slot, in its own order of use. With one provider the text is its key. With several, white
 * space separates one key per kind. Addresses show their kind by form; other keys need a prefix such as `strike:…`
 * unless only one kind fits.
 * @throws SlotKeysError
 */
export function readSlotKeys<Seat extends KeyedSeat>(
  text: string,
  seats: readonly Seat[]
): ReadonlyArray<SlotKey<Seat>> {
  const [only] = seats
  if (only === undefined) throw new SlotKeysError('This gateway has no provider in this slot; use the other one.')
  if (seats.length === 1) return [{ seat: only, key: text }]
  // The first seat of a kind represents it: the operator's order must not decide.
  const kinds = seats.filter(({ kind }, index) => seats.findIndex(other => other.kind === kind) === index)
  const keys = text
    .trim()
    .split(/\s+/)
    .map((token, index) => readOne(token, index + 1, kinds))
  for (const [index, { seat }] of keys.entries())
    if (keys.findIndex(other => other.seat === seat) !== index)
      throw new SlotKeysError(`Two of the keys are for ${seat.kind}; there may be one of each.`)
  return keys
}

function readOne<Seat extends KeyedSeat>(token: string, number: number, kinds: readonly Seat[]): SlotKey<Seat> {
  const named = NAMED.exec(token)
  const [, name, rest = ''] = named ?? []
  const meant = kinds.find(({ kind }) => kind === name)
  if (meant !== undefined) return { seat: meant, key: rest }
  const fitting = kinds.filter(({ keyFault }) => keyFault(token) === undefined)
  const byForm = fitting.filter(({ keyFault }) => keyFault(ANY_TEXT) !== undefined)
  // A mistyped node address must not go to a kind that accepts any text.
  const [one, ...others] = byForm.length > 0 || token.includes('://') ? byForm : fitting
  if (one !== undefined && others.length === 0) return { seat: one, key: token }
  const choices = (one === undefined ? kinds : [one, ...others]).map(({ kind }) => kind)
  throw new SlotKeysError(
    one === undefined
      ? `Key ${number} has the form of none that is taken here: ${choices.join(', ')}.`
      : `Key ${number} may be for ${choices.join(' or ')}: write ${choices.map(kind => `${kind}:`).join(' or ')} before it.`
  )
}

/** The two provider slots (contract, Naming convention); configuration sets the kind. */
export type ProviderSlot = 'primary' | 'alternate'

/** Contract, What the service does 4. */
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
