/** Members of JSON objects that clients wrote: each is checked where it is read. */

/** An object of JSON: string keys, and values that nobody has checked. */
export type JsonFields = Readonly<Record<string, unknown>>

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The object in base64url of JSON in UTF-8; null when there is none. */
export function decodeJsonObject(base64url: string): JsonFields | null {
  try {
    return asObject(JSON.parse(utf8.decode(Buffer.from(base64url, 'base64url'))))
  } catch (error) {
    // Bad UTF-8 is a TypeError, bad JSON a SyntaxError; both mean that there is no object.
    if (error instanceof TypeError || error instanceof SyntaxError) return null
    throw error
  }
}

/** The value as an object; null for arrays and all else. */
export function asObject(value: unknown): JsonFields | null {
  // A JSON object has string keys and unknown values; each member is checked where it is read.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonFields) : null
}

/** The object in a member; null when it is not there or is something else. */
export function member(object: JsonFields, name: string): JsonFields | null {
  return Object.hasOwn(object, name) ? asObject(object[name]) : null
}

/** The text in a member; null when it is not there, empty, or something else. */
export function textIn(object: JsonFields, name: string): string | null {
  const value = Object.hasOwn(object, name) ? object[name] : undefined
  return typeof value === 'string' && value !== '' ? value : null
}

/** The same, but undefined for a member that is there with a wrong type; null and '' read as absent. */
export function optionalTextIn(object: JsonFields, name: string): string | null | undefined {
  const value = Object.hasOwn(object, name) ? object[name] : null
  if (value === null || value === '') return null
  return typeof value === 'string' ? value : undefined
}
