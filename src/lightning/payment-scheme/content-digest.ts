/** The `sha-256` Content-Digest (RFC 9530), which binds a Payment challenge to a body. */
import { createHash } from 'node:crypto'
import { sha256 } from '../codecs/hmac.ts'

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
