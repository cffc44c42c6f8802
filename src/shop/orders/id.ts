import type { Random } from '../../platform/system/ids.ts'

/** Ids as orders have them now, and as they had them before. */
const ORDER_ID = /^(?:ord_[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/**
 * A new order's id: `ord_` and 16 random hex characters (decision 10), so that it tells nothing of how many there are.
 */
export function newOrderId(random: Random): string {
  return `ord_${Buffer.from(random(8)).toString('hex')}`
}

/**
 * Whether a text can be the id of an order: the database is not asked for others, some of which it could not even read.
 */
export function isOrderId(text: string): boolean {
  return ORDER_ID.test(text)
}
