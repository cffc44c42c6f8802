import type { FiatText } from '../../engine/checks/money-text.ts'
import { isMoreFiat } from '../prices/fiat.ts'

/** What a payment was of. */
export interface PaidPrice {
  readonly amountSats: number
  /** What was asked where that was no bitcoin. */
  readonly fiat: string | null
  /** What a price server was asked for it; null where none was. */
  readonly asked: string | null
}

/** For how long, and from when, an offer still takes what was paid at a price that it no longer asks (decision 176). */
export interface PriceGrace {
  /** Milliseconds after a change for which the price before it is taken. */
  readonly duration: number
  /**
   * Until when this price was asked, in milliseconds since the epoch; null when it is not known to have been.
   * @param issuedAt when it was asked of the payer; -Infinity while only the row knows, which is asked next
   */
  until(paid: PaidPrice, issuedAt: number): number | null
}

/** What a payment is compared with: satoshis, or fiat. */
export interface AskedPrice {
  readonly amountSats: number | null
  readonly fiat: FiatText | null
  /** Null where a payment must be of the very price, as the contract says. */
  readonly grace: PriceGrace | null
}

// Other processes take a change some seconds later, and sell at the price before it until then.
const SPREAD = 120_000

/** Whether a payment is of the very price. Fiat is compared as fiat, however its worth has moved. */
export function isOfPrice(
  asked: Pick<AskedPrice, 'amountSats' | 'fiat'>,
  amountSats: number | null,
  fiat: string | null
): boolean {
  return asked.fiat === null ? amountSats === asked.amountSats : fiat === asked.fiat
}

/**
 * Whether a payment buys what costs `asked` now: at the very price; with a grace also when more was paid, and, for so
 * long after a change, when the price before it was. What was issued after the change for less was bought elsewhere.
 * @param issuedAt when its challenge was made; this and `now` in milliseconds since the epoch
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
