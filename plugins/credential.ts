import {
  definePlugin,
  Type,
  type Context,
  type CredentialVerdict,
  type Paid,
  type RequestOffer,
  type HookResult
} from '../src/index.ts'

/**
 * Verifies the payment credential of a request. Sets `ctx.payment` or answers with the refusal. Requests without one
 * continue to `challenge`. On the way back, a single-use credential is spent after delivery, else released.
 */
export default definePlugin({
  name: 'credential',
  description:
    'Verifies L402 and Payment credentials. Sets the payment on good ones, refuses bad ones, and spends or releases single-use ones with the response.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['challenges'],
  provides: ['offer', 'payment'],
  // Failed credentials get a new challenge, which must be rate limited (decision 132).
  after: ['api-key', 'throttle', 'body-limit', 'session'],
  setup(_config, { services, route, slot }) {
    if (route.config === null) throw new TypeError('the plugin credential needs a route of the configuration')
    const { challenges } = services
    const offers = challenges.routeOffers(route.config)
    const paidSlot = slot<Paid>('paid')

    const judge = (ctx: Context, offer: RequestOffer, verdict: CredentialVerdict, observes: boolean): HookResult => {
      if (verdict.kind === 'none') return observes ? undefined : shown(ctx, offer)
      if (verdict.kind !== 'paid')
        return observes ? challenges.observe(offer, verdict) : challenges.answer(ctx, offer, verdict)
      ctx.payment = verdict.payment
      ctx.set(paidSlot, verdict)
    }

    /** Browsers send the pass of a page that they paid on. */
    const shown = (ctx: Context, offer: RequestOffer): HookResult =>
      challenges.pass(ctx, offer)?.then(later => {
        if (later === null || 'status' in later) return later ?? undefined
        ctx.payment = later.payment
        ctx.set(paidSlot, later)
        return undefined
      })

    const decide = (ctx: Context, observes: boolean): HookResult => {
      // Paid by a session.
      if (ctx.payment !== null) return
      const due = offers.due(ctx)
      if (due instanceof Promise)
        return due.then(offer => (offer === null ? undefined : decideOn(ctx, offer, observes)))
      if (due !== null) return decideOn(ctx, due, observes)
    }

    const decideOn = (ctx: Context, offer: RequestOffer, observes: boolean): HookResult => {
      if (!observes) challenges.requireSellable(ctx)
      const verdict = challenges.verify(ctx, offer)
      return 'then' in verdict
        ? verdict.then(later => judge(ctx, offer, later, observes))
        : judge(ctx, offer, verdict, observes)
    }

    return {
      request: ctx => decide(ctx, false),
      observe: ctx => decide(ctx, true),
      response(ctx, head) {
        const paid = ctx.get(paidSlot)
        if (paid !== undefined && ctx.offer !== null) return challenges.paidResponses.head(ctx, head, paid, ctx.offer)
      },
      done(ctx, outcome) {
        const lease = ctx.get(paidSlot)?.lease ?? null
        if (lease !== null && ctx.offer !== null) challenges.paidResponses.end(ctx, lease, ctx.offer, outcome)
      }
    }
  }
})
