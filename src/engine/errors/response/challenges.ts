import type { ResponseEntry } from '../entry.ts'

/** Requests that are paid for: challenges and credentials. */
export const challengeErrors = {
  BG_CHALLENGES_UNAVAILABLE: {
    status: 503,
    error: 'Payment challenges unavailable',
    cause: "No challenge can be made: signing fails, or the scheme has no name for the provider's network.",
    cure: 'Try again after `Retry-After`.'
  },
  BG_CHALLENGE_NOT_RECORDED: {
    status: 503,
    error: 'Challenge not recorded',
    cause: 'The challenge could not be written, so none was issued.',
    cure: 'Try again after `Retry-After`.'
  },
  BG_VERIFICATION_UNAVAILABLE: {
    status: 503,
    error: 'Payment verification unavailable',
    cause: 'The payment could not be looked up; nothing was used up.',
    cure: 'Send the same request again.'
  },
  BG_PAYMENT_NOT_CONFIRMED: {
    status: 503,
    error: 'Payment not confirmed',
    cause: 'The use of the payment could not be written in time; it was not used up.',
    cure: 'Send the same request again.'
  },
  BG_BALANCE_UNAVAILABLE: {
    status: 503,
    error: 'Balance unavailable',
    cause: 'The balance that pays for the request could not be asked; nothing was taken from it.',
    cure: 'Send the same request again.'
  },
  BG_BALANCE_BUSY: {
    status: 429,
    error: 'Balance busy',
    cause: 'Too many requests of one balance were under way at once. Nothing was charged.',
    cure: 'Send the request again after `Retry-After`, or send fewer at once.'
  },
  BG_REVOCATION_UNAVAILABLE: {
    status: 503,
    error: 'Revocation unavailable',
    cause: 'A revocation could not be written.',
    cure: 'Send it again; nothing is known to be revoked.'
  },
  BG_PROBLEM_REQUEST_INVALID: {
    status: 400,
    error: 'Invalid request',
    cause: "The body of a producer's request is not valid.",
    cure: '`detail` and `errors` say what.'
  },
  BG_PROBLEM_PRICE_INVALID: {
    status: 400,
    error: 'Invalid price',
    cause: '`priceSats` is no whole number from 1 to 1,000,000,000.',
    cure: 'Send one.'
  },
  BG_CHALLENGE_NOT_FOUND: {
    status: 404,
    error: 'Challenge not found',
    cause: 'This account has no challenge with this payment hash.',
    cure: 'Compare the hash and the key.'
  },
  BG_ENDPOINT_NOT_FOUND: {
    status: 404,
    error: 'Endpoint not found',
    cause: 'This account has made no challenge for this resource.',
    cure: 'Compare `resource` with `GET /api/l402/endpoints`.'
  },
  BG_IDEMPOTENCY_CONFLICT: {
    status: 409,
    error: 'Idempotency conflict',
    cause: 'The key is bound to a live challenge for another resource or price.',
    cure: 'Take a new key.'
  },
  BG_ENDPOINT_RETIRED: {
    status: 409,
    error: 'Endpoint retired',
    cause: 'The merchant has retired this resource.',
    cure: 'Take another name.'
  }
} as const satisfies Record<string, ResponseEntry>
