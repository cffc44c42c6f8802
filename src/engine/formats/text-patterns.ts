import { Type, type TUnsafe } from 'typebox'
import { domainToASCII } from 'node:url'

/** Pattern of one line without control characters; PostgreSQL cannot store NUL. */
export const LINE = '^[^\\u0000-\\u001f\\u007f]*$'
export const TEXT = '^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]*$'

/** Its description, or other keywords of JSON Schema. */
type More = string | Readonly<Record<string, unknown>>

function nullable<T>(type: 'string' | 'integer'): (more?: More) => TUnsafe<T | null> {
  return (more = {}) =>
    Type.Unsafe({ type: [type, 'null'], ...(typeof more === 'string' ? { description: more } : more) })
}

export const nullableText: (more?: More) => TUnsafe<string | null> = nullable('string')
export const nullableInteger: (more?: More) => TUnsafe<number | null> = nullable('integer')

/**
 * Converts the domain of an email address to ASCII (RFC 5890) for SMTP. Returns the text unchanged where the domain is
 * ASCII or invalid.
 */
export function asciiEmail(text: string): string {
  const at = text.lastIndexOf('@') + 1
  const domain = text.slice(at)
  // Other characters may separate a port, a path or a user from the host; the longest domain has 253.
  if (at === 0 || domain.length > 253 || !/^[\p{L}\p{M}\p{N}.\u3002-]+$/u.test(domain) || /^[\x20-\x7e]*$/.test(domain))
    return text
  return text.slice(0, at) + (domainToASCII(domain) || domain)
}
