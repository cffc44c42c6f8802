/** For how long, and from when, an offer still takes what was paid at a price that it no longer asks (decision 176). */
export interface PriceGrace {
  /** Milliseconds after a change for which the price before it is taken. */
  readonly duration: number
  /** Until when this price was asked, in milliseconds since the epoch; null when it is not known to have been. */
  until(amountSats: number): number | null
}

/** What a payment is compared with. */
export interface AskedPrice {
  readonly amountSats: number
  /** Null where a payment must be of the very price, as the contract says. */
  readonly grace: PriceGrace | null
}

// Other processes take a change some seconds later, and sell at the price before it until then.
const SPREAD = 120_000

/**
 * Whether a payment of `amountSats` buys what costs `asked` now: at the very price; with a grace also when more was
 * paid, and, for so long after a change, when the price before it was. What was issued after the change for less was
 * bought elsewhere.
 * @param issuedAt when its challenge was made; this and `now` in milliseconds since the epoch
 */
export function buys(asked: AskedPrice, amountSats: number, issuedAt: number, now: number): boolean {
  const { grace } = asked
  if (amountSats === asked.amountSats) return true
  if (grace === null) return false
  if (amountSats > asked.amountSats) return true
  const until = grace.until(amountSats)
  return until !== null && issuedAt <= until + SPREAD && now < until + grace.duration
}
