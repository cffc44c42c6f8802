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
  asked: Pick<OfferedPrice, 'amountSats' | 'fiat'>,
  amountSats: number | null,
  fiat: string | null
): boolean {
  return asked.fiat === null ? amountSats === asked.amountSats : fiat === asked.fiat
}

/**
 * A payment covers `asked`: the exact price, or with a grace also more, and the former price for a while after a
 * change. A lower price issued after the change was for something else.
 * @param issuedAt of its challenge
 */
export function buys(asked: OfferedPrice, paid: PaidPrice, issuedAt: number, now: number): boolean {
  const { grace } = asked
  if (isOfPrice(asked, paid.amountSats, paid.fiat)) return true
  if (grace === null) return false
  if (isMore(paid, asked)) return true
  const until = grace.until(paid, issuedAt)
  return until !== null && issuedAt <= until + SPREAD && now < until + grace.duration
}

function isMore(paid: PaidPrice, asked: OfferedPrice): boolean {
  if (asked.fiat === null) return paid.amountSats > (asked.amountSats ?? Infinity)
  // Validated when the row was written.
  return paid.fiat !== null && isMoreFiat(paid.fiat as FiatText, asked.fiat)
}

/** Key of a remembered price: `10`, `USD 0.002`. */
export function priceText({ amountSats, fiat }: { amountSats: number | null; fiat: string | null }): string {
  return fiat ?? String(amountSats)
}
