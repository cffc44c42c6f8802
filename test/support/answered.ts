import { asGatewayError } from '../../src/engine/operations/errors.ts'

/**
 * What a service's rejection is answered with: errors become replies in one place, so services throw a lost database as
 * it is.
 */
export async function answered<T>(asking: Promise<T>): Promise<T> {
  try {
    return await asking
  } catch (error) {
    throw asGatewayError(error)
  }
}
