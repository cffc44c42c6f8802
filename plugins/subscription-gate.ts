import { definePlugin, merchantOf, Type, type GateError } from '../src/index.ts'

function refuse(refusal: GateError | null): void {
  if (refusal !== null) throw refusal
}

/**
 * Refuses merchants whose account, subscription or features do not cover the request (contract, Errors: 403; decisions
 * 82 to 86).
 */
export default definePlugin({
  name: 'subscription-gate',
  description:
    'Answers 403 if the merchant is inactive, its paid plan has no active or trialing subscription, its paid period has ended, or its plan lacks the feature. They are checked in this order. The free plan needs no subscription. Put it after auth as merchant.',
  config: Type.Object(
    {
      feature: Type.Optional(
        Type.Union([Type.Literal('refunds'), Type.Literal('multi_currency'), Type.Literal('l402')], {
          description: 'Flag of the account that must be on. None when left out.'
        })
      )
    },
    { additionalProperties: false, description: 'What the account must be allowed to do.' }
  ),
  uses: ['subscriptionGate'],
  needs: ['principal'],
  setup(config, { services }) {
    const { subscriptionGate } = services
    const feature = config.feature ?? null
    return {
      request(ctx) {
        const refusal = subscriptionGate.refusal(merchantOf(ctx), feature, ctx.now)
        if (refusal instanceof Promise) return refusal.then(refuse)
        refuse(refusal)
      }
    }
  }
})
