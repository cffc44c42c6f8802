/**
 * Finds the payment credential of a request among its headers: at most one, in one of three profiles (contract,
 * Credential profiles; decision 125). Pure form: nothing here is verified.
 */
import { decodeMacaroonBase64, decodeMacaroonHex, encodeMacaroon, MacaroonError } from '../l402/macaroon.ts'
import { readHexMacaroon, readL402Value } from '../l402/l402-header.ts'
import { readPaymentValue } from '../payment-scheme/payment-credential.ts'
import { credentialField, mayCarryPreimage, paymentScheme, schemeValue } from '../../engine/message/payment-headers.ts'

/** The longest credential that is read, in characters; longer ones are refused with 400. */
export const MAX_CREDENTIAL_CHARS = 65_536

/** What a request carries. */
export type Credential =
  /** No payment credential; perhaps an unrelated one. Answer with a first challenge. */
  | { readonly kind: 'none' }
  /** `L402 <macaroon>:<preimage>`. The preimage is 64 lower-case hex; the macaroon is undecoded text. */
  | {
      readonly kind: 'classic'
      readonly macaroon: string
      readonly encoding: 'base64' | 'hex'
      readonly preimage: string
    }
  /** `Payment method="lightning", preimage="…"`. The preimage is 64 lower-case hex. */
  | { readonly kind: 'legacy'; readonly preimage: string }
  /** `Payment <token>`. The token has only base64url characters; read it with `parsePaymentToken`. */
  | { readonly kind: 'modern'; readonly token: string }
  /**
   * A credential that cannot be read. `classic` and `request` (more than one credential, or too long) are answered with
   * 400; `legacy` with the ordinary 402 body (decision 120); `modern` with the problem `invalid-challenge` (decision
   * 119).
   */
  | {
      readonly kind: 'malformed'
      readonly profile: 'classic' | 'legacy' | 'modern' | 'request'
      readonly status: 400 | 402
      readonly message: string
    }

const NONE: Credential = Object.freeze({ kind: 'none' })

/**
 * The fast path: the one `Authorization` value of a request that has neither a second one nor a macaroon header.
 */
export function readAuthorization(value: string): Credential {
  return readScheme(value) ?? NONE
}

/**
 * Reads all headers of a request as a flat list `[name, value, name, value, …]`, names in any case, as `rawHeaders`
 * gives them. Two L402 credentials that are equal count as one; two that differ, two Payment credentials, both schemes
 * at once, or two other Authorization schemes are `malformed`, profile `request`.
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

// Null for a scheme that is none of ours.
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

// A client that speaks both names sends `LSAT …` and `L402 …`; another repeats the token in hex for gRPC.
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
