import { Type } from 'typebox'
import { described, SecretText } from '../config/fields.ts'

export const BillingSchema = Type.Object(
  {
    kind: Type.Union([Type.Literal('none'), Type.Literal('stripe'), Type.Literal('sandbox')], {
      default: 'none',
      description:
        'Who bills the plans by card. `none` sells them for bitcoin only; the sandbox takes no money and is refused in production.'
    }),
    key: Type.Optional(
      SecretText({ minLength: 1, description: 'Secret key of the billing provider. Needed with stripe.' })
    ),
    webhookSecret: Type.Optional(
      SecretText({
        minLength: 1,
        description: 'Secret that signs what the billing provider reports to /api/webhooks/billing. Needed with stripe.'
      })
    ),
    prices: Type.Object(
      {
        individual: Type.Optional(
          Type.String({
            pattern: '^[\\x21-\\x7e]{1,200}$',
            description: 'Id of the monthly price of the plan individual. Needed with stripe.'
          })
        )
      },
      described('Prices at the billing provider.')
    ),
    url: Type.Optional(
      Type.String({
        'x-format': 'upstream-url',
        description:
          "Address of the billing provider's API, where it is not the public one; https in production, unless it is this machine."
      })
    ),
    trialDays: Type.Integer({
      default: 30,
      minimum: 0,
      maximum: 730,
      description: 'Days of trial of the plan individual; a card is asked for all the same. 0 sells without a trial.'
    })
  },
  described('How merchants pay for their plans.')
)
