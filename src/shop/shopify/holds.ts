import type { HoldRequest } from '../platform.ts'
import { orderTag, variantGid } from './orders.ts'
import type { ShopifyValue } from './reader.ts'

/** A draft order that reserves goods for a time; no invoice is sent for it. */
export function holdInput({ sourceIdentifier, items, until }: HoldRequest): object {
  return {
    lineItems: items.map(({ variantId, quantity }) => ({ variantId: variantGid(variantId), quantity })),
    reserveInventoryUntil: new Date(until).toISOString(),
    tags: ['boltgate', orderTag(sourceIdentifier)],
    note: "Paid over Lightning, and waiting for the buyer's address. It holds the goods until then; the order comes by itself.",
    visibleToCustomer: false
  }
}

/** Whether a draft still reserves its goods: the merchant may have deleted or completed it. */
export function holds(data: ShopifyValue, now: number): boolean {
  const draft = data.optional('draftOrder')
  if (draft === null || draft.member('status').text() !== 'OPEN') return false
  const until = draft.optional('reserveInventoryUntil')?.time() ?? 0
  return until > now
}
