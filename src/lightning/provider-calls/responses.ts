import { Type, type StaticDecode, type TSchema } from 'typebox'
import { parseResponse } from '../../engine/formats/response-schema.ts'
import { unusableResponse } from './errors.ts'

/** A hash or preimage: 64 lower-case hex characters. */
export const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' })

/** Members of any names. */
export const JsonRecord = Type.Record(Type.String(), Type.Unknown())
export type JsonRecord = Readonly<Record<string, unknown>>

/** A whole number from 0 that counts exactly, as a number or as a text of digits; 0 in place of anything else. */
export const Whole = Type.Decode(Type.Unknown(), wholeOf)

/** Milliseconds since the epoch of a time in whole seconds; null where there is none. */
export const Seconds = Type.Decode(Type.Unknown(), value => wholeOf(value) * 1000 || null)

/** What a response says. @throws ProviderUnavailable where it does not fit */
export function requireResponse<T extends TSchema>(schema: T, body: unknown): StaticDecode<T> {
  return parseResponse(schema, body, unusableResponse)
}

/** What JSON holds; undefined for an empty text, and for a page or anything else. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return undefined
  }
}

export function wholeOf(value: unknown): number {
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && /^\d{1,19}$/.test(value) ? Number(value) : 0
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}
