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

/** The body of a problem. `challengeId` is the id of the fresh challenge that travels with it. */
export interface PaymentProblem {
  readonly type: string
  readonly title: string
  readonly status: 402
  readonly detail: string
  readonly challengeId?: string
}

const TITLES: Readonly<Record<PaymentProblemSlug, string>> = Object.freeze({
  'payment-required': 'Payment Required',
  'invalid-challenge': 'Invalid Challenge',
  'verification-failed': 'Verification Failed',
  'payment-insufficient': 'Payment Insufficient',
  'method-unsupported': 'Method Unsupported'
})

/**
 * Builds the body; members stand in the order type, title, status, detail, challengeId. `detail` says which cause it
 * was.
 * `base` is the configured problem base; a slash at its end is dropped.
 */
export function paymentProblem(
  slug: PaymentProblemSlug,
  detail: string,
  challengeId: string | null = null,
  base: string = PROBLEM_BASE
): PaymentProblem {
  const type = `${base.endsWith('/') ? base.slice(0, -1) : base}/${slug}`
  const problem = { type, title: TITLES[slug], status: 402, detail } as const
  return challengeId === null ? problem : { ...problem, challengeId }
}
