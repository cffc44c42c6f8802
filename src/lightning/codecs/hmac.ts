/**
 * HMAC-SHA256 and HKDF-SHA256 for short messages. Verifying a macaroon takes about ten HMACs of tens of bytes under
 * fresh keys, so call overhead dominates: a hash object (`createHmac`) costs 11 µs, a digest in its own Buffer 0.6 µs
 * plus garbage. One-shot hashes with digests as Latin-1 text (`binary`) cost 1 µs.
 */
import { hash, timingSafeEqual } from 'node:crypto'

const BLOCK = 64
const DIGEST = 32
const SCRATCH_MESSAGE = 1024

/** Latin-1 text, one character per byte. */
type Digest = string

// Shared buffers: calls are synchronous.
const inner = Buffer.from(new ArrayBuffer(BLOCK + SCRATCH_MESSAGE))
const outer = Buffer.from(new ArrayBuffer(BLOCK + DIGEST))
const innerBlock = new Int32Array(inner.buffer, 0, BLOCK / 4)
const outerBlock = new Int32Array(outer.buffer, 0, BLOCK / 4)
const INNER_PAD = 0x36363636
const OUTER_PAD = 0x5c5c5c5c

const NO_KEY = Buffer.alloc(0)

const filled: Buffer[] = []

export function sha256(message: Uint8Array): Buffer {
  return Buffer.from(hash('sha256', message, 'binary'), 'latin1')
}

function setKey(key: Uint8Array): void {
  outerBlock.fill(0)
  outer.set(key)
  pad(BLOCK / 4)
}

function setDigest(key: Digest): void {
  outer.write(key, 0, DIGEST, 'latin1')
  pad(DIGEST / 4)
}

function pad(words: number): void {
  for (let word = 0; word < words; word++) {
    const bytes = outerBlock[word] ?? 0
    innerBlock[word] = bytes ^ INNER_PAD
    outerBlock[word] = bytes ^ OUTER_PAD
  }
}

function digestOf(message: Uint8Array): Digest {
  let bytes: Buffer
  if (message.length <= SCRATCH_MESSAGE) {
    inner.set(message, BLOCK)
    bytes = filled[message.length] ??= inner.subarray(0, BLOCK + message.length)
  } else {
    bytes = Buffer.alloc(BLOCK + message.length)
    bytes.set(inner.subarray(0, BLOCK))
    bytes.set(message, BLOCK)
  }
  outer.write(hash('sha256', bytes, 'binary'), BLOCK, DIGEST, 'latin1')
  return hash('sha256', outer, 'binary')
}

/** HMAC-SHA256 (RFC 2104), 32 bytes, for a key of any length. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Buffer {
  setKey(key.length > BLOCK ? sha256(key) : key)
  return Buffer.from(digestOf(message), 'latin1')
}

/** Chained HMAC-SHA256: each HMAC is the next message's key. Without messages returns `key`. */
export function hmacChain(key: Uint8Array, messages: readonly Uint8Array[]): Buffer {
  const [first] = messages
  if (first === undefined) return Buffer.from(key)
  const begun = key.length > BLOCK ? sha256(key) : key
  setKey(begun)
  let digest = digestOf(first)
  // A digest overwrites only half the block.
  if (begun.length > DIGEST) setKey(NO_KEY)
  for (let at = 1; at < messages.length; at++) {
    const message = messages[at]
    if (message === undefined) continue
    setDigest(digest)
    digest = digestOf(message)
  }
  return Buffer.from(digest, 'latin1')
}

/** One 32-byte block of HKDF-SHA256 (RFC 5869). */
export function hkdfSha256(secret: Uint8Array, salt: Uint8Array, info: Uint8Array): Buffer {
  const block = Buffer.alloc(info.length + 1)
  block.set(info)
  block[info.length] = 1
  return hmacChain(salt, [secret, block])
}

/** Compares in constant time; only lengths may leak. */
export function equalDigests(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}

/**
 * Preimages and payment hashes: 32 bytes as 64 lower-case hex characters. The hash is the preimage's SHA-256, so a
 * preimage proves payment.
 */
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
