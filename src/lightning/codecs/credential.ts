/**
 * Finds a request's payment credential: at most one, in one of three profiles (contract, Credential profiles; decision
 * 125). Checks form only.
 */
import { decodeMacaroonBase64, decodeMacaroonHex, encodeMacaroon, MacaroonError } from '../l402/macaroon.ts'
import { readHexMacaroon, readL402Value } from '../l402/l402-header.ts'
import { readPaymentValue } from '../payment-scheme/payment-credential.ts'
import { credentialField, mayCarryPreimage, paymentScheme, schemeValue } from '../../engine/message/payment-headers.ts'

/** In characters; longer ones get 400. */
export const MAX_CREDENTIAL_CHARS = 65_536

export type Credential =
  /** None of ours. Answered with a first challenge. */
  | { readonly kind: 'none' }
  /** `L402 <macaroon>:<preimage>`. The preimage is 64 lower-case hex; the macaroon is not decoded. */
  | {
      readonly kind: 'classic'
      readonly macaroon: string
      readonly encoding: 'base64' | 'hex'
      readonly preimage: string
    }
  /** `Payment method="lightning", preimage="…"`. The preimage is 64 lower-case hex. */
  | { readonly kind: 'legacy'; readonly preimage: string }
  /** `Payment <token>`, in base64url; decoded by `parsePaymentToken`. */
  | { readonly kind: 'modern'; readonly token: string }
  /**
   * An unreadable credential. `classic` and `request` (several credentials, or too long) get 400, `legacy` the ordinary
   * 402 body (decision 120), `modern` the problem `invalid-challenge` (decision 119).
   */
  | {
      readonly kind: 'malformed'
      readonly profile: 'classic' | 'legacy' | 'modern' | 'request'
      readonly status: 400 | 402
      readonly message: string
    }

const NONE: Credential = Object.freeze({ kind: 'none' })

/** Fast path for a single `Authorization` value without a macaroon header. */
export function readAuthorization(value: string): Credential {
  return readScheme(value) ?? NONE
}

/**
 * Reads `[name, value, …]`, as in `rawHeaders`. Equal L402 credentials count as one. Different ones, two Payment
 * credentials, both schemes, or two other Authorization schemes are `malformed`, profile `request`.
 */
export function readCredential(pairs: readonly string[]): Credential {
  let found: Credential | null = null
  let others = 0
  for (let index = 0; index + 1 < pairs.length; index += 2) {
    const field = credentialField(pairs[index] ?? '')
    if (field === null) continue
    const value = pairs[index + 1] ?? ''
    let next: Credential | null
    if (field === 'authorization') {
      if (value.trim() === '') continue
      next = readScheme(value)
      if (next === null && ++others > 1) return conflict('More than one Authorization header')
    } else {
      next = mayCarryPreimage(value) ? readHexMacaroon(value.trim()) : null
    }
    if (next === null) continue
    if (found !== null && !sameClassic(found, next)) return conflict('More than one payment credential')
    found ??= next
  }
  return found ?? NONE
}

function conflict(message: string): Credential {
  return { kind: 'malformed', profile: 'request', status: 400, message }
}

// Null for other schemes.
function readScheme(value: string): Credential | null {
  const scheme = paymentScheme(value)
  if (scheme === null) return null
  if (value.trim().length > MAX_CREDENTIAL_CHARS) {
    return {
      kind: 'malformed',
      profile: 'request',
      status: 400,
      message: `The credential is longer than ${MAX_CREDENTIAL_CHARS} characters`
    }
  }
  const rest = schemeValue(value, scheme)
  return scheme === 'payment' ? readPaymentValue(rest) : readL402Value(rest)
}

// Some clients send both `LSAT …` and `L402 …`; one repeats the token in hex for gRPC.
function sameClassic(left: Credential, right: Credential): boolean {
  if (left.kind === 'malformed' && right.kind === 'malformed') {
    return left.profile === 'classic' && right.profile === 'classic'
  }
  if (left.kind !== 'classic' || right.kind !== 'classic' || left.preimage !== right.preimage) return false
  if (left.macaroon === right.macaroon && left.encoding === right.encoding) return true
  try {
    return (
      Buffer.compare(canonicalBytes(left.macaroon, left.encoding), canonicalBytes(right.macaroon, right.encoding)) === 0
    )
  } catch (error) {
    if (error instanceof MacaroonError) return false
    throw error
  }
}

function canonicalBytes(macaroon: string, encoding: 'base64' | 'hex'): Uint8Array {
  return encodeMacaroon(encoding === 'hex' ? decodeMacaroonHex(macaroon) : decodeMacaroonBase64(macaroon))
}
