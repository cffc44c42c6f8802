import type { Context } from './context.ts'

/** Bytes of a body that count as one more request. */
const UNIT = 65_536
/** Pieces that do: small chunks cost time for each of them. */
const UNIT_PIECES = 1_024

/** A rate limit of a chain, which counts a body that is read before anything is paid. */
export interface BodyLimit {
  /** Counts `units` more requests. Rejects with RateLimited where the limit is reached already. */
  count(ctx: Context, units: number): Promise<void>
}

/**
 * The whole body of a request that nobody has paid for yet. Each 64 KiB of it, and each 1,024 pieces, count as one more
 * request in the limits of the chain, at once; where the request brings a credential only if it is not paid in the end (decision 415).
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
