import type { Random } from '../../platform/system/ids.ts'

/** Current and former ids. */
const ORDER_ID = /^(?:ord_[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

/** `ord_` and 16 random hex characters (decision 10), which do not reveal the number of orders. */
export function newOrderId(random: Random): string {
  return `ord_${Buffer.from(random(8)).toString('hex')}`
}

/** Guards the database, which cannot read some texts. */
export function isOrderId(text: string): boolean {
  return ORDER_ID.test(text)
}
