import { definePlugin, Type } from '../src/index.ts'

/** Ends a chain: forwards to the target of an earlier plugin (a merchant's proxy), else to the route's upstream. */
export default definePlugin({
  name: 'forward',
  description: 'Sends the request to the upstream of its route and streams the response back. Comes last in a chain.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['forwarder'],
  terminal: true,
  async setup(_config, scope) {
    const { forwarder } = scope.services
    const upstream = scope.route.config?.upstream
    if (upstream?.kind === 'internal')
      throw new Error(
        `route ${scope.route.name}: forward needs an upstream with a url or a proxy; ${upstream.name} is inside the gateway`
      )
    const own = upstream?.kind === 'url' ? await forwarder.open(upstream, scope.route.name) : null
    return {
      handle(ctx, responder) {
        const target = ctx.upstreamTarget
        if (target !== null) return forwarder.forward(ctx, responder, target)
        if (own === null)
          throw new Error(`route ${scope.route.name}: no plugin before forward has said where the request goes`)
        return forwarder.forwardTo(ctx, responder, own)
      },
      close() {
        own?.release()
      }
    }
  }
})
