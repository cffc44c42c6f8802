import { Type, type StaticDecode, type TSchema } from 'typebox'
import { mapped, parseResponse } from '../../engine/formats/response-schema.ts'
import { inUnits, readDecimal } from '../../lightning/money/decimal.ts'
import { StorePlatformError } from '../platform.ts'

/*
 * Responses of Shopify are read strictly: one that is read wrong about money or stock is worse than none.
 */

/** All amounts are in US dollars (decision 142). */
export const CURRENCY = 'USD'

export const NumericId = mapped(
  Type.Union([Type.Number(), Type.String()], { description: 'id that fits a number exactly' }),
  given => {
    const id = /^[1-9]\d{0,15}$/.test(String(given)) ? Number(given) : NaN
    return Number.isSafeInteger(id) ? id : null
  }
)

/** A decimal text of dollars, 0 or more, as cents. Nothing is rounded. */
export const Cents = mapped(
  Type.String({ description: 'amount of 0 or more with at most two decimal places' }),
  text => {
    const decimal = readDecimal(text)
    if (decimal === null || decimal.digits < 0n || decimal.places > 2) return null
    const cents = Number(inUnits(decimal, 2))
    return Number.isSafeInteger(cents) ? cents : null
  }
)

/** A share such as a tax rate, 0 or more, as decimal text of at most eight places. */
export const Share = mapped(Type.Number({ minimum: 0 }), share => share.toFixed(8).replace(/(?:\.|(?<!0))0+$/, ''))

/** Milliseconds since the epoch of an ISO time. */
export const IsoTime = mapped(Type.String({ description: 'time' }), text => {
  const time = Date.parse(text)
  return Number.isNaN(time) ? null : time
})

/** @throws StorePlatformError `refused` for a shop that counts in anything else */
export const Dollars = mapped(Type.String(), currency => {
  if (currency === CURRENCY) return currency
  throw new StorePlatformError(
    'refused',
    `The shop's currency is ${currency}; only shops in ${CURRENCY} can sell here.`
  )
})

/** Cents of an amount. @throws as Dollars, which is looked at first */
export const ShopMoney = mapped(
  Type.Object({ shopMoney: Type.Object({ currencyCode: Dollars, amount: Cents }) }),
  ({ shopMoney }) => shopMoney.amount
)

/** What a response says; `path` is its position. @throws StorePlatformError `away` where it does not fit */
export function requireShopify<T extends TSchema>(schema: T, value: unknown, path = 'data'): StaticDecode<T> {
  return parseResponse(schema, value, mismatch => unusableShopify(`${path}: ${mismatch}`))
}

export function unusableShopify(what: string): StorePlatformError {
  return new StorePlatformError('away', `The store platform gave an answer that cannot be used: ${what}.`)
}
