import { Type } from 'typebox'
import { described } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

/** Satoshis, where a route with a challenge names no price. */
export const DEFAULT_PRICE = 10

export const PaymentSchema = Type.Object(
  {
    schemes: Type.Array(Type.Union([Type.Literal('l402'), Type.Literal('payment'), Type.Literal('x402')]), {
      default: ['l402', 'payment'],
      minItems: 1,
      uniqueItems: true,
      description: 'Schemes offered in a 402 response. `x402` is offered beside another, for the same invoice.'
    }),
    order: Type.Union([Type.Literal('auto'), Type.Literal('l402-first'), Type.Literal('payment-first')], {
      default: 'auto',
      description:
        'Order of the two challenge lines. `auto` puts L402 first, and Payment first when Accept-Payment names lightning.'
    }),
    serviceName: Type.String({
      default: 'boltgate',
      pattern: '^[A-Za-z0-9._-]{1,64}$',
      description: "Name in the services caveat of the operator's own routes."
    }),
    l402Lsat: Type.Boolean({
      default: false,
      description: 'Also send a challenge line with the old scheme name LSAT.'
    }),
    tokenValidity: Duration({ default: '1h', minimum: '1s', description: 'How long a paid token is accepted.' }),
    invoiceExpiry: Duration({
      default: '10m',
      minimum: '1m',
      maximum: '1d',
      description: 'How long an invoice can be paid.'
    }),
    maxOutstanding: Type.Object(
      {
        address: Type.Integer({
          default: 10,
          minimum: 1,
          maximum: 10000,
          description:
            'Unpaid invoices that one client address may hold for the same request before the newest is handed out again. It may hold four times as many for one route, proxy or store, whatever its requests ask for; above that, its newest unpaid invoice of the same price is handed out for other requests of a route or proxy too, with an L402 token for each; without one the response is 429, for this address alone.'
        })
      },
      described('Caps on the unpaid invoices of one client address (IPv6 by /64).')
    ),
    leaseTimeout: Duration({
      default: '30s',
      minimum: '1s',
      maximum: '10m',
      description:
        'After this time the lease of a gateway that died comes back; after twice as long its slices of balances.'
    })
  },
  described('How payments are asked for and checked.')
)

const SOURCES = ['coinbase', 'coinbase-exchange', 'kraken', 'coingecko']

export const PricesSchema = Type.Object(
  {
    urls: Type.Record(
      Type.String({ pattern: `^(${SOURCES.join('|')})$` }),
      Type.String({ 'x-format': 'upstream-url' }),
      {
        default: {},
        description:
          'Addresses by source, where they are not the public ones: mirrors, and fakes for tests; https in production, unless it is this machine.'
      }
    )
  },
  described(
    'What a bitcoin costs, for amounts in USD, EUR and GBP: the median of at least two answers of Coinbase, its exchange, Kraken and CoinGecko. With the sandbox on both sides the prices are fixed and no source is called.'
  )
)
