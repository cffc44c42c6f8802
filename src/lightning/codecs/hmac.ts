/**
 * HMAC-SHA256 and HKDF-SHA256 for short messages. Verifying a macaroon is a chain of about ten HMACs over some tens of
 * bytes, each with a key that was never seen before, so what costs is not the hashing but what stands around it: a hash
 * object (`createHmac`, 11 µs), or the memory of its own that Node gives each digest that it returns as bytes (0.6 µs,
 * and work for the collector). So both hashes of an HMAC are one-shot calls, and digests travel as Latin-1 text
 * (`binary` is Node's other name for it), one character for each byte, which needs no such memory: 1 µs.
 */
import { hash, timingSafeEqual } from 'node:crypto'

const BLOCK = 64
const DIGEST = 32
const SCRATCH_MESSAGE = 1024

/** A digest as Latin-1 text: 32 characters, one for each byte. */
type Digest = string

// One buffer each for the whole process: a call is synchronous from its first write to its last read.
const inner = Buffer.from(new ArrayBuffer(BLOCK + SCRATCH_MESSAGE))
const outer = Buffer.from(new ArrayBuffer(BLOCK + DIGEST))
const innerBlock = new Int32Array(inner.buffer, 0, BLOCK / 4)
const outerBlock = new Int32Array(outer.buffer, 0, BLOCK / 4)
const INNER_PAD = 0x36363636
const OUTER_PAD = 0x5c5c5c5c

const NO_KEY = Buffer.alloc(0)

/** The filled part of `inner`, by the length of the message. */
const filled: Buffer[] = []

/** The SHA-256 of `message`, 32 bytes. */
export function sha256(message: Uint8Array): Buffer {
  return Buffer.from(hash('sha256', message, 'binary'), 'latin1')
}

/** Writes both pads of a key of at most one block. */
function setKey(key: Uint8Array): void {
  outerBlock.fill(0)
  outer.set(key)
  pad(BLOCK / 4)
}

/** The same for a digest, where the key before it was no longer than a digest. */
function setDigest(key: Digest): void {
  outer.write(key, 0, DIGEST, 'latin1')
  pad(DIGEST / 4)
}

/** Makes the pads of what lies in `outer`; behind these words it is left as it is. */
function pad(words: number): void {
  for (let word = 0; word < words; word++) {
    const bytes = outerBlock[word] ?? 0
    innerBlock[word] = bytes ^ INNER_PAD
    outerBlock[word] = bytes ^ OUTER_PAD
  }
}

/** The HMAC of `message` under the key that is set. */
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

/** HMAC-SHA256 (RFC 2104) of `message` under `key`, 32 bytes. The key may have any length. */
export function hmacSha256(key: Uint8Array, message: Uint8Array): Buffer {
  setKey(key.length > BLOCK ? sha256(key) : key)
  return Buffer.from(digestOf(message), 'latin1')
}

/**
 * A chain of HMAC-SHA256: that of the first message under `key`, then of each further one under the HMAC before it; 32
 * bytes. Without messages it is the key itself.
 */
export function hmacChain(key: Uint8Array, messages: readonly Uint8Array[]): Buffer {
  const [first] = messages
  if (first === undefined) return Buffer.from(key)
  const begun = key.length > BLOCK ? sha256(key) : key
  setKey(begun)
  let digest = digestOf(first)
  // A digest is written over the first half of the block only.
  if (begun.length > DIGEST) setKey(NO_KEY)
  for (let at = 1; at < messages.length; at++) {
    const message = messages[at]
    if (message === undefined) continue
    setDigest(digest)
    digest = digestOf(message)
  }
  return Buffer.from(digest, 'latin1')
}

/** One block (32 bytes) of HKDF-SHA256 (RFC 5869): extract with `salt`, expand with `info`. */
export function hkdfSha256(secret: Uint8Array, salt: Uint8Array, info: Uint8Array): Buffer {
  const block = Buffer.alloc(info.length + 1)
  block.set(info)
  block[info.length] = 1
  return hmacChain(salt, [secret, block])
}

/** True when both hold the same bytes; takes the same time wherever they differ. Only their lengths may show. */
export function equalDigests(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}
