/**
 * HMAC-SHA256 and HKDF-SHA256 for short messages. Verifying a macaroon is a chain of about ten HMACs over some tens of
 * bytes, each with a key that was never seen before, so setting up the hash object is what costs. Two one-shot
 * `crypto.hash` calls take 2 µs where noble takes 4 and `createHmac` takes 11.
 */
import { hash, timingSafeEqual } from 'node:crypto'

const BLOCK = 64
const SCRATCH_MESSAGE = 1024

// One buffer each for the whole process: a call is synchronous from its first write to its last read.
const inner = Buffer.alloc(BLOCK + SCRATCH_MESSAGE)
const outer = Buffer.alloc(BLOCK + 32)

/** The SHA-256 of `message`, 32 bytes. */
export function sha256 (message: Uint8Array): Buffer {
  return hash('sha256', message, 'buffer')
}

/** HMAC-SHA256 (RFC 2104) of `message` under `key`, 32 bytes. The key may have any length. */
export function hmacSha256 (key: Uint8Array, message: Uint8Array): Buffer {
  const padded = key.length > BLOCK ? sha256(key) : key
  const buffer = message.length <= SCRATCH_MESSAGE ? inner : Buffer.alloc(BLOCK + message.length)
  for (let index = 0; index < BLOCK; index++) {
    const byte = index < padded.length ? padded[index] ?? 0 : 0
    buffer[index] = byte ^ 0x36
    outer[index] = byte ^ 0x5c
  }
  buffer.set(message, BLOCK)
  outer.set(sha256(buffer.subarray(0, BLOCK + message.length)), BLOCK)
  return sha256(outer)
}

/** One block (32 bytes) of HKDF-SHA256 (RFC 5869): extract with `salt`, expand with `info`. */
export function hkdfSha256 (secret: Uint8Array, salt: Uint8Array, info: Uint8Array): Buffer {
  const block = Buffer.alloc(info.length + 1)
  block.set(info)
  block[info.length] = 1
  return hmacSha256(hmacSha256(salt, secret), block)
}

/** True when both hold the same bytes; takes the same time wherever they differ. Only their lengths may show. */
export function equalBytes (left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}
