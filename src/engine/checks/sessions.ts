import { Type, type Static } from 'typebox'
import type { FiatText } from './money-text.ts'
import type { MeterConfig } from './meter.ts'
import { amountsOf, amountWords, isTable, MAX_PRICE_SATS, type PriceConfig } from './price.ts'
import { Duration, formatDuration, Money } from '../config/units.ts'

export const SessionsSchema = Type.Object(
  {
    deposit: Type.Optional(
      Money({
        minimum: 1,
        maximum: MAX_PRICE_SATS,
        description:
          'What a client pays at first, and again for each top-up; never less than a unit. Twenty units where it is left out, and with a meter its bundle.'
      })
    ),
    idle: Duration({
      default: '5m',
      minimum: '10s',
      maximum: '30d',
      description: 'How long a session may rest before it is closed and what is left of it is paid back.'
    }),
    unit: Type.String({
      default: 'request',
      pattern: '^[a-z][a-z0-9 -]{0,31}$',
      description: 'What the price of the route is for, as clients show it to people: `request`, `chunk`.'
    })
  },
  {
    additionalProperties: false,
    description:
      'Sells prepaid sessions of the Payment scheme too: one deposit for many requests, and what is left is paid back to an invoice of the client. The price is that of one unit: a response, or one event of an event stream; with a meter it is as that says.'
  }
)

/** A deposit in satoshis or fiat, times in milliseconds. */
export type SessionsConfig = Readonly<Static<typeof SessionsSchema>>

export function sessionWords({ deposit, idle }: SessionsConfig, isMetered: boolean): string {
  const first = deposit === undefined ? (isMetered ? 'as much' : '20 units') : amountWords(deposit)
  return `Also from a prepaid session (Payment scheme, lightning/session): ${first} as a deposit, and what is left is paid back when it is closed, at the latest after ${formatDuration(idle)} at rest`
}

/** As `depositSats` of the Payment scheme. */
const DEPOSIT_UNITS = 20

interface KeyTerms {
  readonly keys: boolean
  readonly meter?: MeterConfig
  readonly price?: PriceConfig
  readonly sessions?: SessionsConfig
}

/**
 * How a route takes what a key pays: by its meter, or with sessions alone the price of a unit for each. Null without
 * keys, and where the file does not say what a unit or a key costs.
 */
export function keyMeterOf({ keys, meter, price, sessions }: KeyTerms): MeterConfig | null {
  if (!keys || meter !== undefined) return keys ? (meter ?? null) : null
  if (sessions === undefined || price === undefined) return null
  if (typeof price === 'object' && !isTable(price)) return null
  const amounts = typeof price === 'object' ? amountsOf(price) : [price]
  const sats = amounts.filter(amount => typeof amount === 'number')
  const { deposit, unit } = sessions
  if (deposit === undefined && sats.length < amounts.length) return null
  const inMsat = (amount: number | FiatText): number | FiatText => (typeof amount === 'number' ? amount * 1000 : amount)
  return {
    unit,
    bundle: deposit ?? Math.min(DEPOSIT_UNITS * Math.max(...sats), MAX_PRICE_SATS),
    prices:
      typeof price === 'object'
        ? {
            by: price.by,
            of: Object.fromEntries(Object.entries(price.of).map(([value, amount]) => [value, inMsat(amount)])),
            else: price.else === 'refuse' ? price.else : inMsat(price.else)
          }
        : inMsat(price),
    per: 1,
    usage: 'pieces',
    estimate: { else: 1 }
  }
}
