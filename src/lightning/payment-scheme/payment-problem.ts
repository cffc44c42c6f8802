/** `application/problem+json` bodies (RFC 9457) of a Payment 402. */

/** Base of problem types (decision 103). */
const PROBLEM_BASE = 'https://paymentauth.org/problems'

/**
 * The contract's four failures, and `payment-required` for a first 402 (decisions 119 and 126). The last three are of
 * draft-httpauth-payment-01, for credentials in its field.
 */
type PaymentProblemSlug =
  | 'payment-required'
  | 'invalid-challenge'
  | 'verification-failed'
  | 'payment-insufficient'
  | 'method-unsupported'
  | 'malformed-credential'
  | 'invalid-payload'
  | 'payment-expired'

export type PaymentFailureSlug = Exclude<PaymentProblemSlug, 'payment-required'>

/** Session refusals (draft-lightning-session-00, Error Responses), under the method's name. */
export type SessionFailureSlug =
  | 'lightning/malformed-credential'
  | 'lightning/unknown-challenge'
  | 'lightning/invalid-preimage'
  | 'lightning/session-not-found'
  | 'lightning/session-closed'
  | 'lightning/insufficient-balance'
  | 'lightning/challenge-expired'
  | 'lightning/invalid-return-invoice'

/** `challengeId`: id of the accompanying fresh challenge. */
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
  'malformed-credential': 'Malformed Credential',
  'invalid-payload': 'Invalid Payload',
  'payment-expired': 'Payment Expired',
  'lightning/malformed-credential': 'Malformed Credential',
  'lightning/unknown-challenge': 'Unknown Challenge',
  'lightning/invalid-preimage': 'Invalid Preimage',
  'lightning/session-not-found': 'Session Not Found',
  'lightning/session-closed': 'Session Closed',
  'lightning/insufficient-balance': 'Insufficient Balance',
  'lightning/challenge-expired': 'Challenge Expired',
  'lightning/invalid-return-invoice': 'Invalid Return Invoice'
})

/** Members in the order type, title, status, detail, challengeId. `detail` names the cause. */
export function problemType(slug: PaymentProblemSlug | SessionFailureSlug): string {
  return `${PROBLEM_BASE}/${slug}`
}

export function paymentProblem(
  slug: PaymentProblemSlug | SessionFailureSlug,
  detail: string,
  challengeId: string | null = null
): PaymentProblem {
  const problem = { type: problemType(slug), title: TITLES[slug], status: 402, detail } as const
  return challengeId === null ? problem : { ...problem, challengeId }
}
