/**
 * Traces of a payment in a request without a readable credential: macaroons and preimages in other forms. Form only;
 * nothing is sold on them.
 */
import { decodeMacaroon, MacaroonError, type Macaroon } from '../l402/macaroon.ts'

/** Preimages are 64 lower-case hex characters. */
export interface Traces {
  readonly macaroons: readonly Macaroon[]
  readonly preimages: readonly string[]
}

const FIELD = /^(?:proxy-)?authorization$|l402|lsat|macaroon|preimage|payment/i
/** A preimage or macaroon, in hex or either base64. */
const WORD = /[A-Za-z0-9+/_-]{43,}={0,2}/g
const HEX = /^[0-9a-f]+$/i
const MOST_CHARS = 16_384
const MOST_WORDS = 8

/** Reads at most eight traces from a flat header list; null for none. */
export function tracesOf(pairs: readonly string[]): Traces | null {
  let found: { macaroons: Macaroon[]; preimages: string[] } | null = null
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    if (!FIELD.test(pairs[at] ?? '')) continue
    found ??= { macaroons: [], preimages: [] }
    collect((pairs[at + 1] ?? '').slice(0, MOST_CHARS), found, true)
  }
  return found === null || found.macaroons.length + found.preimages.length === 0 ? null : found
}

function collect(text: string, found: { macaroons: Macaroon[]; preimages: string[] }, isOuter: boolean): void {
  for (const [word] of text.matchAll(WORD)) {
    if (found.macaroons.length + found.preimages.length >= MOST_WORDS) return
    const digits = word.replace(/^0x/i, '')
    const isHex = HEX.test(digits) && digits.length % 2 === 0
    const bytes = Buffer.from(isHex ? digits : word, isHex ? 'hex' : 'base64')
    if (bytes.byteLength === 32) found.preimages.push(bytes.toString('hex'))
    else if (isOuter) {
      const macaroon = macaroonIn(bytes)
      if (macaroon !== null) found.macaroons.push(macaroon)
      // A Payment token, or a credential sent with `curl --user`.
      collect(bytes.toString('latin1'), found, false)
    }
  }
}

function macaroonIn(bytes: Uint8Array): Macaroon | null {
  try {
    return decodeMacaroon(bytes)
  } catch (error) {
    if (error instanceof MacaroonError) return null
    throw error
  }
}
