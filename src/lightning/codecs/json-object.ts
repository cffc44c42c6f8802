import { isUtf8 } from 'node:buffer'
import { jsonOrUndefined } from '../../engine/formats/json-reader.ts'

export type JsonFields = Readonly<Record<string, unknown>>

const utf8 = new TextDecoder()

/** Decodes base64url JSON; null unless an object. */
export function decodeJsonObject(base64url: string): JsonFields | null {
  const bytes = Buffer.from(base64url, 'base64url')
  return isUtf8(bytes) ? asObject(jsonOrUndefined(utf8.decode(bytes))) : null
}

/** Null for arrays and other non-objects. */
export function asObject(value: unknown): JsonFields | null {
  // JSON objects have string keys; each member is checked where it is read.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonFields) : null
}

/** The object in a member, else null. */
export function member(object: JsonFields, name: string): JsonFields | null {
  return Object.hasOwn(object, name) ? asObject(object[name]) : null
}

/** The non-empty text in a member, else null. */
export function textIn(object: JsonFields, name: string): string | null {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return typeof value === 'string' && value !== '' ? value : null
}

/** Like `textIn`, but undefined for a wrong type; null and '' are absent. */
export function optionalTextIn(object: JsonFields, name: string): string | null | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : null
  if (value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}
