import { Unavailable } from '../../engine/operations/errors.ts'
import { ProviderRefused } from '../provider-calls/errors.ts'

export interface InOrder<Next> {
  /** Null or absent for the last. */
  readonly instead?: Next | null
}

/**
 * Tries providers in order. Passes over an open breaker, an exhausted budget, no answer, or a refused key; the first
 * two fail without a call, so no check is needed beforehand. A refused request is final, as it would be anywhere.
 *
 * @throws the error of the only one; else the error with the shortest wait
 */
export async function byFirst<Maker extends InOrder<Maker>, T>(
  first: Maker,
  make: (maker: Maker) => Promise<T>
): Promise<T> {
  let thrown: Error | null = null
  for (let maker: Maker | null = first; maker !== null; maker = maker.instead ?? null) {
    try {
      return await make(maker)
    } catch (error) {
      if (!isPassedOver(error)) throw error
      if (thrown === null || waitOf(error) < waitOf(thrown)) thrown = error
    }
  }
  throw thrown ?? new TypeError('nobody was asked')
}

/** Whether the next may be tried: nothing visible was made. */
export function isPassedOver(error: unknown): error is Error {
  return error instanceof Unavailable || (error instanceof ProviderRefused && error.reason !== 'request')
}

/** Seconds to retry; errors that waiting cannot fix sort last. */
function waitOf(error: Error): number {
  return error instanceof Unavailable ? Number(error.headers[1] ?? Infinity) : Infinity
}
