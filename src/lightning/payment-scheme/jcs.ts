/**
 * JSON Canonicalization Scheme (RFC 8785). Challenges are bound to this text, because clients parse and reserialize the
 * object before echoing it.
 */

export type JcsValue = null | boolean | number | string | readonly JcsValue[] | { readonly [name: string]: JcsValue }

/** A value outside JSON and RFC 8785: NaN, an infinity, a lone surrogate, a non-JSON value. */
export class JcsError extends Error {
  override readonly name = 'JcsError'
}

/**
 * No white space, members sorted by UTF-16 code units, numbers and strings as in ECMAScript.
 * @throws JcsError unless I-JSON (RFC 7493)
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
  // sort() compares UTF-16 code units, as RFC 8785, 3.2.3 requires.
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

// Array.isArray does not narrow readonly arrays.
function isArray(value: object): value is readonly JcsValue[] {
  return Array.isArray(value)
}
