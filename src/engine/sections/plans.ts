import { Type } from 'typebox'
import { described } from '../config/fields.ts'

const paidCaps = {
  endpoints: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Most distinct endpoints. Unlimited when left out.' })
  ),
  challengesPerMonth: Type.Optional(
    Type.Integer({ minimum: 0, description: 'Most challenges in a UTC month. Unlimited when left out.' })
  ),
  maxPriceSats: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Highest price of one challenge, in satoshis. Unlimited when left out.'
    })
  ),
  webhookEndpoints: Type.Integer({ minimum: 0, default: 5, description: 'Most webhook endpoints.' })
}

export const PlansSchema = Type.Object(
  {
    free: Type.Object(
      {
        endpoints: Type.Integer({ minimum: 0, default: 3, description: 'Most distinct endpoints.' }),
        challengesPerMonth: Type.Integer({ minimum: 0, default: 200, description: 'Most challenges in a UTC month.' }),
        maxPriceSats: Type.Integer({
          minimum: 0,
          default: 1000,
          description: 'Highest price of one challenge, in satoshis.'
        }),
        webhookEndpoints: Type.Integer({ minimum: 0, default: 1, description: 'Most webhook endpoints.' })
      },
      described('Caps of the plan free.')
    ),
    individual: Type.Object(paidCaps, described('Caps of the plan individual.')),
    l402: Type.Object(paidCaps, described('Caps of the plan l402.'))
  },
  described('What each plan allows.')
)
