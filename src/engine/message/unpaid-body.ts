import type { Context } from './context.ts'
import { UNSUPPORTED_MEDIA_TYPE } from '../operations/error-kinds.ts'
import { LongError } from '../operations/errors.ts'
import { trimmed, type ReadonlyHeaders } from './headers.ts'
import { hasPaymentCredential } from './payment-headers.ts'

/** Bytes of a body that count as one more request. */
const UNIT = 65_536
/** Pieces that do, since each costs time. */
const UNIT_PIECES = 1_024

/** A rate limit that counts bodies read before payment. */
export interface BodyLimit {
  /** Rejects with RateLimited where the limit is already reached. */
  count(ctx: Context, units: number): Promise<void>
}

/**
 * Reads the whole body of an unpaid request. Each 64 KiB, and each 1,024 pieces, count as one more request in the
 * chain's limits. A request with a credential is counted at its end, and only if it was not paid (decision 415).
 * `hasCredential` looks for one in the body.
 * @throws RateLimited, and what reading throws
 */
export function readUnpaidBody(
  ctx: Context,
  hasCredential: (bytes: Uint8Array) => boolean = () => false
): Promise<Uint8Array> {
  const { body } = ctx
  body.isAnonymous = true
  return body.bytes().then(bytes => {
    if (ctx.bodyUnits !== null) return bytes
    const units = Math.floor(bytes.byteLength / UNIT) + Math.floor(body.pieces / UNIT_PIECES)
    ctx.bodyUnits = 0
    if (units === 0 || ctx.bodyLimits.length === 0) return bytes
    const { headers } = ctx
    const pays = headers.has('authorization') || hasPaymentCredential(headers)
    if (pays || hasCredential(bytes)) {
      ctx.bodyUnits = units
      return bytes
    }
    return Promise.all(ctx.bodyLimits.map(limit => limit.count(ctx, units))).then(() => bytes)
  })
}

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
