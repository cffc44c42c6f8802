/**
 * Preimages and payment hashes: 32 bytes as 64 lower-case hex characters. The hash is the preimage's SHA-256, so a
 * preimage proves payment.
 */
import { hash } from 'node:crypto'
import { equalDigests, sha256 } from './hmac.ts'

/** Whether `text` is 64 lower-case hex characters. Upper case and `0x` are rejected (contract, Errors). */
export function isHex32(text: string): boolean {
  if (text.length !== 64) return false
  for (let index = 0; index < 64; index++) {
    const code = text.charCodeAt(index)
    if (code < 48 || code > 102 || (code > 57 && code < 97)) return false
  }
  return true
}

/** The payment hash of a preimage that passed `isHex32`. */
export function paymentHashOf(preimage: string): string {
  return hash('sha256', Buffer.from(preimage, 'hex'), 'hex')
}

/** False, never an exception, for malformed input. */
export function preimageMatches(preimage: string, paymentHash: string): boolean {
  if (!isHex32(preimage) || !isHex32(paymentHash)) return false
  return equalDigests(sha256(Buffer.from(preimage, 'hex')), Buffer.from(paymentHash, 'hex'))
}
