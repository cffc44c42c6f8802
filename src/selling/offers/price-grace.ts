import type { FiatText } from '../../engine/checks/money-text.ts'
import { isMoreFiat } from '../../lightning/money/prices.ts'

interface PaidPrice {
  readonly amountSats: number
  readonly fiat: string | null
  readonly asked: string | null
}

/** How long former prices are accepted (decision 176). */
export interface PriceGrace {
  /** Milliseconds after a change. */
  readonly duration: number
  /**
   * Until when this price was offered; null if unknown. @param issuedAt of the
   * challenge; -Infinity before its row is read
   */
  until(paid: PaidPrice, issuedAt: number): number | null
}

export interface OfferedPrice {
  readonly amountSats: number | null
  readonly fiat: FiatText | null
  /** Null accepts the exact price only, as in the contract. */
  readonly grace: PriceGrace | null
}

// Milliseconds in which other processes may still sell at the former price.
const SPREAD = 120_000

/** Exact price. Fiat is compared as fiat, whatever its rate. */
export function isOfPrice(
  current: Pick<OfferedPrice, 'amountSats' | 'fiat'>,
  amountSats: number | null,
  fiat: string | null
): boolean {
  return current.fiat === null ? amountSats === current.amountSats : fiat === current.fiat
}

/**
 * A payment covers `asked`: the exact price, or with a grace also more, and the former price for a while after a
 * change. A lower price issued after the change was for something else.
 * @param issuedAt of its challenge
 */
export function buys(current: OfferedPrice, paid: PaidPrice, issuedAt: number, now: number): boolean {
  const { grace } = current
  if (isOfPrice(current, paid.amountSats, paid.fiat)) return true
  if (grace === null) return false
  if (isMore(paid, current)) return true
  const until = grace.until(paid, issuedAt)
  return until !== null && issuedAt <= until + SPREAD && now < until + grace.duration
}

function isMore(paid: PaidPrice, current: OfferedPrice): boolean {
  if (current.fiat === null) return paid.amountSats > (current.amountSats ?? Infinity)
  // Validated when the row was written.
  return paid.fiat !== null && isMoreFiat(paid.fiat as FiatText, current.fiat)
}

/** Key of a remembered price: `10`, `USD 0.002`. */
export function priceText({ amountSats, fiat }: { amountSats: number | null; fiat: string | null }): string {
  return fiat ?? String(amountSats)
}
