/**
 * Reads members of a provider's JSON. What is missing or of another type reads as null or as nothing, so that only what a
 * caller needs makes an answer unusable.
 */
export type JsonMembers = Readonly<Record<string, unknown>>

/** What JSON holds; undefined for an empty text, and for a page or anything else. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return undefined
  }
}

/** The members of an object; null for everything else. */
export function jsonMembers(value: unknown): JsonMembers | null {
  // Any object's members may be looked at.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonMembers) : null
}

/** The items of a list; none where it is no list. */
export function jsonList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** A text that is not empty. */
export function jsonText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** A whole number from 0 that counts exactly, as a number or as a text of digits; 0 where there is none. */
export function jsonWhole(value: unknown): number {
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && /^\d{1,19}$/.test(value) ? Number(value) : 0
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}

/** A hash or preimage: 64 lower-case hex characters. */
export function jsonHash(value: unknown): string | null {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value) ? value : null
}
