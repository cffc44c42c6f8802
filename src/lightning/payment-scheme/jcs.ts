/**
 * The JSON Canonicalization Scheme (RFC 8785): one sequence of characters for one JSON value. Payment challenges are
 * bound to these characters, because clients parse the object and serialise it again before they echo it.
 */

/** What JSON can say. */
export type JcsValue = null | boolean | number | string | readonly JcsValue[] | { readonly [name: string]: JcsValue }

/** A value that JSON, and so RFC 8785, cannot say: NaN, an infinity, a lone surrogate, a value that is not JSON. */
export class JcsError extends Error {
  override readonly name = 'JcsError'
}

/**
 * The canonical text of `value`: no white space, members sorted by the UTF-16 code units of their names, numbers and
 * strings as ECMAScript writes them.
 * @throws JcsError when the value is not I-JSON (RFC 7493).
 */
export function canonicalize(value: JcsValue): string {
  switch (typeof value) {
    case 'string':
      return quote(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'number':
      if (!Number.isFinite(value)) throw new JcsError(`A number must be finite to be written as JSON, not ${value}`)
      return JSON.stringify(value)
    case 'object':
      break
    default:
      throw new JcsError(`A value of type ${typeof value} cannot be written as JSON`)
  }
  if (value === null) return 'null'
  if (isArray(value)) return `[${value.map(item => canonicalize(item)).join(',')}]`
  const members: string[] = []
  // The default order of sort() is by UTF-16 code units, which is what RFC 8785, 3.2.3 asks for.
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined)
      throw new JcsError(`The member ${JSON.stringify(name)} is undefined; leave it out or make it null`)
    members.push(`${quote(name)}:${canonicalize(member)}`)
  }
  return `{${members.join(',')}}`
}

function quote(text: string): string {
  if (!text.isWellFormed()) throw new JcsError('A string holds a lone surrogate, which RFC 8785 forbids')
  return JSON.stringify(text)
}

// Array.isArray does not narrow a readonly array in TypeScript.
function isArray(value: object): value is readonly JcsValue[] {
  return Array.isArray(value)
}
