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
