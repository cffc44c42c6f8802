/**
 * The `sha-256` Content-Digest of RFC 9530, which binds a Payment challenge to the body it was asked for. Other
 * algorithms may stand beside it and are passed over.
 */
import { createHash } from 'node:crypto'
import { equalDigests, sha256 } from '../codecs/hmac.ts'

// A structured field dictionary (RFC 8941) of which only byte sequences matter: key, value, parameters.
const MEMBER =
  /^[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):(?:[ ]*;[ ]*[a-z*][a-z0-9_.*-]*(?:=[\x21-\x3a\x3c-\x7e]*)?)*[ \t]*$/
const MAX_CHARS = 4096

/** `sha-256=:<standard base64>:` of the bytes, as the challenge's `digest` and the header `Content-Digest` write it. */
export function contentDigest(body: Uint8Array): string {
  return `sha-256=:${sha256(body).toString('base64')}:`
}

/** The same of a body that comes piece by piece, of which nothing is kept; null of an empty one. */
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
 * The 32 bytes of the `sha-256` member, or null when the text is malformed, too long (4,096 characters) or names only
 * other algorithms. Of a repeated member the last counts (RFC 8941, 3.2).
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

/** Whether the text names the SHA-256 of exactly these bytes. False for whatever `parseContentDigest` cannot read. */
export function digestMatches(text: string, body: Uint8Array): boolean {
  const expected = parseContentDigest(text)
  return expected !== null && equalDigests(expected, sha256(body))
}
