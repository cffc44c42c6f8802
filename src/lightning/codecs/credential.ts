/**
 * Finds a request's payment credential: at most one, in one of three profiles (contract, Credential profiles; decision
 * 125). Checks form only.
 */
import { decodeMacaroonBase64, decodeMacaroonHex, encodeMacaroon, MacaroonError } from '../l402/macaroon.ts'
import { readHexMacaroon, readL402Value } from '../l402/l402-header.ts'
import { readPaymentValue } from '../payment-scheme/payment-credential.ts'
import { decodePaidKey } from '../l402/root-key.ts'
import {
  credentialField,
  mayCarryPreimage,
  paidKey,
  paymentScheme,
  schemeValue
} from '../../engine/message/payment-headers.ts'

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
      /** A paid key: `preimage` may be the gateway's own proof. */
      readonly isKey?: true
    }
  /** `Payment method="lightning", preimage="…"`. The preimage is 64 lower-case hex. */
  | { readonly kind: 'legacy'; readonly preimage: string }
  /** `Payment <token>`, in base64url; decoded by `parsePaymentToken`. `inOwnField`: sent in Payment-Authorization. */
  | { readonly kind: 'modern'; readonly token: string; readonly inOwnField?: true }
  /** `PAYMENT-SIGNATURE`; decoded by `readExactCredential`. */
  | { readonly kind: 'x402'; readonly token: string }
  /**
   * An unreadable credential. `classic` and `request` (several credentials, or too long) get 400, `legacy` the ordinary
   * 402 body (decision 120), `modern` the problem `invalid-challenge` (decision 119).
   */
  | {
      readonly kind: 'malformed'
      readonly profile: 'classic' | 'legacy' | 'modern' | 'request'
      readonly status: 400 | 402
      readonly message: string
      readonly inOwnField?: true
    }

const NONE: Credential = Object.freeze({ kind: 'none' })

/**
 * Fast path for the only value that may be a credential, without a macaroon header. `takesKeys`: paid keys are accepted
 * here.
 */
export function readAuthorization(value: string, takesKeys = false): Credential {
  return readScheme(value) ?? (takesKeys ? readKey(value) : null) ?? NONE
}

/**
 * Reads `[name, value, …]`, as in `rawHeaders`, with paid keys if `takesKeys` and x402 if `takesX402`. Equal L402
 * credentials count as one. Different ones, two of Payment or x402, two schemes, or two other Authorization schemes are
 * `malformed`, profile `request`.
 */
export function readCredential(pairs: readonly string[], takesKeys = false, takesX402 = false): Credential {
  let found: Credential | null = null
  let others = 0
  for (let index = 0; index + 1 < pairs.length; index += 2) {
    const field = credentialField(pairs[index] ?? '')
    if (field === null || (field === 'key' && !takesKeys) || (field === 'x402' && !takesX402)) continue
    const value = pairs[index + 1] ?? ''
    let next: Credential | null
    if (field === 'x402') next = { kind: 'x402', token: value }
    else if (field === 'key') next = readKey(value)
    else if (field === 'payment') next = readOwnField(value)
    else if (field === 'authorization') {
      if (value.trim() === '') continue
      next = readScheme(value) ?? (takesKeys ? readKey(value) : null)
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

export const UNREADABLE_KEY = 'The key cannot be read: copy the whole of it, from bg_ to its end'

function readKey(value: string): Credential | null {
  const key = paidKey(value)
  if (key === null) return null
  const read = key.length > MAX_CREDENTIAL_CHARS ? null : decodePaidKey(key)
  if (read === null) return { kind: 'malformed', profile: 'classic', status: 400, message: UNREADABLE_KEY }
  return { kind: 'classic', macaroon: read.macaroon, encoding: 'base64', preimage: read.proof, isKey: true }
}

/** Payment-Authorization holds a modern token and nothing else. */
function readOwnField(value: string): Credential {
  const read = paymentScheme(value) === 'payment' ? readScheme(value) : null
  if (read?.kind === 'modern') return { ...read, inOwnField: true }
  if (read?.kind === 'malformed' && read.status === 400) return read
  return {
    kind: 'malformed',
    profile: 'modern',
    status: 402,
    message: 'Payment-Authorization must be Payment and a token in base64url',
    inOwnField: true
  }
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
