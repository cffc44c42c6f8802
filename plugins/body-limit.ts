import { definePlugin, PayloadTooLarge, Size, Type } from '../src/index.ts'

/** Caps request bodies (contract, Limits: Proxy), with and without Content-Length. */
export default definePlugin({
  name: 'body-limit',
  description:
    "Rejects request bodies above a size with 413: by Content-Length before the body is read, or as soon as one byte too many arrives. A route's own bodyLimit overrides the limit set here. Without this plugin bodies have no limit.",
  config: Type.Object(
    {
      limit: Size({ default: '1MiB', description: 'Largest request body.' })
    },
    { additionalProperties: false, description: 'How much may be sent.' }
  ),
  provides: ['body-limit'],
  setup(config, { route }) {
    const limit = route.config?.bodyLimit ?? config.limit
    return {
      request(ctx) {
        const { body } = ctx
        // The smallest limit in a chain applies.
        if (limit < body.limit) body.limit = limit
        if (body.length !== null && body.length > limit) throw new PayloadTooLarge(limit)
      }
    }
  }
})
