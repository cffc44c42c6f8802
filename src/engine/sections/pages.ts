import { Type } from 'typebox'
import { described } from '../config/fields.ts'

export const PagesSchema = Type.Object(
  {
    home: Type.Union([Type.Boolean(), Type.String({ 'x-format': 'http-url' })], {
      default: true,
      'x-allowed': 'true, false, or an address such as https://example.com',
      description:
        'The page at `/`, which tells what is sold here: false for none, or an address that it leads to. A route of the file that takes `/` goes before it.'
    }),
    signUp: Type.Boolean({
      default: false,
      description:
        'Whether anybody can open a free account at `/sign-up`, three from an address in 15 minutes. Needs `merchant-api` and `pages` in `use`, and mail.'
    }),
    name: Type.String({
      default: '',
      maxLength: 200,
      description: 'Who sells, on the pages for people. `payment.serviceName` when empty.'
    }),
    colour: Type.String({
      default: '',
      pattern: '^$|^#[0-9a-fA-F]{6}$',
      'x-allowed': 'a colour such as #c2410c',
      description:
        "Colour of the pages for people on which the gateway's own routes are paid, made darker or lighter until it can be read. Green when empty."
    })
  },
  described('Pages for people.')
)

export const DiscoverySchema = Type.Object(
  {
    categories: Type.Array(
      Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,31}$', 'x-allowed': 'a word such as data or ai' }),
      {
        default: ['api'],
        maxItems: 10,
        description: 'What registries sort this service by.'
      }
    )
  },
  described('What agents and registries are told of this gateway.')
)
