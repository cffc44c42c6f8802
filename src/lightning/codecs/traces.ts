/**
 * What a request shows of a payment although it holds no credential that can be read: macaroons and preimages in other
 * spellings, schemes and fields. Pure form: nothing here is verified, and nothing is sold on it.
 */
import { decodeMacaroon, MacaroonError, type Macaroon } from '../l402/macaroon.ts'

/** What was found; preimages are 64 lower-case hex characters. */
export interface Traces {
  readonly macaroons: readonly Macaroon[]
  readonly preimages: readonly string[]
}

const FIELD = /^(?:proxy-)?authorization$|l402|lsat|macaroon|preimage|payment/i
/** A preimage or macaroon, in hex or base64 of either alphabet. */
const WORD = /[A-Za-z0-9+/_-]{43,}={0,2}/g
const HEX = /^[0-9a-f]+$/i
const MOST_CHARS = 16_384
const MOST_WORDS = 8

/** Reads the traces of a flat list of headers, at most eight of them. */
export function tracesOf(pairs: readonly string[]): Traces {
  const found = { macaroons: [] as Macaroon[], preimages: [] as string[] }
  for (let at = 0; at + 1 < pairs.length; at += 2)
    if (FIELD.test(pairs[at] ?? '')) collect((pairs[at + 1] ?? '').slice(0, MOST_CHARS), found, true)
  return found
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
      // A token of the Payment scheme, or what `curl --user` makes of a credential.
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
