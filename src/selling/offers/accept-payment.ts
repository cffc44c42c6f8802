import { rangesOf } from '../../engine/message/accept.ts'

/**
 * The header Accept-Payment: `#( (method|"*") "/" (intent|"*") [;q=…] )`. May drop a 402's Payment line or request it
 * first.
 */

/**
 * Preference for `lightning/charge`: `suppress` if its best range has q=0, `prefer` if that names lightning with a
 * weight, else `neutral`. A malformed or absent header never suppresses.
 */
type PaymentPreference = 'suppress' | 'prefer' | 'neutral'

export type Scheme = 'l402' | 'payment'

/** Reads Accept-Payment: null without the header; several lines are joined with commas. */
export function paymentPreference(value: string | null): PaymentPreference {
  const best = bestRange(value, 'charge')
  if (best === null) return 'neutral'
  if (best.weight === 0) return 'suppress'
  return best.rank >= 3 ? 'prefer' : 'neutral'
}

/**
 * Position of a 402's session line: after the charge's; first if the client weights `lightning/session` higher; nowhere
 * if q=0.
 */
export type SessionPlace = 'after' | 'first' | 'nowhere'

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

/** Most specific range for lightning with this intent; null without one or if the header is malformed. */
function bestRange(value: string | null, intent: 'charge' | 'session'): Best | null {
  let best: Best = { rank: 0, weight: 0 }
  for (const { type, subtype, weight } of (value === null ? null : rangesOf(value)) ?? []) {
    const rank = specificity(type, subtype, intent)
    // The higher weight of equal ranges counts: a contradiction must not hide a way to pay.
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
 * Schemes of a 402 in the order of their lines; `enabled` is in the configured order. Payment comes first if the client
 * prefers lightning and is dropped at q=0, but a 402 always keeps a challenge.
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

export function paymentFirst(enabled: readonly Scheme[]): readonly Scheme[] {
  return enabled.length === 2 ? PAYMENT_FIRST : enabled
}

export type SchemeOrder = 'l402-first' | 'payment-first'

export function inOrder(enabled: readonly Scheme[], order: SchemeOrder): readonly Scheme[] {
  return enabled.length < 2 ? enabled : order === 'payment-first' ? PAYMENT_FIRST : L402_FIRST
}

const L402_ONLY: readonly Scheme[] = Object.freeze(['l402'])
const L402_FIRST: readonly Scheme[] = Object.freeze(['l402', 'payment'])
const PAYMENT_FIRST: readonly Scheme[] = Object.freeze(['payment', 'l402'])
