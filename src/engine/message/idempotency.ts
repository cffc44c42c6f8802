import { idempotencyKeyReused, ShortError } from '../operations/errors.ts'

/** The idempotency key under which a request runs (contract, Limits; decisions 18 to 20). */
export interface Idempotency {
  /** At most 256 characters. */
  readonly key: string
  /** SHA-256 of the raw body, 64 hex characters. */
  readonly fingerprint: string
}

/** What a request has made under an idempotency key, and that request's fingerprint. */
export interface Kept<T> {
  readonly made: T
  readonly fingerprint: string
  /** From when on another body makes a new request of the key, in milliseconds; null while it may not (decision 185). */
  readonly freeAt: number | null
}

/** Milliseconds for which an idempotency key belongs to one body (contract, Limits). */
export const KEY_LIFETIME = 86_400_000

/** Another request has made something under the same idempotency key in this moment. */
export class IdempotencyKeyTaken extends Error {
  override name = 'IdempotencyKeyTaken'
}

/**
 * Makes something once for each key, where the key is stored in the row of what was made (decision 185): it outlives the
 * replays that the shared state keeps, and every restart. A repetition is replayed for as long as the row exists; another
 * body is refused until `freeAt`, and then takes the key.
 * @param find what the key has made before
 * @param make takes the key from a row that no longer has a claim to it; rejects with `IdempotencyKeyTaken` when another was faster, or with a `ShortError` that what it made may
 *   be the reason of
 * @param now in milliseconds
 * @returns what was made now or before, with the headers that say so
 * @throws ShortError 400 for a key that was used with another body
 */
export async function once<T>(
  idempotency: Idempotency | null,
  find: (key: string) => Promise<Kept<T> | null>,
  make: () => Promise<T>,
  now: number
): Promise<{ readonly made: T; readonly headers: readonly string[] }> {
  if (idempotency === null) return { made: await make(), headers: [] }
  const kept = async (): Promise<{ readonly made: T; readonly headers: readonly string[] } | null> => {
    const found = await find(idempotency.key)
    if (found === null) return null
    if (found.fingerprint !== idempotency.fingerprint) {
      if (found.freeAt !== null && found.freeAt <= now) return null
      throw idempotencyKeyReused()
    }
    return { made: found.made, headers: ['X-Idempotency-Replayed', 'true'] }
  }
  const before = await kept()
  if (before !== null) return before
  try {
    return { made: await make(), headers: [] }
  } catch (error) {
    // What the first request has made can be why a second one is refused: nothing is left to refund, or the order id is
    // taken.
    const meanwhile = error instanceof IdempotencyKeyTaken || error instanceof ShortError ? await kept() : null
    if (meanwhile === null) throw error
    return meanwhile
  }
}
