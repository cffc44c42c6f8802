/**
 * A paid key: `bg_` and the base64url of a proof (32 bytes) and a macaroon. Another spelling of an L402 credential, for
 * clients that know a base URL and a key. The proof is the preimage, or the gateway's own after it saw the payment, so
 * that a buyer whose wallet hides the preimage has a key too. Holders narrow it by caveats without asking.
 */
import { equalDigests, hmacSha256 } from '../codecs/hmac.ts'

const PREFIX = 'bg_'
const PROOF_BYTES = 32
const PURPOSE = Buffer.from('boltgate/key')
const FORM = /^bg_([A-Za-z0-9_-]+)$/

/** `proof` is 32 bytes, `macaroon` binary. */
export function encodePaidKey(proof: Uint8Array, macaroon: Uint8Array): string {
  return PREFIX + Buffer.concat([proof, macaroon]).toString('base64url')
}

/** In the spelling of an L402 credential: hex proof, base64 macaroon. Null if it is no key. */
export function decodePaidKey(key: string): { readonly proof: string; readonly macaroon: string } | null {
  const [, text] = FORM.exec(key) ?? []
  if (text === undefined) return null
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length <= PROOF_BYTES) return null
  return { proof: bytes.toString('hex', 0, PROOF_BYTES), macaroon: bytes.toString('base64', PROOF_BYTES) }
}

/** The gateway's proof of a payment, made only once the payment is known. `rootKey` is the token's. */
export function keyProof(rootKey: Uint8Array, paymentHash: string): Buffer {
  return hmacSha256(rootKey, Buffer.concat([PURPOSE, Buffer.from(paymentHash, 'hex')]))
}

/** Compares in constant time. `proof` is 64 hex characters. */
export function isKeyProof(proof: string, rootKey: Uint8Array, paymentHash: string): boolean {
  return equalDigests(keyProof(rootKey, paymentHash), Buffer.from(proof, 'hex'))
}
