/** The currencies that a payment can be asked in (contract, Payment: currency). */
export type Currency = 'USD' | 'EUR' | 'GBP' | 'BTC'

/** Those whose worth in satoshis changes. */
export type FiatCurrency = Exclude<Currency, 'BTC'>

/** All of them, in the order in which they are listed to people. */
export const CURRENCIES: readonly Currency[] = Object.freeze(['USD', 'EUR', 'GBP', 'BTC'])

/** What an amount of a currency may look like (decision 46). */
export interface CurrencyRules {
  /** Most decimal places. */
  readonly places: number
  /** Largest amount, in whole units. */
  readonly largest: bigint
}

const fiat: CurrencyRules = Object.freeze({ places: 2, largest: 100_000_000n })

/**
 * The rules of each currency: a satoshi and all the bitcoin there will be; cents and a hundred million (decision 46).
 */
export const CURRENCY_RULES: Readonly<Record<Currency, CurrencyRules>> = Object.freeze({
  USD: fiat,
  EUR: fiat,
  GBP: fiat,
  BTC: Object.freeze({ places: 8, largest: 21_000_000n })
})
