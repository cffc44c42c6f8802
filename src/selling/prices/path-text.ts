import type { FieldRead } from './json-text.ts'

/**
 * One parameter of a route's path, `value` once decoded and `path` as it was sent. It is a fault with a semicolon, behind
 * which some servers drop what stands as a parameter of the segment (RFC 3986, 3.3).
 */
export function pathParameter(value: string | undefined, path: string, name: string): FieldRead {
  if (value === undefined) return { kind: 'missing' }
  if (value.includes(';') && path.includes(';'))
    return { kind: 'fault', message: `a semicolon stands in ${JSON.stringify(name)} of the path; write it as %3B` }
  return { kind: 'value', value }
}
