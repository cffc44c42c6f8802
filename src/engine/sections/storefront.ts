import { Type } from 'typebox'
import { described } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

export const StorefrontSchema = Type.Object(
  {
    kind: Type.Union([Type.Literal('shopify'), Type.Literal('sandbox')], {
      default: 'shopify',
      description:
        "The platform of the merchants' stores. The sandbox has a small catalog of its own and is refused in production."
    }),
    url: Type.Optional(
      Type.String({
        'x-format': 'upstream-url',
        description:
          "Address that every store's calls go to in the place of its own domain, for tests; https in production, unless it is this machine."
      })
    ),
    apiVersion: Type.String({
      default: '2026-10',
      pattern: '^[0-9]{4}-[0-9]{2}$',
      'x-allowed': 'a version such as 2026-10',
      description: "Version of the platform's API."
    }),
    timeout: Duration({
      default: '10s',
      minimum: '1ms',
      maximum: '1m',
      description: 'How long one call to the platform may take.'
    }),
    catalogTtl: Duration({
      default: '5m',
      minimum: '1s',
      maximum: '1d',
      description: 'How long a catalog is served before the platform is asked again.'
    }),
    invoiceExpiry: Duration({
      default: '10m',
      minimum: '1m',
      maximum: '1h',
      description: 'How long the invoice of a checkout can be paid.'
    })
  },
  described('Stores that sell for Lightning.')
)
