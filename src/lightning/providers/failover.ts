import { Unavailable } from '../../engine/operations/errors.ts'
import { ProviderRefused } from '../provider-calls/errors.ts'

/** Somebody who can be asked, and who is asked instead where that fails. */
export interface InOrder<Next> {
  /** Null, or left out, for the last one. */
  readonly instead?: Next | null
}

/**
 * Has the first do it who can: one whose breaker is open, whose budget is used up, who does not answer, or who refuses
 * the key itself is passed over. The first two throw at once, without a call, which is why nobody is
 * asked beforehand. What a provider says of the request itself is the answer, as it would be at any other.
 *
 * @throws what the last one threw where it is the only one; else the error with the shortest wait
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

/** Whether somebody else may be asked: nothing was made that anybody will hear of. */
export function isPassedOver(error: unknown): error is Error {
  return error instanceof Unavailable || (error instanceof ProviderRefused && error.reason !== 'request')
}

/** Seconds until it may be tried again; what waiting does not help comes last. */
function waitOf(error: Error): number {
  return error instanceof Unavailable ? Number(error.headers[1] ?? Infinity) : Infinity
}
