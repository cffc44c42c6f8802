import type { ChargeState } from '../../lightning/providers/provider.ts'
import type { Payment, PaymentStatus } from './schema.ts'

/**
 * What each state can become (decisions 40, 41 and 56). Beyond what decision 40 lists: money that came in part after
 * the expiry is shown as underpaid, as what came whole is shown as paid, or it could never be given back; and every
 * payment that can be refunded can read `refunded` (contract, Refund: eligibility). No state is left for an earlier
 * one, so that news that arrive twice or in the wrong order do no harm.
 */
const CAN_BECOME: Readonly<Record<PaymentStatus, ReadonlySet<PaymentStatus>>> = Object.freeze({
  unpaid: new Set<PaymentStatus>(['processing', 'paid', 'underpaid', 'expired']),
  processing: new Set<PaymentStatus>(['paid', 'underpaid', 'expired', 'refunded']),
  underpaid: new Set<PaymentStatus>(['paid', 'refunded']),
  paid: new Set<PaymentStatus>(['refunded']),
  expired: new Set<PaymentStatus>(['paid', 'underpaid']),
  refunded: new Set<PaymentStatus>()
})

/** The fields of a payment, or of a plan's invoice, that determine its status. */
export type Timed = Pick<Payment, 'status' | 'confirmsAt' | 'expiresAt' | 'paidAt' | 'receivedSats'>

/** One change of a status, with what is known of it. */
export interface Transition {
  readonly to: PaymentStatus
  /** Milliseconds since the epoch; null where nobody said when. */
  readonly paidAt: number | null
  /** Null where nobody said how much. */
  readonly receivedSats: number | null
}

/** Whether a payment may go from one status to another. */
export function canBecome(from: PaymentStatus, to: PaymentStatus): boolean {
  return CAN_BECOME[from].has(to)
}

/**
 * The transition that time alone has made due and that is not recorded yet: a demo confirms itself, an unpaid invoice
 * expires. Null when there is none. `now` in milliseconds; an invoice expires at `expiresAt` itself.
 */
export function due(payment: Timed, now: number): Transition | null {
  if (payment.status !== 'unpaid') return null
  if (payment.confirmsAt !== null && payment.confirmsAt <= now)
    return { to: 'paid', paidAt: payment.confirmsAt, receivedSats: null }
  return payment.expiresAt <= now ? { to: 'expired', paidAt: null, receivedSats: null } : null
}

/**
 * Whether an unpaid payment has passed its end without a recorded expiry: its provider has not answered since, so it may
 * have been paid (decision 178).
 */
export function isUnresolved(payment: Timed, now: number): boolean {
  return due(payment, now)?.to === 'expired'
}

/** Status of a payment as clients see it now (decision 40). */
export function statusAt(payment: Timed, now: number): PaymentStatus {
  return asOf(payment, now).status
}

/** The payment as clients see it now. A demo confirms itself by time alone; an expiry counts once it is recorded. */
export function asOf<P extends Timed>(payment: P, now: number): P {
  const step = due(payment, now)
  return step?.to === 'paid' ? stepped(payment, step, now) : payment
}

/**
 * The payment after a step. `paidAt` is what the provider says, else now, and never changes (decision 42); what was
 * received never shrinks. @throws TypeError for a step that no payment takes: a mistake of ours
 */
export function stepped<P extends Timed>(payment: P, step: Transition, now: number): P {
  if (!canBecome(payment.status, step.to))
    throw new TypeError(`a payment that is ${payment.status} cannot become ${step.to}`)
  return {
    ...payment,
    status: step.to,
    paidAt: step.to === 'paid' ? (payment.paidAt ?? step.paidAt ?? now) : payment.paidAt,
    receivedSats: moreReceived(payment, step.receivedSats) ?? payment.receivedSats
  }
}

/**
 * A figure of the provider's that is news; null when it is not. 0 is none: it would read as "nothing can be refunded".
 */
export function moreReceived(payment: Timed, receivedSats: number | null): number | null {
  return receivedSats !== null && receivedSats > (payment.receivedSats ?? 0) ? receivedSats : null
}

/**
 * The steps that a payment takes on what its provider says, in order; none when that is no news. `askedAt` is when the
 * provider was asked, in milliseconds: "unpaid" makes a payment expired only when it was said after the expiry
 * (decision 178).
 */
export function next(payment: Payment, seen: ChargeState, askedAt: number): readonly Transition[] {
  const step = (to: PaymentStatus): Transition => ({
    to,
    paidAt: to === 'paid' ? seen.settledAt : null,
    receivedSats: seen.receivedSats
  })
  switch (seen.status) {
    case 'paid':
    case 'underpaid':
    case 'expired':
      return canBecome(payment.status, seen.status) ? [step(seen.status)] : []
    case 'refunded':
      if (canBecome(payment.status, 'refunded')) return [step('refunded')]
      // It was paid in between, and whoever follows payments must not miss that.
      return canBecome(payment.status, 'paid') ? [step('paid'), step('refunded')] : []
    // Money that is on its way was sent in time: a payment that reads expired and was never told as such is not told so
    // now.
    case 'processing':
      return canBecome(payment.status, 'processing') ? [step('processing')] : []
    case 'unpaid': {
      const late = due(payment, askedAt)
      return late === null ? [] : [late]
    }
  }
}
