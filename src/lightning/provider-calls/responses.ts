import { Type, type StaticDecode, type TSchema } from 'typebox'
import { parseResponse } from '../../engine/formats/response-schema.ts'
import { unusableResponse } from './errors.ts'

export const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' })

export const JsonRecord = Type.Record(Type.String(), Type.Unknown())
export type JsonRecord = Readonly<Record<string, unknown>>

/** A non-negative safe integer, from a number or digits; 0 for others. */
export const Whole = Type.Decode(Type.Unknown(), wholeOf)

/** Milliseconds from whole seconds; null where absent. */
export const Seconds = Type.Decode(Type.Unknown(), value => wholeOf(value) * 1000 || null)

/** @throws ProviderUnavailable when it does not match */
export function requireResponse<T extends TSchema>(schema: T, body: unknown): StaticDecode<T> {
  return parseResponse(schema, body, unusableResponse)
}

export function wholeOf(value: unknown): number {
  const number =
    typeof value === 'number' ? value : typeof value === 'string' && /^\d{1,19}$/.test(value) ? Number(value) : 0
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}
