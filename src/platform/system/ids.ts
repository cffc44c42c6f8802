import { randomFillSync, randomUUID } from 'node:crypto'
import { v7 } from 'uuid'

/** Returns `length` unpredictable bytes. Injected, so that tests can fix it. */
export type Random = (length: number) => Uint8Array

/** Bytes drawn per call: OpenSSL takes 2 µs for 32 as for 4,096. */
const DRAWN = 4_096
const block = new Uint8Array(DRAWN)
let next = DRAWN

/**
 * The system's randomness, drawn in blocks. Copies are handed out and wiped from the block, so that no preimage or key
 * remains in memory.
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

/** A UUID of version 7, so that rows sort by `now` of the Clock. */
export function rowId(now: number, random: Random = systemRandom): string {
  return v7({ msecs: now, random: random(16) })
}

/** A random UUID (decision 10). */
export function freshId(): string {
  return randomUUID()
}

const smallest = 100_000_000_000_000n
const span = 900_000_000_000_000n
// The largest multiple of the span in 64 bits; draws above it would make small ids likelier than large ones.
const fair = (2n ** 64n / span) * span

/** 15 random digits without a leading zero, so that ids cannot be enumerated (decision 10). */
export function numericId(random: Random = systemRandom): string {
  for (;;) {
    const bytes = random(8)
    const drawn = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0)
    if (drawn < fair) return String(smallest + (drawn % span))
  }
}

export function randomToken(bytes: number, random: Random = systemRandom): string {
  return Buffer.from(random(bytes)).toString('base64url')
}
