import { iso } from '../../engine/formats/iso-time.ts'
import type { RequestPayment } from '../../engine/message/context.ts'
import type { CaveatFailure } from '../../lightning/l402/caveats.ts'
import type { PaymentFailureSlug, SessionFailureSlug } from '../../lightning/payment-scheme/payment-problem.ts'
import type { Paid } from '../holding/paid-responses.ts'

export interface Unpaid {
  readonly kind: 'none'
}

/** 400, 401 or 403 (decision 111). */
export interface ClassicRefused {
  readonly kind: 'classic'
  readonly status: 400 | 401 | 403
  /** Also in the header X-L402-Error. Printable ASCII. */
  readonly detail: string
  readonly body: Readonly<Record<string, unknown>>
  readonly reason: string
}

/** 402 with a problem and a fresh challenge (decision 119). */
export interface PaymentRefusedVerdict {
  readonly kind: 'payment'
  readonly slug: PaymentFailureSlug
  readonly detail: string
  readonly reason: string
}

/** The ordinary 402 with a fresh challenge (decision 120). */
export interface LegacyRefused {
  readonly kind: 'legacy'
  readonly detail: string
  readonly reason: string
}

/** The ordinary 402 with a fresh challenge and the reason in PAYMENT-RESPONSE. */
export interface X402Refused {
  readonly kind: 'x402'
  readonly detail: string
  readonly reason: string
}

/** A valid credential whose balance is too low: 402 with a fresh challenge. */
interface UsedUp {
  readonly kind: 'used-up'
  readonly scheme: RequestPayment['scheme']
  /** Millisatoshis. */
  readonly balanceMsat: number
  readonly requiredMsat: number
}

/** 402 with a problem and fresh challenges. */
interface SessionRefused {
  readonly kind: 'session'
  readonly slug: SessionFailureSlug
  readonly detail: string
  /** Millisatoshis. */
  readonly shortage?: { readonly balanceMsat: number; readonly requiredMsat: number }
}

export type CredentialVerdict = Paid | Unpaid | ClassicRefused | PaymentRefusedVerdict | LegacyRefused | X402Refused

export type CredentialRefusal = Exclude<CredentialVerdict, Paid>

export type SaleRefusal = CredentialRefusal | UsedUp | SessionRefused

/** No credential; one object for all requests. */
export const UNPAID: Unpaid = Object.freeze({ kind: 'none' })

/** 400: malformed (contract, Errors: preimage not exactly 64). */
export function badCredential(message: string): ClassicRefused {
  return {
    kind: 'classic',
    status: 400,
    detail: printable(message),
    body: { error: 'Bad Request', message },
    reason: 'malformed'
  }
}

/** 401. */
export function invalidToken(reason: string, detail: string): ClassicRefused {
  return {
    kind: 'classic',
    status: 401,
    detail: printable(detail),
    body: { error: 'Unauthorized', message: 'Invalid L402 credential', detail },
    reason
  }
}

/** 401 or 403 for a caveat, in the contract's shapes. */
export function caveatRefused(failure: CaveatFailure): ClassicRefused {
  const { caveat, message } = failure
  if (failure.status === 401) return invalidToken(caveat, message)
  let body: Record<string, unknown>
  switch (failure.caveat) {
    case 'merchant_id':
      body = { error: 'Forbidden', message }
      break
    case 'expires':
      body = { error: 'Forbidden', message, details: `The token was valid until ${instant(failure.expires)}.` }
      break
    case 'path':
      body = { error: 'Forbidden', message, allowed: failure.allowed, requested: failure.requested }
      break
  }
  return { kind: 'classic', status: 403, detail: printable(message), body, reason: caveat }
}

/** 403: a limit that the holder of a narrowed key set. Paying does not lift it. */
export function limitRefused(detail: string): ClassicRefused {
  return {
    kind: 'classic',
    status: 403,
    detail: printable(detail),
    body: { error: 'Forbidden', message: detail },
    reason: 'limit'
  }
}

const FORGED: ReadonlySet<string> = new Set(['malformed', 'preimage', 'signature'])

/**
 * Malformed, or with an invalid preimage or signature. Not renewed (decision 177): a client that cannot send what it
 * paid for would pay again.
 */
export function isForged({ reason }: ClassicRefused): boolean {
  return FORGED.has(reason)
}

/** 402 with the problem `slug`. */
export function paymentRefused(slug: PaymentFailureSlug, reason: string, detail: string): PaymentRefusedVerdict {
  return { kind: 'payment', slug, detail, reason }
}

const SLUGS_01: Readonly<Record<string, PaymentFailureSlug>> = {
  expired: 'payment-expired',
  redeemed: 'invalid-challenge',
  'in-use': 'invalid-challenge',
  'other-scheme': 'invalid-challenge'
}

/** The refusal of a credential in Payment-Authorization, by the names of draft-httpauth-payment-01. */
export function asInDraft01(refused: PaymentRefusedVerdict): PaymentRefusedVerdict {
  const slug = SLUGS_01[refused.reason]
  return slug === undefined ? refused : { ...refused, slug }
}

// Beyond the range of Date.
function instant(seconds: number): string {
  return seconds < 8_640_000_000_000 ? iso(seconds * 1000) : `unix second ${seconds}`
}

// Details may repeat client input, and become a header.
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 500)
}
