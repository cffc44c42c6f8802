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
 * Reads and judges the payment credential of a request. What is good goes on with `ctx.payment` set; what is refused is
 * answered here. A request without a credential goes on unpaid, for `challenge` to answer. On the way back it ends the
 * single use of a modern credential: spent when what was sold is over, given back when it could not be delivered.
 */
export default definePlugin({
  name: 'credential',
  description:
    'Verifies L402 and Payment credentials. Sets the payment on good ones, refuses bad ones, and spends or releases single-use ones with the response.',
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['challenges'],
  provides: ['offer', 'payment'],
  // A failed credential gets a fresh challenge, which must not be mintable without limit (decision 132).
  after: ['throttle', 'body-limit', 'session'],
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

    /** A person's browser shows the pass of a page that it paid on. */
    const shown = (ctx: Context, offer: RequestOffer): HookResult =>
      challenges.pass(ctx, offer)?.then(later => {
        if (later === null || 'status' in later) return later ?? undefined
        ctx.payment = later.payment
        ctx.set(paidSlot, later)
        return undefined
      })

    const decide = (ctx: Context, observes: boolean): HookResult => {
      // A session pays.
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
        if (paid !== undefined && ctx.offer !== null)
          return challenges.paidResponses.head(head, paid, ctx.offer.releaseOn)
      },
      done(ctx, outcome) {
        const lease = ctx.get(paidSlot)?.lease ?? null
        if (lease !== null && ctx.offer !== null) challenges.paidResponses.end(lease, ctx.offer, outcome)
      }
    }
  }
})
