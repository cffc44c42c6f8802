import { addCaveat, decodeMacaroonBase64, macaroonToBase64 } from '../../src/lightning/macaroon.ts'

/** Seconds that a narrowed token lives at most: less than the hour of the token that it was made from, more than a run takes. */
const LIFE = 3_500

/** Most different tokens of one payment: each ends a second before the last. */
export const TOKENS_OF_A_PAYMENT = 1_000

/**
 * Many different tokens from few payments: any holder may narrow a macaroon by a caveat. A narrowed one is new to the gateway, so it
 * is verified, and its payment claimed, like a first use.
 */
export function narrowedTokens (credentials: readonly string[], count: number): string[] {
  if (count > credentials.length * TOKENS_OF_A_PAYMENT) throw new Error(`${credentials.length} payments give at most ${credentials.length * TOKENS_OF_A_PAYMENT} tokens`)
  const parsed = credentials.map(credential => {
    const [macaroon = '', preimage = ''] = credential.slice('L402 '.length).split(':')
    return { macaroon: decodeMacaroonBase64(macaroon), preimage }
  })
  const soon = Math.floor(Date.now() / 1000) + LIFE
  return Array.from({ length: count }, (_, at) => {
    const from = parsed[at % parsed.length]
    if (from === undefined) throw new Error('there is no token to narrow')
    return `L402 ${macaroonToBase64(addCaveat(from.macaroon, `expires=${soon - Math.floor(at / parsed.length)}`))}:${from.preimage}`
  })
}
