import { createCipheriv, createDecipheriv, createECDH, createHmac, randomBytes } from 'node:crypto'
import { equalBytes } from '../../../platform/keys/constant-time.ts'

/** Encryption of Nostr messages between two keys, version 2 (NIP-44). */

/** A message that was not encrypted so, or not for us. */
export class Nip44Error extends Error {
  override name = 'Nip44Error'
}

const VERSION = 2
const NONCE_BYTES = 32
const MAC_BYTES = 32
const MAX_TEXT = 65_535
/** Characters of the shortest and the longest message in base64. */
const SHORTEST = 132
const LONGEST = 87_472

/** What two keys share: 32 bytes, the same from either side. Both are 32 bytes. */
export function sharedX(secret: Uint8Array, publicKey: Uint8Array): Buffer {
  const ours = createECDH('secp256k1')
  ours.setPrivateKey(secret)
  // Of the two points with this x either will do: the shared x is the same.
  return ours.computeSecret(Buffer.concat([Buffer.of(2), publicKey]))
}

/** What messages are encrypted with, from what the two keys share. */
export function conversationKey(shared: Uint8Array): Buffer {
  return hmac(Buffer.from('nip44-v2'), shared)
}

/** A text of 1 to 65,535 bytes, encrypted, as base64. `nonce`: 32 bytes that are never used twice. */
export function encrypt(text: string, key: Uint8Array, nonce: Uint8Array = randomBytes(NONCE_BYTES)): string {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length < 1 || bytes.length > MAX_TEXT) throw new Nip44Error(`the text has ${bytes.length} bytes`)
  const padded = Buffer.alloc(2 + paddedLength(bytes.length))
  padded.writeUInt16BE(bytes.length)
  bytes.copy(padded, 2)
  const { cipherKey, iv, macKey } = messageKeys(key, nonce)
  const cipher = createCipheriv('chacha20', cipherKey, iv)
  const hidden = Buffer.concat([cipher.update(padded), cipher.final()])
  return Buffer.concat([Buffer.of(VERSION), nonce, hidden, hmac(macKey, nonce, hidden)]).toString('base64')
}

/** The text of a message; nothing of it is looked at before its code was found right. @throws Nip44Error */
export function decrypt(message: string, key: Uint8Array): string {
  if (message.length < SHORTEST || message.length > LONGEST) throw new Nip44Error('the message has no length of one')
  const bytes = Buffer.from(message, 'base64')
  // Node skips what it does not know; only what comes out the same was understood whole.
  if (bytes.toString('base64') !== message) throw new Nip44Error('the message is not base64')
  if (bytes[0] !== VERSION) throw new Nip44Error('the message has another version')
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES)
  const hidden = bytes.subarray(1 + NONCE_BYTES, -MAC_BYTES)
  const { cipherKey, iv, macKey } = messageKeys(key, nonce)
  if (!equalBytes(hmac(macKey, nonce, hidden), bytes.subarray(-MAC_BYTES)))
    throw new Nip44Error('the message has another code')
  const cipher = createDecipheriv('chacha20', cipherKey, iv)
  const padded = Buffer.concat([cipher.update(hidden), cipher.final()])
  const length = padded.readUInt16BE()
  if (length < 1 || padded.length !== 2 + paddedLength(length)) throw new Nip44Error('the message is padded wrongly')
  return padded.toString('utf8', 2, 2 + length)
}

/** Bytes that a text of so many takes: the next of a few steps, so that its length is not shown. */
export function paddedLength(length: number): number {
  if (length <= 32) return 32
  const next = 2 ** (Math.floor(Math.log2(length - 1)) + 1)
  const step = next <= 256 ? 32 : next / 8
  return step * (Math.floor((length - 1) / step) + 1)
}

/** Keys of one message: HKDF-Expand (RFC 5869) to 76 bytes, which Node has only together with its other half. */
function messageKeys(key: Uint8Array, nonce: Uint8Array) {
  const one = hmac(key, nonce, Buffer.of(1))
  const two = hmac(key, one, nonce, Buffer.of(2))
  const three = hmac(key, two, nonce, Buffer.of(3))
  return {
    cipherKey: one,
    // OpenSSL's begins with the counter.
    iv: Buffer.concat([Buffer.alloc(4), two.subarray(0, 12)]),
    macKey: Buffer.concat([two.subarray(12), three.subarray(0, 12)])
  }
}

function hmac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const made = createHmac('sha256', key)
  for (const part of parts) made.update(part)
  return made.digest()
}
