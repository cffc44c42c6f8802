/** The currencies that a payment can be asked in (contract, Payment: currency). */
export type Currency = 'USD' | 'EUR' | 'GBP' | 'BTC'

/** Those whose worth in satoshis changes. */
export type FiatCurrency = Exclude<Currency, 'BTC'>
