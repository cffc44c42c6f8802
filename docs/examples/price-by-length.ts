import { definePlugin, Type } from 'boltgate'

/** Sells by what is sent: so many satoshis for each KiB of the body. */
export default definePlugin({
  name: 'price-by-length',
  description: 'Prices a request by the length of its body. Put it before credential.',
  config: Type.Object(
    { perKiB: Type.Integer({ default: 1, minimum: 1, maximum: 1000, description: 'Satoshis for each KiB begun.' }) },
    { additionalProperties: false }
  ),
  uses: ['challenges'],
  // body-limit must come before, or a body without a length is collected without a limit.
  needs: ['body-limit'],
  setup({ perKiB }, { services, route }) {
    if (route.config === null) throw new TypeError('price-by-length needs a route of the file')
    const offers = services.challenges.routeOffers(route.config)
    return {
      async request(ctx) {
        const length = ctx.body.length ?? (await ctx.body.bytes()).byteLength
        // All else, what a token is good for and how long, stays as the route says.
        ctx.offer = offers.at(ctx, Math.max(1, Math.ceil(length / 1024)) * perKiB)
      }
    }
  }
})
