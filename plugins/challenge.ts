import { definePlugin, Type, UNPAID, type Context, type RequestOffer, type HookResult } from '../src/index.ts'

/**
 * Asks for payment: whatever has a price and has not been paid ends here with a 402 and a fresh invoice.
 */
export default definePlugin({
  name: 'challenge',
  description:
    'Answers unpaid requests for what has a price with 402 and a Lightning invoice, for L402 and the Payment scheme.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['challenges'],
  // Whoever paid must be let through by what stands before, or would be asked again for ever.
  needs: ['payment'],
  provides: ['challenge'],
  // Anonymous requests make invoices here (contract, Limits), bound to bodies that a limit behind would refuse after
  // payment.
  after: ['throttle', 'body-limit'],
  setup(_config, { services, route }) {
    if (route.config === null) throw new TypeError('the plugin challenge needs a route of the configuration')
    const { challenges } = services
    const offers = challenges.routeOffers(route.config)
    const unpaid = (ctx: Context): RequestOffer | null => (ctx.payment === null ? offers.due(ctx) : null)
    return {
      request(ctx): HookResult {
        const offer = unpaid(ctx)
        if (offer !== null) return challenges.answer(ctx, offer, UNPAID)
      },
      observe(ctx): HookResult {
        const offer = unpaid(ctx)
        if (offer !== null) return challenges.observe(offer, UNPAID)
      }
    }
  }
})
