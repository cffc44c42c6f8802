import { hash } from 'node:crypto'
import { equalBytes, Secret } from './secrets.ts'
import { randomToken, systemRandom, type Random } from '../system/ids.ts'

export interface NewApiKey {
  key: Secret<string>
  id: string
  /** SHA-256 of the whole key, 32 bytes. A slow hash would add nothing: the key holds 256 random bits. */
  digest: Buffer
}

interface ParsedApiKey {
  id: string
  digest: Buffer
}

const letters = '0123456789abcdefghijklmnopqrstuvwxyz'
const form = /^bg_([0-9a-z]{10})_[A-Za-z0-9_-]{43}$/

/** `bg_<10 id>_<43 random>` (decision 37), the random part being 32 bytes in base64url. */
export function generateApiKey(random: Random = systemRandom): NewApiKey {
  const id = randomLetters(10, random)
  const key = `bg_${id}_${randomToken(32, random)}`
  return { key: new Secret(key), id, digest: hash('sha256', key, 'buffer') }
}

/** Null for what cannot be a key of ours, answered like a wrong key. */
export function parseApiKey(text: string): ParsedApiKey | null {
  const match = form.exec(text)
  const id = match?.[1]
  return id === undefined ? null : { id, digest: hash('sha256', text, 'buffer') }
}

/** Compares digests in constant time. */
export function matchesApiKey(parsed: ParsedApiKey, stored: Uint8Array): boolean {
  return equalBytes(parsed.digest, stored)
}

function randomLetters(count: number, random: Random): string {
  let text = ''
  while (text.length < count) {
    for (const byte of random(count)) {
      // 252 is the largest multiple of 36 in a byte; above it some letters would be likelier.
      if (byte < 252 && text.length < count) text += letters.charAt(byte % 36)
    }
  }
  return text
}
