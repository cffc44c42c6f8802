import { UnsealError } from '../../platform/keys/secrets.ts'
import { ProviderRefused, ProviderUnavailable } from '../provider-calls/errors.ts'
import type { Payout } from '../provider-calls/provider.ts'

/** Contract, States and transitions: Refund. */
export const REFUND_STATUSES = ['pending', 'processing', 'confirmed', 'failed'] as const
export type RefundStatus = (typeof REFUND_STATUSES)[number]

/** Contract, Refund: refundType. */
export const REFUND_TYPES = ['chain', 'ln'] as const
export type RefundType = (typeof REFUND_TYPES)[number]

/** The part of a refund that provider responses change. */
export interface PaidOut {
  readonly status: RefundStatus
  readonly type: RefundType
  /** Satoshis; 0 while unknown (decision 61). */
  readonly feeSats: number
  /** Null while it is unknown whether the provider accepted it. */
  readonly providerRefundId: string | null
  readonly transactionHash: string | null
  readonly createdAt: number
  /** When confirmed or failed; null before. */
  readonly processedAt: number | null
}

/**
 * Milliseconds a refund may stay unknown to its provider before it counts as never sent. Sending ends within
 * `SEND_WITHIN` of the reservation plus the provider's timeout.
 */
export const UNKNOWN_GRACE = 600_000
/** Milliseconds after its reservation for sending a refund: a resumed process must not send what others gave up. */
export const SEND_WITHIN = 60_000

/** Coarsest node clock. */
const COARSEST_CLOCK = 1_000
const SHORTEST_CHECK = 10_000
const LONGEST_CHECK = 900_000

// Responses can arrive out of order: statuses only move forward, and the last two are final.
const ORDER: Readonly<Record<RefundStatus, number>> = { pending: 0, processing: 1, confirmed: 2, failed: 2 }

export function isOpen(refund: Pick<PaidOut, 'status'>): boolean {
  return refund.status === 'pending' || refund.status === 'processing'
}

/**
 * The refund after `payout`. Final states stay, since the amount may have been released; unknown
 * fields are filled in.
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

/** The refund after certainly nothing was or will be sent. */
export function afterRefusal<R extends PaidOut>(refund: R, now: number): R {
  return isOpen(refund) ? { ...refund, status: 'failed', processedAt: now } : refund
}

/**
 * The refund when unknown to its provider: failed after the grace period, unless the provider
 * knew it before.
 */
export function afterUnknown<R extends PaidOut>(refund: R, now: number): R {
  const sent = refund.providerRefundId !== null || refund.status === 'processing'
  return !sent && now - refund.createdAt >= UNKNOWN_GRACE ? afterRefusal(refund, now) : refund
}

/**
 * The refund's own payout among the provider's; null for none. Nodes identify payments by invoice only: a failure
 * before this refund's creation is an earlier refund's and proves nothing after a lost response (decision 57).
 */
export function ownPayout(refund: PaidOut, found: Payout | null): Payout | null {
  const isEarlier =
    found?.status === 'failed' &&
    isUnknownToProvider(refund) &&
    found.processedAt !== null &&
    found.processedAt <= refund.createdAt - COARSEST_CLOCK
  return isEarlier ? null : found
}

/** Next look-up of an open refund: backs off with age. */
export function nextCheck(refund: Pick<PaidOut, 'createdAt'>, now: number): number {
  return now + Math.min(Math.max((now - refund.createdAt) / 2, SHORTEST_CHECK), LONGEST_CHECK)
}

/** Whether certainly nothing was or will be sent; anything else may have paid. */
export function isNothingSent(error: unknown): boolean {
  return error instanceof ProviderRefused || error instanceof ProviderUnavailable || error instanceof UnsealError
}

export function isUnknownToProvider(refund: Pick<PaidOut, 'status' | 'providerRefundId'>): boolean {
  return refund.status === 'pending' && refund.providerRefundId === null
}
