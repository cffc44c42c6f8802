import { mintCredentials, type GatewayTarget } from '../peers/boltgate.ts'
import { addCaveat, decodeMacaroonBase64, macaroonToBase64 } from '../../src/lightning/l402/macaroon.ts'

/** Seconds for which paid tokens are shared among scenarios. */
const FRESH = 300

/**
 * Seconds that a narrowed token lives at most: less than is left of the hour of the token that it was made from, more
 * than a scenario takes.
 */
const LIFE = 3_600 - FRESH - 60

/** Most different tokens of one payment: each ends a second before the last. */
export const TOKENS_OF_A_PAYMENT = 1_000

/**
 * Many different tokens from few payments: any holder may narrow a macaroon by a caveat. A narrowed one is new to the
 * gateway, so it is verified, and its payment claimed, like a first use. They end `earlier` seconds earlier, so that
 * two scenarios have different ones.
 */
export function narrowedTokens(credentials: readonly string[], count: number, earlier = 0): string[] {
  if (count > credentials.length * TOKENS_OF_A_PAYMENT)
    throw new Error(`${credentials.length} payments give at most ${credentials.length * TOKENS_OF_A_PAYMENT} tokens`)
  const parsed = credentials.map(credential => {
    const [macaroon = '', preimage = ''] = credential.slice('L402 '.length).split(':')
    return { macaroon: decodeMacaroonBase64(macaroon), preimage }
  })
  const soon = Math.floor(Date.now() / 1000) + LIFE - earlier
  return Array.from({ length: count }, (_, at) => {
    const from = parsed[at % parsed.length]
    if (from === undefined) throw new Error('there is no token to narrow')
    return `L402 ${macaroonToBase64(addCaveat(from.macaroon, `expires=${soon - Math.floor(at / parsed.length)}`))}:${from.preimage}`
  })
}

/** What the verified requests ask for. */
export const PAID_PATH = '/paid/quote'

interface Paid {
  readonly at: number
  readonly tokens: Promise<readonly string[]>
}

const paid = new WeakMap<GatewayTarget, Paid>()

/**
 * At least `count` paid tokens of a gateway for `PAID_PATH`, which scenarios share: an embedded database takes a while
 * over each.
 */
export async function paidTokens(gateway: GatewayTarget, count: number): Promise<readonly string[]> {
  const known = paid.get(gateway)
  const had: Paid =
    known !== undefined && performance.now() - known.at < FRESH * 1000
      ? known
      : { at: performance.now(), tokens: Promise.resolve([]) }
  const tokens = had.tokens.then(async some =>
    some.length >= count
      ? some
      : [...some, ...(await mintCredentials(gateway.port, count - some.length, { path: PAID_PATH }))]
  )
  paid.set(gateway, { at: had.at, tokens })
  return await tokens
}
