import type { FieldRead } from './json-text.ts'

/**
 * A route path's parameter: decoded `value`, raw `path`. A semicolon is a fault: some servers drop what follows as a
 * segment parameter (RFC 3986, 3.3).
 */
export function pathParameter(value: string | undefined, path: string, name: string): FieldRead {
  if (value === undefined) return { kind: 'missing' }
  if (value.includes(';') && path.includes(';'))
    return { kind: 'fault', message: `a semicolon stands in ${JSON.stringify(name)} of the path; write it as %3B` }
  return { kind: 'value', value }
}
