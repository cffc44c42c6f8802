import type { KindName } from './provider.ts'

/** A provider of a slot, as far as keys are told apart by it. */
export interface KeyedSeat {
  readonly name: string
  readonly kind: KindName
  /** As `ProviderKind.keyFault`. */
  keyFault(key: string): string | undefined
}

/** A key of an account, with the provider that it is for. */
export interface SlotKey<Seat> {
  readonly seat: Seat
  readonly key: string
}

/** A text that does not say which key is for whom. The message repeats nothing of it. */
export class SlotKeysError extends Error {
  override name = 'SlotKeysError'
}

/** `kind:key`; what goes on with slashes is an address of its own. */
const NAMED = /^([a-z][a-z0-9-]*):(?!\/\/)(\S+)$/
/** A kind that takes this takes any text. */
const ANY_TEXT = '0'.repeat(40)

/**
 * The keys of an account in a slot, in the account's own order, which is that in which its providers are asked. Where
 * the slot has one provider the text is its key, whatever it holds. Where it has several, the text holds one key for
 * each that the account uses, with white space between them: an address says by its form for whom it is, and before any
 * other stands its kind, as in `strike:…`, unless only one kind can mean it. Of each kind there is one key.
 * @throws SlotKeysError
 */
export function readSlotKeys<Seat extends KeyedSeat>(
  text: string,
  seats: readonly Seat[]
): ReadonlyArray<SlotKey<Seat>> {
  const [only] = seats
  if (only === undefined) return []
  if (seats.length === 1) return [{ seat: only, key: text }]
  // The first of each kind stands for all of it: what the account's key does not say, the operator's order must not.
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
  // A node's address with a mistake in it must not be sent to somebody who takes any text for a key.
  const [one, ...others] = byForm.length > 0 || token.includes('://') ? byForm : fitting
  if (one !== undefined && others.length === 0) return { seat: one, key: token }
  const choices = (one === undefined ? kinds : [one, ...others]).map(({ kind }) => kind)
  throw new SlotKeysError(
    one === undefined
      ? `Key ${number} has the form of none that is taken here: ${choices.join(', ')}.`
      : `Key ${number} may be for ${choices.join(' or ')}: write ${choices.map(kind => `${kind}:`).join(' or ')} before it.`
  )
}
