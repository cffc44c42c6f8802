import type { FiatText } from '../../engine/checks/money-text.ts'
import { isMoreFiat } from '../prices/fiat.ts'

/** The price that was paid. */
export interface PaidPrice {
  readonly amountSats: number
  /** The price in fiat, if it was one. */
  readonly fiat: string | null
  /** Digest of the price server's request; null without one. */
  readonly asked: string | null
}

/** How long an offer accepts payments of a former price (decision 176). */
export interface PriceGrace {
  /** Milliseconds after a change for which the former price is accepted. */
  readonly duration: number
  /**
   * Until when this price was offered, in milliseconds since the epoch; null when it is not known.
   * @param issuedAt of the challenge; -Infinity before its row was read
   */
  until(paid: PaidPrice, issuedAt: number): number | null
}

export interface AskedPrice {
  readonly amountSats: number | null
  readonly fiat: FiatText | null
  /** Null where only the exact price is accepted, as in the contract. */
  readonly grace: PriceGrace | null
}

// Other processes take a change some seconds later, and sell at the former price until then.
const SPREAD = 120_000

/** Whether a payment is of the exact price. Fiat is compared as fiat, whatever its rate. */
export function isOfPrice(
  asked: Pick<AskedPrice, 'amountSats' | 'fiat'>,
  amountSats: number | null,
  fiat: string | null
): boolean {
  return asked.fiat === null ? amountSats === asked.amountSats : fiat === asked.fiat
}

/**
 * Whether a payment buys what costs `asked` now: of the exact price; with a grace also of more, and of the former price
 * for so long after a change. A lower price issued after the change was of something else.
 * @param issuedAt of its challenge; this and `now` in milliseconds since the epoch
 */
export function buys(asked: AskedPrice, paid: PaidPrice, issuedAt: number, now: number): boolean {
  const { grace } = asked
  if (isOfPrice(asked, paid.amountSats, paid.fiat)) return true
  if (grace === null) return false
  if (isMore(paid, asked)) return true
  const until = grace.until(paid, issuedAt)
  return until !== null && issuedAt <= until + SPREAD && now < until + grace.duration
}

function isMore(paid: PaidPrice, asked: AskedPrice): boolean {
  if (asked.fiat === null) return paid.amountSats > (asked.amountSats ?? Infinity)
  // The row's own text was one when it was written.
  return paid.fiat !== null && isMoreFiat(paid.fiat as FiatText, asked.fiat)
}

/** How a price is written where former ones are remembered: `10`, `USD 0.002`. */
export function priceText({ amountSats, fiat }: { amountSats: number | null; fiat: string | null }): string {
  return fiat ?? String(amountSats)
}
