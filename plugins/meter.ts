import { definePlugin, Type, type Context, type HookResult, type Metered, type Reply } from '../src/index.ts'

/**
 * Bills metered requests to a prepaid balance: reserves before forwarding, reads usage while streaming, and settles at
 * the end. A no-op on other routes.
 */
export default definePlugin({
  name: 'meter',
  description:
    'Takes what a request used from the balance that its credential is the key to, on routes and proxies that are metered. Answers 402 with a fresh challenge where the balance is used up.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['balances'],
  needs: ['challenge'],
  provides: ['metering'],
  after: ['credential', 'challenge'],
  setup(_config, { services, route, slot }) {
    if (route.config === null) throw new TypeError('the plugin meter needs a route of the configuration')
    const { keys, meter, upstream } = route.config
    if (meter === undefined && !keys && upstream.kind !== 'proxy') return {}
    const { balances } = services
    const metered = slot<Metered>('metered')

    const taken = (ctx: Context, begun: Metered | Reply | null): void | Reply => {
      if (begun === null) return
      if ('status' in begun) return begun
      ctx.set(metered, begun)
    }

    return {
      request(ctx): HookResult {
        const begun = balances.begin(ctx)
        if (!(begun instanceof Promise)) return taken(ctx, begun)
        return begun.then(
          later => taken(ctx, later),
          (error: unknown) => balances.refusalOf(ctx, error)
        )
      },
      // Observed requests use no balance.
      observe() {},
      upstream(ctx, out) {
        ctx.get(metered)?.forwarding(out)
      },
      response(ctx, head) {
        return ctx.get(metered)?.head(head)
      },
      chunk(ctx, bytes) {
        return ctx.get(metered)?.chunk(bytes)
      },
      last(ctx) {
        return ctx.get(metered)?.last() ?? null
      },
      done(ctx, outcome) {
        ctx.get(metered)?.done(outcome)
      }
    }
  }
})
