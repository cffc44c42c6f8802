import type { FiatText } from '../../engine/checks/money-text.ts'
import { Unavailable } from '../../engine/operations/errors.ts'
import { systemClock, type Clock } from '../../platform/system/clock.ts'
import { inUnits, knownDecimal, type Decimal } from './decimal.ts'
import { defineError } from '../../platform/system/errors.ts'

export const PRICE_FEED_UNAVAILABLE = defineError('BG_PRICE_FEED_UNAVAILABLE', {
  status: 503,
  title: 'Price feed unavailable',
  cause: 'The exchange rate of the currency is not known at the moment.',
  fix: 'Retry after `Retry-After`, or send an amount in BTC.'
})

const BTC_PLACES = 8

export interface Prices {
  /**
   * Satoshis for a positive plain decimal, rounded up and at least 1, so that the merchant is never short (decision
   * 47).
   * @throws Unavailable 503 "Price feed unavailable"
   */
  satoshis(currency: FiatCurrency, amount: string): Promise<number>
}

/** Price of one bitcoin. */
export interface Quote {
  /** In currency units, above 0; see `atPrice`. */
  readonly price: Decimal
  /** Time of the oldest answer behind it. */
  readonly at: number
  readonly expiresAt: number
}

/** Prices that can be shown and kept: for storefronts and bitcoin plans. */
export interface Quotes extends Prices {
  /** @throws Unavailable 503 "Price feed unavailable" */
  quote(currency: FiatCurrency): Promise<Quote>
}

/**
 * Satoshis of an amount; bitcoin needs no price.
 * @throws Unavailable without a price
 */
export async function satoshisOf(prices: Prices, currency: Currency, amount: string): Promise<number> {
  return currency === 'BTC'
    ? Number(inUnits(knownDecimal(amount), BTC_PLACES))
    : await prices.satoshis(currency, amount)
}

/** Satoshis of an amount at `price` per bitcoin, rounded up, at least 1 (decision 47). */
export function atPrice(amount: Decimal, price: Decimal): number {
  const places = BigInt(price.places + BTC_PLACES)
  const scaled = amount.digits * 10n ** places
  const each = price.digits * 10n ** BigInt(amount.places)
  const satoshis = (scaled + each - 1n) / each
  return Number(satoshis < 1n ? 1n : satoshis)
}

const SANDBOX_PRICES: Readonly<Record<FiatCurrency, string>> = Object.freeze({
  USD: '100000',
  EUR: '92000',
  GBP: '79000'
})

/** TTL of a fixed quote, as the feed's. */
const FIXED_QUOTE = 60_000

export class FixedPrices implements Quotes {
  readonly #prices: Readonly<Record<FiatCurrency, Decimal>>
  readonly #clock: Clock

  /** @throws TypeError unless a decimal above 0 */
  constructor(prices: Readonly<Record<FiatCurrency, string>> = SANDBOX_PRICES, clock: Clock = systemClock) {
    this.#clock = clock
    this.#prices = { USD: priceOf(prices.USD), EUR: priceOf(prices.EUR), GBP: priceOf(prices.GBP) }
  }

  async satoshis(currency: FiatCurrency, amount: string): Promise<number> {
    return atPrice(knownDecimal(amount), this.#prices[currency])
  }

  async quote(currency: FiatCurrency): Promise<Quote> {
    const at = this.#clock.now()
    return { price: this.#prices[currency], at, expiresAt: at + FIXED_QUOTE }
  }
}

/** Contract, Errors: price feed unavailable. `retryAfter` in whole seconds. */
export function pricesUnavailable(retryAfter: number): Unavailable {
  return new Unavailable(
    PRICE_FEED_UNAVAILABLE,
    'What this currency is worth in bitcoin is not known at the moment. Amounts in BTC need no price.',
    retryAfter
  )
}

export class NoPrices implements Prices {
  satoshis(): Promise<number> {
    return Promise.reject(pricesUnavailable(60))
  }
}

function priceOf(text: string): Decimal {
  const price = knownDecimal(text)
  if (price.digits <= 0n) throw new TypeError(`the price ${text} is not above 0`)
  return price
}

/** Contract, Payment: currency. */
export type Currency = 'USD' | 'EUR' | 'GBP' | 'BTC'

export type FiatCurrency = Exclude<Currency, 'BTC'>

/** In display order. */
export const CURRENCIES: readonly Currency[] = Object.freeze(['USD', 'EUR', 'GBP', 'BTC'])

interface CurrencyRules {
  readonly places: number
  /** In whole units. */
  readonly largest: bigint
}

const fiat: CurrencyRules = Object.freeze({ places: 2, largest: 100_000_000n })

/** A satoshi and the total supply of bitcoin; cents and a hundred million (decision 46). */
export const CURRENCY_RULES: Readonly<Record<Currency, CurrencyRules>> = Object.freeze({
  USD: fiat,
  EUR: fiat,
  GBP: fiat,
  BTC: Object.freeze({ places: 8, largest: 21_000_000n })
})

export function fiatOf(text: FiatText): { readonly currency: FiatCurrency; readonly amount: string } {
  // The type has a three-letter currency and a space in front.
  return { currency: text.slice(0, 3) as FiatCurrency, amount: text.slice(4) }
}

/** Compares amounts of the same currency. */
export function isMoreFiat(one: FiatText, other: FiatText): boolean {
  const [a, b] = [fiatOf(one), fiatOf(other)]
  if (a.currency !== b.currency) return false
  const [left, right] = [knownDecimal(a.amount), knownDecimal(b.amount)]
  return left.digits * 10n ** BigInt(right.places) > right.digits * 10n ** BigInt(left.places)
}

/** Millisatoshis in a bitcoin. */
export const BTC_MSAT = 100_000_000_000n
