import { hash, timingSafeEqual } from 'node:crypto'

/**
 * Whether two byte strings are equal, in a time that does not tell where they differ. Different lengths are unequal;
 * the length itself is not hidden, so compare digests of one length.
 */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && timingSafeEqual(a, b)
}

/**
 * Whether two texts are equal, in a time that tells neither where they differ nor their length: their SHA-256 digests
 * are compared.
 */
export function equalText(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'))
}
