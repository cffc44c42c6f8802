import { isUnknownToProvider } from '../../lightning/providers/payout-states.ts'
import type { Refund } from './schema.ts'

/** Milliseconds for which an open refund is looked up; then an administrator must settle it. */
export const LOOKED_UP_FOR = 30 * 86_400_000

/**
 * Advice on a refund without the provider's acknowledgment, `now` in milliseconds; else null. It must not be sent
 * again: it may have been paid.
 */
export function adviceOn(refund: Refund, now: number): string | null {
  if (!isUnknownToProvider(refund)) return null
  const search =
    now < refund.createdAt + LOOKED_UP_FOR
      ? `it is looked up until ${new Date(refund.createdAt + LOOKED_UP_FOR).toISOString()}`
      : 'it is looked up by itself no longer'
  return (
    `Refund ${refund.refundId} of ${refund.amountSats} satoshis is pending, and the provider has not said whether it took it: ${search}, and never sent again. ` +
    "Do not create another for this amount. Where the provider's own records show that it was sent, or that it surely was not, ask the operator to settle it."
  )
}
