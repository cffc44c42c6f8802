import { Type } from 'typebox'
import { described } from '../config/fields.ts'

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
    )
  },
  described('Stores that sell for Lightning.')
)
