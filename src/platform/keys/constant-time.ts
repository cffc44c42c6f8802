import { hash, timingSafeEqual } from 'node:crypto'

/** Constant time for one length. The length itself is not hidden, so compare digests. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}

/** Compares SHA-256 digests: hides differences and length. */
export function equalText(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'))
}
