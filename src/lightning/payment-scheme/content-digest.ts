/** The `sha-256` Content-Digest (RFC 9530), which binds a Payment challenge to a body. Other algorithms are ignored. */
import { createHash } from 'node:crypto'
import { equalDigests, sha256 } from '../codecs/hmac.ts'

// A dictionary (RFC 8941) of byte sequences: key, value, parameters.
const MEMBER =
  /^[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):(?:[ ]*;[ ]*[a-z*][a-z0-9_.*-]*(?:=[\x21-\x3a\x3c-\x7e]*)?)*[ \t]*$/
const MAX_CHARS = 4096

/** `sha-256=:<standard base64>:`, as in `digest` and `Content-Digest`. */
export function contentDigest(body: Uint8Array): string {
  return `sha-256=:${sha256(body).toString('base64')}:`
}

/** Incremental digest; null for an empty body. */
export class DigestOfPieces {
  readonly #hash = createHash('sha256')
  #empty = true

  add(piece: Uint8Array): void {
    if (piece.byteLength > 0) this.#empty = false
    this.#hash.update(piece)
  }

  end(): string | null {
    return this.#empty ? null : `sha-256=:${this.#hash.digest('base64')}:`
  }
}

/**
 * The `sha-256` member's 32 bytes; null when malformed, over 4,096 characters or absent. The last duplicate counts (RFC
 * 8941, 3.2).
 */
export function parseContentDigest(text: string): Uint8Array | null {
  if (text.length > MAX_CHARS) return null
  let found: Uint8Array | null = null
  for (const part of text.split(',')) {
    const match = MEMBER.exec(part)
    if (match === null) return null
    const base64 = match[2] ?? ''
    const bytes = Buffer.from(base64, 'base64')
    if (bytes.toString('base64') !== base64) return null
    if (match[1] !== 'sha-256') continue
    if (bytes.length !== 32) return null
    found = bytes
  }
  return found
}

/** False also for text that `parseContentDigest` cannot read. */
export function digestMatches(text: string, body: Uint8Array): boolean {
  const expected = parseContentDigest(text)
  return expected !== null && equalDigests(expected, sha256(body))
}
