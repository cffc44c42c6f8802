import { UNSUPPORTED_MEDIA_TYPE } from '../operations/error-kinds.ts'
import { LongError } from '../operations/errors.ts'
import { trimmed, type ReadonlyHeaders } from './headers.ts'

export function bodyCoding(headers: ReadonlyHeaders): string | null {
  const codings = headers.all('content-encoding').flatMap(value => value.split(','))
  return codings.map(coding => trimmed(coding).toLowerCase()).find(coding => !['', 'identity'].includes(coding)) ?? null
}

export function otherCharset(headers: ReadonlyHeaders): string | null {
  const charsets = headers
    .all('content-type')
    .flatMap(type => [...type.matchAll(/;\s*charset\s*=\s*"?([^";]*)/gi)].map(([, charset = '']) => trimmed(charset)))
  return charsets.find(charset => !/^utf-?8$/i.test(charset)) ?? null
}

/** @throws LongError 415 where the body is not declared as JSON, or is compressed (decision 5) */
export function requireJson(headers: ReadonlyHeaders): void {
  if (bodyCoding(headers) !== null) {
    throw new LongError(
      UNSUPPORTED_MEDIA_TYPE,
      'Unsupported media type',
      'The body must be sent as it is, without a Content-Encoding.',
      {},
      ['Accept-Encoding', 'identity']
    )
  }
  const type = headers.get('content-type')
  const essence = type === undefined ? undefined : trimmed(type.split(';', 1)[0] ?? '').toLowerCase()
  if (essence === 'application/json' || (essence !== undefined && /^application\/[a-z0-9.-]+\+json$/.test(essence)))
    return
  throw new LongError(
    UNSUPPORTED_MEDIA_TYPE,
    'Unsupported media type',
    `The body must be JSON with Content-Type: application/json${type === undefined ? '' : `, not ${essence ?? type}`}.`
  )
}
