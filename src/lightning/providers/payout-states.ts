import { UnsealError } from '../../platform/keys/secrets.ts'
import { ProviderRefused, ProviderUnavailable } from '../provider-calls/errors.ts'
import type { Payout } from './provider.ts'

/** The states of a refund (contract, States and transitions: Refund). */
export const REFUND_STATUSES = ['pending', 'processing', 'confirmed', 'failed'] as const
export type RefundStatus = (typeof REFUND_STATUSES)[number]

/** Over the chain or over Lightning (contract, Refund: refundType). */
export const REFUND_TYPES = ['chain', 'ln'] as const
export type RefundType = (typeof REFUND_TYPES)[number]

/** The part of a refund that its provider's responses change. Times in milliseconds since the epoch. */
export interface PaidOut {
  readonly status: RefundStatus
  readonly type: RefundType
  /** 0 while it is not known (decision 61). Satoshis. */
  readonly feeSats: number
  /** The provider's own id; null while it is not known whether the provider took the request. */
  readonly providerRefundId: string | null
  /** 64 hex characters; null over Lightning, and over the chain until it is broadcast. */
  readonly transactionHash: string | null
  readonly createdAt: number
  /** When it was confirmed or failed; null before. */
  readonly processedAt: number | null
}

/**
 * How long a provider may say that it knows nothing of a refund before the refund counts as never sent, in
 * milliseconds. A request is never sent later than `SEND_WITHIN` after its reservation, and ends within the provider's
 * timeout.
 */
export const UNKNOWN_GRACE = 600_000
/**
 * Milliseconds after its reservation in which a refund may be sent: a process that stood still may not send what others
 * gave up.
 */
export const SEND_WITHIN = 60_000

/** Milliseconds to which some nodes cut times. */
const COARSEST_CLOCK = 1_000
const SHORTEST_CHECK = 10_000
const LONGEST_CHECK = 900_000

// Answers can overtake each other: a status only ever moves forward in this order, and the last two are final.
const ORDER: Readonly<Record<RefundStatus, number>> = { pending: 0, processing: 1, confirmed: 2, failed: 2 }

/** Whether a refund is still under way. */
export function isOpen(refund: Pick<PaidOut, 'status'>): boolean {
  return refund.status === 'pending' || refund.status === 'processing'
}

/**
 * The refund after its provider said `payout`, `now` in milliseconds. A confirmed one stays confirmed and a failed one
 * failed, since its amount may have been given out again; what was not known yet is filled in.
 */
export function afterPayout<R extends PaidOut>(refund: R, payout: Payout, now: number): R {
  if (refund.status === 'failed') return refund
  const status = isOpen(refund) && ORDER[payout.status] >= ORDER[refund.status] ? payout.status : refund.status
  const isFinal = status === 'confirmed' || status === 'failed'
  return {
    ...refund,
    status,
    feeSats: payout.feeSats > 0 ? payout.feeSats : refund.feeSats,
    providerRefundId: refund.providerRefundId ?? payout.payoutId,
    transactionHash: refund.type === 'chain' ? (refund.transactionHash ?? payout.transactionHash) : null,
    processedAt: isFinal ? (refund.processedAt ?? payout.processedAt ?? now) : null
  }
}

/** The refund after it is certain that nothing was sent and nothing will be, `now` in milliseconds. */
export function afterRefusal<R extends PaidOut>(refund: R, now: number): R {
  return isOpen(refund) ? { ...refund, status: 'failed', processedAt: now } : refund
}

/**
 * The refund after its provider said that it does not know it, `now` in milliseconds: failed once the grace is over,
 * unless the provider knew it before, which no silence takes back.
 */
export function afterUnknown<R extends PaidOut>(refund: R, now: number): R {
  const sent = refund.providerRefundId !== null || refund.status === 'processing'
  return !sent && now - refund.createdAt >= UNKNOWN_GRACE ? afterRefusal(refund, now) : refund
}

/**
 * What a provider knows of a refund, of what it found; null for nothing. Nodes know a payment by its invoice alone: a
 * failure that ended before the refund was made is that of an earlier refund to the same invoice, and says nothing of a
 * request whose answer was lost (decision 57).
 */
export function ownPayout(refund: PaidOut, found: Payout | null): Payout | null {
  const isEarlier =
    found?.status === 'failed' &&
    isUnheard(refund) &&
    found.processedAt !== null &&
    found.processedAt <= refund.createdAt - COARSEST_CLOCK
  return isEarlier ? null : found
}

/** When an open refund is to be looked up next, in milliseconds: soon at first, then less and less often as it ages. */
export function nextCheck(refund: Pick<PaidOut, 'createdAt'>, now: number): number {
  return now + Math.min(Math.max((now - refund.createdAt) / 2, SHORTEST_CHECK), LONGEST_CHECK)
}

/** Whether it is certain that nothing was sent and nothing will be; everything else may have paid. */
export function isNothingSent(error: unknown): boolean {
  return error instanceof ProviderRefused || error instanceof ProviderUnavailable || error instanceof UnsealError
}

/** Whether it is not known that the provider took a refund: the answer was lost, or is still under way. */
export function isUnheard(refund: Pick<PaidOut, 'status' | 'providerRefundId'>): boolean {
  return refund.status === 'pending' && refund.providerRefundId === null
}
