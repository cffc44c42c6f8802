import { rangesOf } from '../../engine/message/accept.ts'

/**
 * The request header Accept-Payment: `#( (method|"*") "/" (intent|"*") [;q=…] )`. It may suppress the Payment line of a
 * 402 or ask for it to come first.
 */

/**
 * What a client says about `lightning/charge`: `suppress` (its best matching range has q=0), `prefer` (that range names
 * lightning and has a weight), or `neutral` (anything else, also a malformed or absent header, which never suppresses).
 */
export type PaymentPreference = 'suppress' | 'prefer' | 'neutral'

/** Schemes of a 402, each with a header line of its own. */
export type Scheme = 'l402' | 'payment'

/** Reads Accept-Payment; `value` is null without the header, and several lines are joined with commas. */
export function paymentPreference(value: string | null): PaymentPreference {
  const best = bestRange(value, 'charge')
  if (best === null) return 'neutral'
  if (best.weight === 0) return 'suppress'
  return best.rank >= 3 ? 'prefer' : 'neutral'
}

/**
 * Position of a session's line in a 402: after the line of the charge, before all others when the client names
 * `lightning/session` with a higher weight than a charge, or nowhere when its weight is q=0.
 */
export type SessionPlace = 'after' | 'first' | 'nowhere'

/** Reads Accept-Payment for `lightning/session`, as `paymentPreference` does for a charge. */
export function sessionPlace(value: string | null): SessionPlace {
  const session = bestRange(value, 'session')
  if (session === null) return 'after'
  if (session.weight === 0) return 'nowhere'
  // A range such as lightning/* matches both.
  return session.rank === EXACT && session.weight > (bestRange(value, 'charge')?.weight ?? 0) ? 'first' : 'after'
}

interface Best {
  readonly rank: number
  readonly weight: number
}

/** The most specific range that lightning with this intent matches; null without one, and where the header is malformed. */
function bestRange(value: string | null, intent: 'charge' | 'session'): Best | null {
  let best: Best = { rank: 0, weight: 0 }
  for (const { type, subtype, weight } of (value === null ? null : rangesOf(value)) ?? []) {
    const rank = specificity(type, subtype, intent)
    // Of equal ranges the higher weight counts: a contradiction must not hide a way to pay.
    if (rank > best.rank || (rank === best.rank && weight > best.weight)) best = { rank, weight }
  }
  return best.rank === 0 ? null : best
}

const EXACT = 4

// 4 lightning/<intent>, 3 lightning/*, 2 */<intent>, 1 */*, 0 no match.
function specificity(method: string, intent: string, wanted: string): number {
  const named = method === 'lightning'
  if (!named && method !== '*') return 0
  if (intent === wanted) return named ? EXACT : 2
  if (intent === '*') return named ? 3 : 1
  return 0
}

/**
 * The schemes of a 402, in the order of their header lines. `enabled` is in the configured order. The Payment line
 * comes first when the client asks for lightning and is left out when it says q=0, but a 402 is never left without a
 * challenge.
 */
export function challengeSchemes(enabled: readonly Scheme[], acceptPayment: string | null): readonly Scheme[] {
  if (acceptPayment === null || enabled.length < 2 || !enabled.includes('payment')) return enabled
  switch (paymentPreference(acceptPayment)) {
    case 'suppress':
      return L402_ONLY
    case 'prefer':
      return paymentFirst(enabled)
    case 'neutral':
      return enabled
  }
}

/** The same schemes with Payment in front, where it is among them. */
export function paymentFirst(enabled: readonly Scheme[]): readonly Scheme[] {
  return enabled.length === 2 ? PAYMENT_FIRST : enabled
}

/** Which scheme's line stands first in a 402. */
export type SchemeOrder = 'l402-first' | 'payment-first'

/** The same schemes in this order. */
export function inOrder(enabled: readonly Scheme[], order: SchemeOrder): readonly Scheme[] {
  return enabled.length < 2 ? enabled : order === 'payment-first' ? PAYMENT_FIRST : L402_FIRST
}

const L402_ONLY: readonly Scheme[] = Object.freeze(['l402'])
const L402_FIRST: readonly Scheme[] = Object.freeze(['l402', 'payment'])
const PAYMENT_FIRST: readonly Scheme[] = Object.freeze(['payment', 'l402'])
