import { Type, type StaticDecode, type TSchema } from 'typebox'
import type { FiatCurrency } from './prices.ts'
import { readDecimal, type Decimal } from './decimal.ts'
import { mapped, parseResponse, readResponse } from '../../engine/formats/response-schema.ts'
import { defineError } from '../../platform/system/errors.ts'

const PRICE_SOURCE = defineError('BG_PRICE_SOURCE', {
  cause: 'An exchange rate source sent no usable price; the other sources are used.',
  fix: 'None needed unless all sources fail: then payments in fiat get 503; check `prices.urls` and the network.'
})

export type SourceName = 'coinbase' | 'coinbase-exchange' | 'kraken' | 'coingecko'

interface SourcePrice {
  readonly price: Decimal
  /** Null where absent. */
  readonly at: number | null
}

export interface PriceSource {
  readonly url: string
  path(currency: FiatCurrency): string
  /**
   * Reads the JSON text of a 200.
   * @throws SourceFault unless it holds the requested price
   */
  read(body: string, currency: FiatCurrency): SourcePrice
}

export class SourceFault extends Error {
  override name = 'SourceFault'
  readonly code = PRICE_SOURCE.code
}

/** A JSON number as text: a double could differ. */
class JsonNumber {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

// A hundred million times the highest price ever: above it lies a mistake.
const HIGHEST = 10n ** 13n

const Price = mapped(Type.String({ pattern: '^\\d{1,20}(?:\\.\\d{1,20})?$' }), priceOf)
const NumberPrice = mapped(Type.Unknown(), value => (value instanceof JsonNumber ? priceOf(value.text) : null))
const NumberTime = mapped(Type.Unknown(), value =>
  value instanceof JsonNumber && /^\d{1,11}$/.test(value.text) ? Number(value.text) * 1000 : null
)
const TextTime = mapped(
  Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?Z$' }),
  text => {
    const time = Date.parse(text)
    return Number.isNaN(time) ? null : time
  }
)
/** Kraken returns errors with 200. Its pair is XXBTZUSD or XBTUSD; `c` starts with the last price. */
const Tickers = Type.Object({ error: Type.Array(Type.Unknown()), result: Type.Unknown() })
const Pairs = Type.Record(Type.String(), Type.Unknown(), { minProperties: 1, maxProperties: 1 })
const Last = mapped(Type.Object({ c: Type.Array(Type.Unknown()) }), ({ c: [price] }) => readResponse(Price, price))
const Ticker = Type.Object({ price: Price, time: TextTime })

export const PRICE_SOURCES: Readonly<Record<SourceName, PriceSource>> = Object.freeze({
  coinbase: {
    url: 'https://api.coinbase.com',
    path: currency => `/v2/prices/BTC-${currency}/spot`,
    read(body, currency) {
      const pair = { base: Type.Literal('BTC'), currency: Type.Literal(currency) }
      const { data } = parse(Type.Object({ data: Type.Object({ ...pair, amount: Price }) }), body)
      return { price: data.amount, at: null }
    }
  },
  'coinbase-exchange': {
    url: 'https://api.exchange.coinbase.com',
    path: currency => `/products/BTC-${currency}/ticker`,
    read(body) {
      const { price, time } = parse(Ticker, body)
      return { price, at: time }
    }
  },
  kraken: {
    url: 'https://api.kraken.com',
    path: currency => `/0/public/Ticker?pair=XBT${currency}`,
    read(body, currency) {
      const { error, result } = parse(Tickers, body)
      if (error.length > 0) throw new SourceFault('the response is an error')
      const [[name, ticker] = ['', null]] = Object.entries(requireFit(Pairs, result))
      if (!name.endsWith(currency)) throw new SourceFault('the response is about another pair')
      return { price: requireFit(Last, ticker), at: null }
    }
  },
  coingecko: {
    url: 'https://api.coingecko.com',
    path: currency =>
      `/api/v3/simple/price?ids=bitcoin&vs_currencies=${currency.toLowerCase()}&include_last_updated_at=true`,
    read(body, currency) {
      const Prices = Type.Object({ price: NumberPrice, at: NumberTime })
      const { bitcoin } = parse(Type.Object({ bitcoin: Type.Record(Type.String(), Type.Unknown()) }), body)
      return requireFit(Prices, { price: bitcoin[currency.toLowerCase()], at: bitcoin['last_updated_at'] })
    }
  }
})

/**
 * Parses JSON with numbers kept as text.
 * @throws SourceFault
 */
function parse<T extends TSchema>(schema: T, body: string): StaticDecode<T> {
  let value: unknown
  try {
    value = JSON.parse(body, (_name: string, given: unknown, context?: { readonly source: string }) => {
      return typeof given === 'number' ? new JsonNumber(context?.source ?? String(given)) : given
    })
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new SourceFault('the response is no JSON')
  }
  return requireFit(schema, value)
}

function requireFit<T extends TSchema>(schema: T, value: unknown): StaticDecode<T> {
  return parseResponse(schema, value, mismatch => new SourceFault(mismatch))
}

function priceOf(text: string): Decimal | null {
  const value = readDecimal(text)
  const isPrice =
    value !== null && value.digits > 0n && value.places <= 30 && value.digits < HIGHEST * 10n ** BigInt(value.places)
  return isPrice ? value : null
}
