/**
 * Preimages and payment hashes: 32 bytes each, written as 64 lower-case hex characters. The payment hash is the SHA-256
 * of the preimage, so whoever shows the preimage has paid the invoice.
 */
import { hash } from 'node:crypto'
import { equalDigests, sha256 } from './hmac.ts'

/**
 * Whether `text` is 64 lower-case hex characters, the only form of a preimage or payment hash that is accepted. Upper
 * case and a `0x` in front are not (contract, Errors).
 */
export function isHex32(text: string): boolean {
  if (text.length !== 64) return false
  for (let index = 0; index < 64; index++) {
    const code = text.charCodeAt(index)
    if (code < 48 || code > 102 || (code > 57 && code < 97)) return false
  }
  return true
}

/** The payment hash (64 lower-case hex) of a preimage (64 lower-case hex). The preimage must have passed `isHex32`. */
export function paymentHashOf(preimage: string): string {
  return hash('sha256', Buffer.from(preimage, 'hex'), 'hex')
}

/** Whether SHA-256 of `preimage` is `paymentHash`; false, never an exception, when either is not 64 lower-case hex. */
export function preimageMatches(preimage: string, paymentHash: string): boolean {
  if (!isHex32(preimage) || !isHex32(paymentHash)) return false
  return equalDigests(sha256(Buffer.from(preimage, 'hex')), Buffer.from(paymentHash, 'hex'))
}
