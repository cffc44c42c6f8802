import type { RequestPayment } from '../../engine/message/context.ts'
import type { CaveatFailure } from '../../lightning/l402/caveats.ts'
import type { PaymentFailureSlug, SessionFailureSlug } from '../../lightning/payment-scheme/payment-problem.ts'
import type { Paid } from '../holding/paid-responses.ts'

/** No payment credential was sent. */
export interface Unpaid {
  readonly kind: 'none'
}

/** A classic credential was refused: 400, 401 or 403 (decision 111). */
export interface ClassicRefused {
  readonly kind: 'classic'
  readonly status: 400 | 401 | 403
  /** Also in the header X-L402-Error. Printable ASCII. */
  readonly detail: string
  readonly body: Readonly<Record<string, unknown>>
  /** Label for the metrics. */
  readonly reason: string
}

/** A modern credential was refused: 402 with a problem and a fresh challenge (decision 119). */
export interface PaymentRefusedVerdict {
  readonly kind: 'payment'
  readonly slug: PaymentFailureSlug
  readonly detail: string
  readonly reason: string
}

/** A legacy credential was refused: the ordinary 402 with a fresh challenge (decision 120). */
export interface LegacyRefused {
  readonly kind: 'legacy'
  readonly detail: string
  readonly reason: string
}

/** A good credential whose balance cannot bear the request: 402 with a fresh challenge. */
export interface UsedUp {
  readonly kind: 'used-up'
  readonly scheme: RequestPayment['scheme']
  /** Millisatoshis. */
  readonly balanceMsat: number
  readonly requiredMsat: number
}

/** A credential of the session intent was refused: 402 with a problem and fresh challenges. */
export interface SessionRefused {
  readonly kind: 'session'
  readonly slug: SessionFailureSlug
  readonly detail: string
  /** Where the balance does not suffice, millisatoshis. */
  readonly shortage?: { readonly balanceMsat: number; readonly requiredMsat: number }
}

/** What became of a request's credential. */
export type CredentialVerdict = Paid | Unpaid | ClassicRefused | PaymentRefusedVerdict | LegacyRefused

/** Every verdict but the good one. */
export type CredentialRefusal = Exclude<CredentialVerdict, Paid>

/** What a 402 can say: what speaks against the credential, or what a meter says of a good one. */
export type SaleRefusal = CredentialRefusal | UsedUp | SessionRefused

/** No credential; one object for all requests. */
export const UNPAID: Unpaid = Object.freeze({ kind: 'none' })

/** 400: the credential's form is wrong (contract, Errors: preimage not exactly 64). */
export function badCredential(message: string): ClassicRefused {
  return {
    kind: 'classic',
    status: 400,
    detail: printable(message),
    body: { error: 'Bad Request', message },
    reason: 'malformed'
  }
}

/** 401: the credential is not good for anything here. */
export function invalidToken(reason: string, detail: string): ClassicRefused {
  return {
    kind: 'classic',
    status: 401,
    detail: printable(detail),
    body: { error: 'Unauthorized', message: 'Invalid L402 credential', detail },
    reason
  }
}

/** The verdict on a token whose caveats do not fit the request, in the contract's shapes. */
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

const FORGED: ReadonlySet<string> = new Set(['malformed', 'preimage', 'signature'])

/**
 * Whether a classic credential never was one of ours: it is malformed, or its preimage or signature is wrong. Nothing is
 * sold anew on it (decision 177): a client that cannot show what it has paid for would pay again.
 */
export function isForged({ reason }: ClassicRefused): boolean {
  return FORGED.has(reason)
}

/** 402 with the problem `slug`. */
export function paymentRefused(slug: PaymentFailureSlug, reason: string, detail: string): PaymentRefusedVerdict {
  return { kind: 'payment', slug, detail, reason }
}

// The year of a caveat's expiry may be one that a Date cannot hold.
function instant(seconds: number): string {
  return seconds < 8_640_000_000_000 ? new Date(seconds * 1000).toISOString() : `unix second ${seconds}`
}

// Details may repeat what the client sent, and they become a header.
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 500)
}
