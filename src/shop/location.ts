import { VALIDATION } from '../engine/operations/error-kinds.ts'
import { LongError } from '../engine/operations/errors.ts'
import { trimmed, type ReadonlyHeaders } from '../engine/message/headers.ts'
import { countryCode } from './pages/countries.ts'
import type { BuyerLocation } from './schema.ts'

/** Where a checkout's goods go. */
export const LOCATION_HEADER = 'X-Buyer-Location'

const FORM = /^[A-Z]{2}-[A-Z0-9]{0,3}-.{0,20}$/

/**
 * Reads X-Buyer-Location: `{country}-{state}-{zip}`, split at the first two dashes (ZIP+4 keeps its own); the state may
 * be empty (decision 139). Required, since tax is computed from it (contract, Checkout 402 response).
 * @throws LongError 400 when it is missing, blank, malformed, or sent twice with different values
 */
export function readLocation(headers: ReadonlyHeaders): BuyerLocation {
  const [first, ...others] = new Set(headers.all(LOCATION_HEADER.toLowerCase()).map(trimmed))
  if (first === undefined || first === '')
    throw invalid(`The header ${LOCATION_HEADER} is required: {country}-{state}-{zip}, such as US-CA-94103.`)
  if (others.length > 0) throw invalid(`The header ${LOCATION_HEADER} was sent more than once, with different values.`)
  const text = first.toUpperCase()
  if (!FORM.test(text))
    throw invalid(
      `The header ${LOCATION_HEADER} must be {country}-{state}-{zip}, such as US-CA-94103 or SG--018956: two letters, at most 3 letters or digits, at most 20 characters.`
    )
  const zipAt = text.indexOf('-', 3) + 1
  const country = countryCode(text.slice(0, 2))
  if (country === null)
    throw invalid(
      `The header ${LOCATION_HEADER} must begin with a country's two letters (ISO 3166-1), not ${text.slice(0, 2)}.`
    )
  return { country, state: text.slice(3, zipAt - 1), zip: trimmed(text.slice(zipAt)) }
}

function invalid(message: string): LongError {
  return new LongError(VALIDATION, 'Invalid buyer location', message)
}
