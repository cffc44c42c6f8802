import {
  definePlugin,
  SessionSale,
  Type,
  type Context,
  type HookResult,
  type Reply,
  type SessionSale as Served
} from '../src/index.ts'

/**
 * Handles prepaid session credentials on routes with `sessions`: opens, tops up and closes sessions, and pays for
 * requests. A no-op otherwise.
 */
export default definePlugin({
  name: 'session',
  description:
    'Serves prepaid sessions of the Payment scheme on routes with `sessions`. A deposit opens a session, and requests deduct from it. A stream that used it up waits for another deposit. The remainder is refunded when the session closes.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['prepaidSessions', 'challenges'],
  provides: ['session'],
  // Refused credentials get new invoices.
  after: ['throttle', 'body-limit'],
  setup(_config, { services, route, slot }) {
    if (route.config === null) throw new TypeError('the plugin session needs a route of the configuration')
    if (route.config.sessions === undefined) return {}
    const { prepaidSessions: sessions, challenges } = services
    const offers = challenges.routeOffers(route.config)
    const served = slot<Served>('session')

    const begun = (ctx: Context, what: Served | Reply | null): void | Reply => {
      if (what === null) return
      if (!(what instanceof SessionSale)) return what
      ctx.set(served, what)
    }

    return {
      request(ctx): HookResult {
        const asked = sessions.begin(ctx, offers)
        return asked === null ? undefined : asked.then(what => begun(ctx, what))
      },
      observe() {},
      upstream(ctx, out) {
        ctx.get(served)?.forwarding(out)
      },
      response(ctx, head) {
        return ctx.get(served)?.head(head)
      },
      chunk(ctx, bytes) {
        return ctx.get(served)?.chunk(bytes)
      },
      last(ctx) {
        return ctx.get(served)?.last() ?? null
      },
      done(ctx, outcome) {
        ctx.get(served)?.done(outcome)
      }
    }
  }
})
