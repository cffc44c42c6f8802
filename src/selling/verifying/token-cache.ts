import { LRUCache } from 'lru-cache'
import type { Grant } from '../../lightning/l402/caveats.ts'
import { credentialField } from '../../engine/message/payment-headers.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { Paid } from '../holding/paid-responses.ts'

/** A classic token that was verified and has claimed its payment. Nothing in it depends on a request. */
export interface KnownToken {
  readonly kind: 'l402'
  readonly grant: Grant
  /** What a price server was asked when it was sold; null where none was. */
  readonly asked: string | null
  /** When its challenge was made, in milliseconds since the epoch. */
  readonly issuedAt: number
  readonly paid: Paid
}

/**
 * A credential of the Payment scheme that has claimed its payment, with the challenge that binds it: a legacy one, or
 * the key to a balance.
 */
export interface KnownPayment {
  readonly kind: 'payment' | 'payment-legacy'
  readonly challenge: Challenge
  readonly paid: Paid
}

/** What a raw Authorization value was found to be. */
export type Known = KnownToken | KnownPayment

// Characters beside the credential's own that an entry is reckoned to take.
const ENTRY_SIZE = 1_000

interface Entry {
  readonly authorization: string
  readonly known: Known
}

// A classic credential ends with its signature, a colon, and the preimage in hex.
const PREIMAGE = 64
const SIGNATURE_END = 16

/**
 * What a credential is filed under: of a classic one the end of its signature, 96 bits that no other token has. To hash
 * all of its five hundred characters took a fortieth of a verified request. The whole is compared with what is found
 * there.
 */
function keyOf(authorization: string): string {
  const colon = authorization.length - PREIMAGE - 1
  return colon > 2 * SIGNATURE_END && authorization.charCodeAt(colon) === 0x3a
    ? authorization.slice(colon - SIGNATURE_END, colon)
    : authorization
}

/**
 * Verified credentials by the raw value of their Authorization header. Only what is still good when time, path, price
 * and revocations have been compared with the request may be served from here; single-use credentials are never kept.
 */
export class TokenCache {
  readonly #entries: LRUCache<string, Entry>

  /**
   * Bounded in characters, not in entries: whoever holds a token can append caveats to it and so make long ones at
   * will.
   */
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

  /** Forgets everything: the keys have changed. */
  clear(): void {
    this.#entries.clear()
  }
}

/**
 * The raw value under which a request's credential may be looked up: its one Authorization line. Null when there is
 * none, or several, or a macaroon header beside it; those are read the long way.
 */
export function soleAuthorization(pairs: readonly string[]): string | null {
  let found: string | null = null
  for (let at = 0; at < pairs.length; at += 2) {
    const field = credentialField(pairs[at] ?? '')
    if (field === null) continue
    if (field === 'macaroon' || found !== null) return null
    found = pairs[at + 1] ?? ''
  }
  return found
}
