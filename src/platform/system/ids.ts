import { randomFillSync, randomUUID } from 'node:crypto'
import { v7 } from 'uuid'

/** Gives `length` unpredictable bytes. Injected wherever something random is made, so that tests can fix it. */
export type Random = (length: number) => Uint8Array

/** Bytes that are asked for at once: a call of OpenSSL's takes 2 µs for 32 as for so many. */
const DRAWN = 4_096
const block = new Uint8Array(DRAWN)
let next = DRAWN

/**
 * The system's randomness, drawn in blocks. What is handed out is a copy, and is wiped from the block: a preimage or a
 * key stays nowhere that its holder does not know of.
 */
export const systemRandom: Random = length => {
  if (length > DRAWN) return randomFillSync(new Uint8Array(length))
  if (next + length > DRAWN) {
    randomFillSync(block)
    next = 0
  }
  const bytes = block.slice(next, next + length)
  block.fill(0, next, next + length)
  next += length
  return bytes
}

/** A new id for an internal row: a UUID of version 7, so that rows sort by `now`, in milliseconds of the Clock. */
export function rowId(now: number, random: Random = systemRandom): string {
  return v7({ msecs: now, random: random(16) })
}

/** A new correlation or delivery id: a random UUID (decision 10). */
export function freshId(): string {
  return randomUUID()
}

const smallest = 100_000_000_000_000n
const span = 900_000_000_000_000n
// The largest multiple of the span that 64 bits hold; a draw above it would make small ids likelier than large ones.
const fair = (2n ** 64n / span) * span

/**
 * A new id as clients see it: 15 random digits without a leading zero, so that ids cannot be counted up (decision 10).
 */
export function numericId(random: Random = systemRandom): string {
  for (;;) {
    const bytes = random(8)
    const drawn = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0)
    if (drawn < fair) return String(smallest + (drawn % span))
  }
}

/** `bytes` random bytes in base64url without padding: tokens of pages and claims (32 bytes: 43 characters). */
export function randomToken(bytes: number, random: Random = systemRandom): string {
  return Buffer.from(random(bytes)).toString('base64url')
}
