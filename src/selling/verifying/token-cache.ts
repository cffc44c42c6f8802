import { LRUCache } from 'lru-cache'
import type { Grant } from '../../lightning/l402/caveats.ts'
import { credentialField, paidKey } from '../../engine/message/payment-headers.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { Paid } from '../holding/paid-responses.ts'

/** A verified, claimed classic token, independent of requests. */
export interface KnownToken {
  readonly kind: 'l402'
  readonly grant: Grant
  /** Digest of the price server's request at the sale; null without one. */
  readonly asked: string | null
  readonly issuedAt: number
  readonly paid: Paid
}

/** A claimed Payment credential with its challenge: a legacy one, or the key to a balance. */
export interface KnownPayment {
  readonly kind: 'payment' | 'payment-legacy'
  readonly challenge: Challenge
  readonly paid: Paid
}

export type Known = KnownToken | KnownPayment

/** Caches what was verified; null where nothing is kept. */
export type Remember = ((known: Known) => void) | null

// Size of an entry in characters, without the credential.
const ENTRY_SIZE = 1_000

interface Entry {
  readonly authorization: string
  readonly known: Known
}

// A classic credential ends with its signature, a colon, and the hex preimage.
const PREIMAGE = 64
const SIGNATURE_END = 16

/**
 * Cache key: for classic credentials, the last 96 bits of the signature. Hashing all five hundred characters took 2.5%
 * of a verified request. A hit compares the whole value.
 */
function keyOf(authorization: string): string {
  // A paid key ends with its signature.
  if (authorization.startsWith('Bearer bg_') || authorization.startsWith('bg_'))
    return authorization.slice(-SIGNATURE_END)
  const colon = authorization.length - PREIMAGE - 1
  return colon > 2 * SIGNATURE_END && authorization.charCodeAt(colon) === 0x3a
    ? authorization.slice(colon - SIGNATURE_END, colon)
    : authorization
}

/**
 * Verified credentials by raw Authorization header. Each hit compares time, path, price and revocations; single-use
 * credentials are never cached.
 */
export class TokenCache {
  readonly #entries: LRUCache<string, Entry>

  /** Bounded in characters, since holders can append caveats. */
  constructor(maxChars = 64_000_000) {
    this.#entries = new LRUCache({
      maxSize: maxChars,
      sizeCalculation: ({ authorization }) => authorization.length + ENTRY_SIZE
    })
  }

  get(authorization: string): Known | undefined {
    const entry = this.#entries.get(keyOf(authorization))
    return entry !== undefined && entry.authorization === authorization ? entry.known : undefined
  }

  add(authorization: string, known: Known): void {
    this.#entries.set(keyOf(authorization), { authorization, known })
  }
}

/**
 * The raw value of the only Authorization line, or with `takesKeys` of the only line that may be a key. Null without
 * one, with several, or with a macaroon or Payment-Authorization header; the slow path reads those.
 */
export function soleAuthorization(pairs: readonly string[], takesKeys = false): string | null {
  let found: string | null = null
  for (let at = 0; at < pairs.length; at += 2) {
    const field = credentialField(pairs[at] ?? '')
    // What is no key there is passed on.
    if (field === null || (field === 'key' && (!takesKeys || paidKey(pairs[at + 1] ?? '') === null))) continue
    if (field === 'macaroon' || field === 'payment' || field === 'x402' || found !== null) return null
    found = pairs[at + 1] ?? ''
  }
  return found
}
