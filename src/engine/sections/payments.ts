import { Type } from 'typebox'
import { described } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

export const PaymentsSchema = Type.Object(
  {
    expiry: Type.Object(
      {
        primary: Duration({
          default: '1h',
          minimum: '1m',
          maximum: '1d',
          description: 'How long an invoice of the primary provider can be paid.'
        }),
        alternate: Duration({
          default: '1d',
          minimum: '10m',
          maximum: '3d',
          description: 'The same for the alternate provider, which may keep to times of its own.'
        })
      },
      described('How long a payment can be paid, by provider.')
    )
  },
  described('Payments that merchants create over /api/payments.')
)
