import { idempotencyKeyReused, ShortError } from '../operations/errors.ts'

/** The idempotency key of a request (contract, Limits; decisions 18 to 20). */
export interface Idempotency {
  /** At most 256 characters. */
  readonly key: string
  /** SHA-256 of the raw body, 64 hex characters. */
  readonly fingerprint: string
}

export interface Kept<T> {
  readonly made: T
  readonly fingerprint: string
  /** When another body may reuse the key; null for not yet (decision 185). */
  readonly freeAt: number | null
}

/** Milliseconds for which a key belongs to one body (contract, Limits). */
export const KEY_LIFETIME = 86_400_000

/** A concurrent request has used the same idempotency key. */
export class IdempotencyKeyTaken extends Error {
  override name = 'IdempotencyKeyTaken'
}

/**
 * Creates something once per key, which is stored in the created row (decision 185) and so outlives restarts and the
 * shared state's replays. Replays a repetition while the row exists; refuses another body until `freeAt`, after which
 * it takes the key.
 * @param find the key's previous result
 * @param make releases an expired key's row; rejects with `IdempotencyKeyTaken` when it lost a race, or with a
 * `ShortError` that the other request may have caused
 * @param now milliseconds
 * @returns the new or previous result, with the headers that say so
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
    // The first request may be the reason for this refusal: nothing left to refund, or the order id is taken.
    const meanwhile = error instanceof IdempotencyKeyTaken || error instanceof ShortError ? await kept() : null
    if (meanwhile === null) throw error
    return meanwhile
  }
}
