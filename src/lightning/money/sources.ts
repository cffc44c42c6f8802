import type { FiatCurrency } from './currencies.ts'
import { readDecimal, type Decimal } from './decimal.ts'
import { defineError } from '../../platform/system/errors.ts'

const PRICE_SOURCE = defineError('BG_PRICE_SOURCE', {
  cause: 'An exchange rate source sent no usable price; the other sources are used.',
  fix: 'None needed unless all sources fail: then payments in fiat get 503; check `prices.urls` and the network.'
})

/** The public sources that can be asked what a bitcoin costs. */
export type SourceName = 'coinbase' | 'coinbase-exchange' | 'kraken' | 'coingecko'

/** What a source says one bitcoin costs. */
export interface SourcePrice {
  readonly price: Decimal
  /** Its own time, in milliseconds since the epoch; null where the source gives none. */
  readonly at: number | null
}

/** How a source is asked, and how its answer is read. */
export interface PriceSource {
  /** Scheme and host of the public API. */
  readonly url: string
  /** What follows the address. */
  path(currency: FiatCurrency): string
  /** Reads the JSON text of a 200. @throws SourceFault for anything but the price that was asked for */
  read(body: string, currency: FiatCurrency): SourcePrice
}

/** A source answered what is no price. The message is for the log. */
export class SourceFault extends Error {
  override name = 'SourceFault'
  readonly code = PRICE_SOURCE.code
}

/** A number of a JSON text as it was written: as a double it might be another one. */
class JsonNumber {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

// A hundred million times what a bitcoin has ever cost: beyond lies no price but a mistake.
const HIGHEST = 10n ** 13n
const PLAIN = /^\d{1,20}(?:\.\d{1,20})?$/

/** How each source speaks. */
export const PRICE_SOURCES: Readonly<Record<SourceName, PriceSource>> = Object.freeze({
  coinbase: {
    url: 'https://api.coinbase.com',
    path: currency => `/v2/prices/BTC-${currency}/spot`,
    read(body, currency) {
      const data = member(parse(body), 'data')
      if (member(data, 'base') !== 'BTC' || member(data, 'currency') !== currency)
        throw new SourceFault('the answer is about another pair')
      return { price: textPrice(member(data, 'amount')), at: null }
    }
  },
  'coinbase-exchange': {
    url: 'https://api.exchange.coinbase.com',
    path: currency => `/products/BTC-${currency}/ticker`,
    read(body) {
      const answer = parse(body)
      return { price: textPrice(member(answer, 'price')), at: isoTime(member(answer, 'time')) }
    }
  },
  kraken: {
    url: 'https://api.kraken.com',
    path: currency => `/0/public/Ticker?pair=XBT${currency}`,
    read(body, currency) {
      const answer = parse(body)
      const errors = member(answer, 'error')
      // It says 200 even when it refuses.
      if (!Array.isArray(errors) || errors.length > 0) throw new SourceFault('the answer is an error')
      const pairs = Object.entries(object(member(answer, 'result')))
      const [pair, ...others] = pairs
      // Named XXBTZUSD or XBTUSD.
      if (pair === undefined || others.length > 0 || !pair[0].endsWith(currency))
        throw new SourceFault('the answer is about another pair')
      const last = member(pair[1], 'c')
      if (!Array.isArray(last)) throw new SourceFault('the answer has another form')
      return { price: textPrice(last[0]), at: null }
    }
  },
  coingecko: {
    url: 'https://api.coingecko.com',
    path: currency =>
      `/api/v3/simple/price?ids=bitcoin&vs_currencies=${currency.toLowerCase()}&include_last_updated_at=true`,
    read(body, currency) {
      const bitcoin = member(parse(body), 'bitcoin')
      const price = member(bitcoin, currency.toLowerCase())
      const updated = member(bitcoin, 'last_updated_at')
      if (!(price instanceof JsonNumber) || !(updated instanceof JsonNumber) || !/^\d{1,11}$/.test(updated.text))
        throw new SourceFault('the answer has another form')
      return { price: positive(readDecimal(price.text)), at: Number(updated.text) * 1000 }
    }
  }
})

/** JSON with its numbers as texts. */
function parse(body: string): unknown {
  try {
    return JSON.parse(body, (_name: string, value: unknown, context?: { readonly source: string }) => {
      return typeof value === 'number' ? new JsonNumber(context?.source ?? String(value)) : value
    })
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new SourceFault('the answer is no JSON')
  }
}

function object(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof JsonNumber)
    throw new SourceFault('the answer has another form')
  // Just seen to be an object of JSON.
  return value as Record<string, unknown>
}

/** An own member; undefined where there is none. */
function member(value: unknown, name: string): unknown {
  const from = object(value)
  return Object.hasOwn(from, name) ? from[name] : undefined
}

function textPrice(value: unknown): Decimal {
  if (typeof value !== 'string' || !PLAIN.test(value)) throw new SourceFault('the answer holds no price')
  return positive(readDecimal(value))
}

function positive(value: Decimal | null): Decimal {
  if (
    value === null ||
    value.digits <= 0n ||
    value.places > 30 ||
    value.digits >= HIGHEST * 10n ** BigInt(value.places)
  )
    throw new SourceFault('the answer holds no price')
  return value
}

function isoTime(value: unknown): number {
  const time =
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/.test(value)
      ? Date.parse(value)
      : Number.NaN
  if (Number.isNaN(time)) throw new SourceFault('the answer holds no time')
  return time
}
