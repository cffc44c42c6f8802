import { Unavailable } from '../gateway/errors.ts'
import type { Currency, FiatCurrency } from './currencies.ts'
import { inUnits, knownDecimal, type Decimal } from './decimal.ts'

/** Decimal places of a bitcoin: a satoshi is the last. */
const BTC_PLACES = 8

/** What money is worth in satoshis. */
export interface Prices {
  /**
   * Satoshis for a plain decimal amount above 0, up to the next whole one and at least 1, so that the merchant is never
   * short (decision 47).
   * @throws Unavailable 503 "Price feed unavailable"
   */
  satoshis (currency: FiatCurrency, amount: string): Promise<number>
}

/** Satoshis of an amount in any currency; bitcoin needs no price. @throws Unavailable when the price is not known */
export async function satoshisOf (prices: Prices, currency: Currency, amount: string): Promise<number> {
  return currency === 'BTC' ? Number(inUnits(knownDecimal(amount), BTC_PLACES)) : await prices.satoshis(currency, amount)
}

/** Satoshis of an amount where one bitcoin costs `price` of the same currency, rounded up, at least 1 (decision 47). */
export function atPrice (amount: Decimal, price: Decimal): number {
  const places = BigInt(price.places + BTC_PLACES)
  const asked = amount.digits * 10n ** places
  const each = price.digits * 10n ** BigInt(amount.places)
  const satoshis = (asked + each - 1n) / each
  return Number(satoshis < 1n ? 1n : satoshis)
}

/** What one bitcoin costs where no market is asked. */
const SANDBOX_PRICES: Readonly<Record<FiatCurrency, string>> = Object.freeze({ USD: '100000', EUR: '92000', GBP: '79000' })

/** Prices that never change, for the sandbox and for tests: decimals by currency, for one bitcoin. */
export class FixedPrices implements Prices {
  readonly #prices: Readonly<Record<FiatCurrency, Decimal>>

  /** @throws TypeError for a price that is no decimal above 0 */
  constructor (prices: Readonly<Record<FiatCurrency, string>> = SANDBOX_PRICES) {
    this.#prices = { USD: priceOf(prices.USD), EUR: priceOf(prices.EUR), GBP: priceOf(prices.GBP) }
  }

  async satoshis (currency: FiatCurrency, amount: string): Promise<number> {
    return atPrice(knownDecimal(amount), this.#prices[currency])
  }
}

/** Prices where no feed is configured: none. */
export class NoPrices implements Prices {
  satoshis (): Promise<number> {
    return Promise.reject(new Unavailable('Price feed unavailable', 'What this currency is worth in bitcoin is not known at the moment. Amounts in BTC need no price.', 60))
  }
}

function priceOf (text: string): Decimal {
  const price = knownDecimal(text)
  if (price.digits <= 0n) throw new TypeError(`the price ${text} is not above 0`)
  return price
}
