import { CallPricesSchema, definePlugin, endRpc, RpcSale, type RpcUnderWay } from '../src/index.ts'

/** Sells calls inside JSON-RPC messages and forwards the rest. Replaces `credential`, `challenge` and `forward`. */
export default definePlugin({
  name: 'mcp',
  description:
    'Prices tools, resources and prompts of an MCP server, or the methods of any JSON-RPC server, by name. Asks for payment inside the messages, takes credentials there and in headers, puts receipts into results, and passes what is free as it came. Comes last in a chain, after `throttle` and `body-limit`, instead of `credential` and `challenge`.',
  config: CallPricesSchema,
  uses: ['challenges', 'forwarder', 'clock'],
  // Whole messages are read before payment, and invoices are made.
  needs: ['body-limit'],
  provides: ['offer', 'payment', 'challenge'],
  after: ['throttle', 'body-limit'],
  terminal: true,
  async setup(prices, { services, route, slot }) {
    const { challenges, forwarder, clock } = services
    const upstream = route.config?.upstream
    if (route.config === null || upstream?.kind !== 'url')
      throw new TypeError('the plugin mcp needs a route with an upstream that has a url')
    const inFlight = slot<RpcUnderWay>('calls in flight')
    const own = await forwarder.open(upstream, route.name)
    try {
      const sale = new RpcSale({
        challenges,
        clock,
        route: route.config,
        prices,
        forward: (ctx, responder, body) => forwarder.forwardTo(ctx, responder, own, body)
      })
      return {
        handle(ctx, responder) {
          challenges.requireSellable(ctx)
          return sale.handle(ctx, responder, begun => {
            ctx.set(inFlight, begun)
          })
        },
        done(ctx, outcome) {
          const begun = ctx.get(inFlight)
          if (begun !== undefined) endRpc(ctx, begun, outcome)
        },
        close() {
          own.release()
        }
      }
    } catch (error) {
      own.release()
      throw error
    }
  }
})
