import {
  definePlugin,
  keepPrivate,
  Type,
  UNPAID,
  type Context,
  type Head,
  type HookResult,
  type LimitVerdict,
  type RequestOffer
} from '../src/index.ts'

/** Answers unpaid priced requests with a 402 and a new invoice. */
export default definePlugin({
  name: 'challenge',
  description:
    'Answers unpaid requests for what has a price with 402 and a Lightning invoice, for L402 and the Payment scheme.',
  config: Type.Object(
    {
      html: Type.Boolean({
        default: true,
        description:
          'People get a page: to a GET whose Accept prefers text/html, as browsers send it, the 402 has the same challenge lines and a page with the invoice, which shows what was bought once it is paid. Everybody else gets JSON.'
      })
    },
    { additionalProperties: false }
  ),
  uses: ['challenges'],
  // Without it a paid request would get a 402 forever.
  needs: ['payment'],
  provides: ['challenge'],
  // Rate limits of anonymous invoices apply first (contract, Limits), and no body is refused after payment.
  after: ['api-key', 'throttle', 'body-limit'],
  setup({ html }, { services, route, slot }) {
    if (route.config === null) throw new TypeError('the plugin challenge needs a route of the configuration')
    const { challenges } = services
    const offers = challenges.routeOffers(route.config)
    const free = challenges.freeCalls(route.config)
    const freeSlot = slot<LimitVerdict>('free call')

    const unlessFree = (ctx: Context, offer: RequestOffer, observes: boolean, answer: () => HookResult): HookResult => {
      if (free === null) return answer()
      const given = (call: LimitVerdict | null): HookResult => {
        if (call !== null) ctx.set(freeSlot, call)
        if (call?.allowed !== true) return answer()
        ctx.offer = { ...offer, amountSats: 0, fiat: null, meter: null }
      }
      const call = free.take(ctx, offer, observes)
      return call instanceof Promise ? call.then(given) : given(call)
    }

    const models = challenges.soldModels(route.config)
    /** No invoice for a model that is not sold. */
    const ifSold = (ctx: Context, answer: () => HookResult): HookResult => {
      const sold = models?.requireKnown(ctx)
      return sold instanceof Promise ? sold.then(answer) : answer()
    }

    const ask = (ctx: Context, answer: (offer: RequestOffer) => HookResult): HookResult => {
      if (ctx.payment !== null) return
      const due = offers.due(ctx)
      if (due instanceof Promise) return due.then(offer => (offer === null ? undefined : answer(offer)))
      if (due !== null) return answer(due)
    }
    const request = (ctx: Context): HookResult =>
      ask(ctx, offer =>
        unlessFree(ctx, offer, false, () => ifSold(ctx, () => challenges.answer(ctx, offer, UNPAID, html)))
      )
    return {
      request: models === null ? request : ctx => models.list(ctx) ?? request(ctx),
      observe: ctx => ask(ctx, offer => unlessFree(ctx, offer, true, () => challenges.observe(offer, UNPAID))),
      ...(free === null && route.config.audience === undefined
        ? {}
        : {
            response(ctx: Context, head: Head): void {
              const call = ctx.get(freeSlot)
              if (call !== undefined) free?.tell(call, head.headers)
              // Free for its audience alone: a shared cache would serve it to others.
              else if (ctx.offer?.amountSats === 0 && head.source !== 'error') keepPrivate(head.headers)
            }
          })
    }
  }
})
