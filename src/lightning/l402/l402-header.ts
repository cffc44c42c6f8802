/** L402 in headers: the challenge line and the credential's spellings. Checks form only. */
import type { Credential } from '../codecs/credential.ts'
import { decodeMacaroonHex, MacaroonError } from './macaroon.ts'
import { isHex32 } from '../codecs/hmac.ts'

const MACAROON = /^[A-Za-z0-9+/]+={0,2}$/
const INVOICE = /^ln[a-z0-9]+$/

/**
 * The `WWW-Authenticate` value: `L402 macaroon="M", invoice="P", version="0", token="M"`. All deployed clients read
 * only this order, spacing and quoting.
 * @param macaroon standard base64 with padding
 * @param invoice BOLT 11 in lower case
 * @throws TypeError for invalid characters, which prevents header injection
 */
export function l402Challenge(macaroon: string, invoice: string): string {
  check(macaroon, invoice)
  return `L402 macaroon="${macaroon}", invoice="${invoice}", version="0", token="${macaroon}"`
}

/** Optional second line for old clients, with the same values. */
export function lsatChallenge(macaroon: string, invoice: string): string {
  check(macaroon, invoice)
  return `LSAT macaroon="${macaroon}", invoice="${invoice}"`
}

function check(macaroon: string, invoice: string): void {
  if (!MACAROON.test(macaroon)) throw new TypeError('The macaroon of a challenge must be standard base64')
  if (!INVOICE.test(invoice)) throw new TypeError('The invoice of a challenge must be BOLT11 in lower case')
}

/**
 * Reads `<macaroon>:<preimage>`. The preimage is checked first (contract's verification order); the macaroon stays text
 * (decision 111).
 */
export function readL402Value(value: string): Credential {
  const colon = value.indexOf(':')
  if (colon < 0) {
    return {
      kind: 'malformed',
      profile: 'classic',
      status: 400,
      message: 'The L402 credential must be <macaroon>:<preimage>'
    }
  }
  return classic(value.slice(0, colon), 'base64', value.slice(colon + 1))
}

/**
 * Reads `Grpc-Metadata-Macaroon` or `Macaroon`: a hex macaroon with a preimage caveat. Null for others, since other
 * services use these headers.
 */
export function readHexMacaroon(value: string): Credential | null {
  let caveats: readonly Uint8Array[]
  try {
    caveats = decodeMacaroonHex(value).caveats
  } catch (error) {
    if (error instanceof MacaroonError) return null
    throw error
  }
  for (const caveat of caveats) {
    const text = Buffer.from(caveat).toString('latin1')
    if (text.startsWith('preimage=')) return classic(value, 'hex', text.slice('preimage='.length))
  }
  return null
}

function classic(macaroon: string, encoding: 'base64' | 'hex', preimage: string): Credential {
  if (isHex32(preimage)) return { kind: 'classic', macaroon, encoding, preimage }
  return {
    kind: 'malformed',
    profile: 'classic',
    status: 400,
    message: 'The preimage must be exactly 64 lower-case hex characters'
  }
}
