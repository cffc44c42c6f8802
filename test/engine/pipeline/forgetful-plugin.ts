import { definePlugin, Type, type RequestOffer } from '../../../src/index.ts'

/**
 * Says that it asks for payment and takes it, and does neither: `?do=` makes it say what a request costs, or that it
 * was paid.
 */
export default definePlugin({
  name: 'forgetful',
  config: Type.Object({}, { additionalProperties: false }),
  provides: ['payment', 'challenge'],
  after: ['throttle'],
  setup: () => ({
    request(ctx) {
      // An offer of which nothing but the price is looked at.
      const offer = (amountSats: number) => ({ amountSats }) as RequestOffer
      if (ctx.query === 'do=free') ctx.offer = offer(0)
      if (ctx.query === 'do=price') ctx.offer = offer(5)
      if (ctx.query === 'do=paid') ctx.payment = { scheme: 'l402', paymentHash: 'ab'.repeat(32), amountSats: 5 }
    }
  })
})
