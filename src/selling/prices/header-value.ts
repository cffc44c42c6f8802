import { trimmed, type ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { FieldRead } from './json-text.ts'

/**
 * One request header. A fault if repeated, spelled with an underscore, which some servers treat alike, or named by
 * Connection, which would drop it.
 */
export function headerValue(headers: ReadonlyHeaders, name: string): FieldRead {
  const wanted = name.toLowerCase()
  let value: string | null = null
  for (let at = 0; at < headers.pairs.length; at += 2) {
    const given = (headers.pairs[at] ?? '').toLowerCase()
    if (given === 'connection' && listed(headers.pairs[at + 1] ?? '', wanted))
      return { kind: 'fault', message: `Connection names the header ${name}, so that it would not be sent on` }
    if (given.replaceAll('_', '-') !== wanted.replaceAll('_', '-')) continue
    if (value !== null || given !== wanted)
      return { kind: 'fault', message: `the header ${name} stands twice, or in another spelling` }
    value = headers.pairs[at + 1] ?? ''
  }
  return value === null ? { kind: 'missing' } : { kind: 'value', value: trimmed(value) }
}

function listed(field: string, name: string): boolean {
  return field.split(',').some(token => trimmed(token).toLowerCase() === name)
}
