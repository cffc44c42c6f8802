import type { Context } from './context.ts'

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
  body.ofStranger = true
  return body.bytes().then(bytes => {
    if (ctx.bodyUnits !== null) return bytes
    const units = Math.floor(bytes.byteLength / UNIT) + Math.floor(body.pieces / UNIT_PIECES)
    ctx.bodyUnits = 0
    if (units === 0 || ctx.bodyLimits.length === 0) return bytes
    if (ctx.headers.has('authorization') || hasCredential(bytes)) {
      ctx.bodyUnits = units
      return bytes
    }
    return Promise.all(ctx.bodyLimits.map(limit => limit.count(ctx, units))).then(() => bytes)
  })
}
