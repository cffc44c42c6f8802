/** The `application/problem+json` bodies (RFC 9457) of a 402 under the Payment scheme. */

/** Where the problem types live unless the configuration says otherwise (decision 103). */
const PROBLEM_BASE = 'https://paymentauth.org/problems'

/**
 * The contract's four failures of a modern credential, and `payment-required` for a first 402 (decisions 119 and 126).
 */
export type PaymentProblemSlug =
  | 'payment-required'
  | 'invalid-challenge'
  | 'verification-failed'
  | 'payment-insufficient'
  | 'method-unsupported'

/** Why a modern credential was refused. */
export type PaymentFailureSlug = Exclude<PaymentProblemSlug, 'payment-required'>

/**
 * Why a credential of the session intent was refused (draft-lightning-session-00, Error Responses). The types stand
 * below the method's name.
 */
export type SessionFailureSlug =
  | 'lightning/malformed-credential'
  | 'lightning/unknown-challenge'
  | 'lightning/invalid-preimage'
  | 'lightning/session-not-found'
  | 'lightning/session-closed'
  | 'lightning/insufficient-balance'
  | 'lightning/challenge-expired'
  | 'lightning/invalid-return-invoice'

/** The body of a problem. `challengeId` is the id of the fresh challenge that travels with it. */
export interface PaymentProblem {
  readonly type: string
  readonly title: string
  readonly status: 402
  readonly detail: string
  readonly challengeId?: string
}

const TITLES: Readonly<Record<PaymentProblemSlug | SessionFailureSlug, string>> = Object.freeze({
  'payment-required': 'Payment Required',
  'invalid-challenge': 'Invalid Challenge',
  'verification-failed': 'Verification Failed',
  'payment-insufficient': 'Payment Insufficient',
  'method-unsupported': 'Method Unsupported',
  'lightning/malformed-credential': 'Malformed Credential',
  'lightning/unknown-challenge': 'Unknown Challenge',
  'lightning/invalid-preimage': 'Invalid Preimage',
  'lightning/session-not-found': 'Session Not Found',
  'lightning/session-closed': 'Session Closed',
  'lightning/insufficient-balance': 'Insufficient Balance',
  'lightning/challenge-expired': 'Challenge Expired',
  'lightning/invalid-return-invoice': 'Invalid Return Invoice'
})

/**
 * Builds the body; members stand in the order type, title, status, detail, challengeId. `detail` says which cause it
 * was.
 * `base` is the configured problem base; a slash at its end is dropped.
 */
export function paymentProblem(
  slug: PaymentProblemSlug | SessionFailureSlug,
  detail: string,
  challengeId: string | null = null,
  base: string = PROBLEM_BASE
): PaymentProblem {
  const type = `${base.endsWith('/') ? base.slice(0, -1) : base}/${slug}`
  const problem = { type, title: TITLES[slug], status: 402, detail } as const
  return challengeId === null ? problem : { ...problem, challengeId }
}
