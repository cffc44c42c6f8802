import { Type } from 'typebox'
import { described, SecretText } from '../config/fields.ts'

const source = (name: string) =>
  Type.Optional(
    Type.String({
      'x-format': 'upstream-url',
      description: `Address of ${name}'s API, where it is not the public one; https in production, unless it is this machine.`
    })
  )
export const PricesSchema = Type.Object(
  {
    sources: Type.Array(Type.Enum(['coinbase', 'coinbase-exchange', 'kraken', 'coingecko']), {
      default: ['coinbase', 'coinbase-exchange', 'kraken', 'coingecko'],
      minItems: 2,
      uniqueItems: true,
      description: 'Who is asked what a bitcoin costs. The price is the median of at least two answers.'
    }),
    urls: Type.Object(
      {
        coinbase: source('Coinbase'),
        'coinbase-exchange': source('Coinbase Exchange'),
        kraken: source('Kraken'),
        coingecko: source('CoinGecko')
      },
      described('Addresses of the sources, for mirrors and for tests.')
    ),
    coingeckoKey: Type.Optional(
      SecretText({
        pattern: '^[\\x21-\\x7e]+$',
        'x-allowed': 'printable ASCII without spaces',
        description: 'A demo key of CoinGecko, which allows more calls than none.'
      })
    )
  },
  described(
    'What a bitcoin costs, for amounts in USD, EUR and GBP. With the sandbox on both sides the prices are fixed and nobody is asked.'
  )
)
