import { definePlugin, prefixSegments, Type } from '../src/index.ts'

/**
 * Resolves a merchant's proxy: its owner, price and target. Required before `credential` on routes with `{ proxy:
 * ":proxyId" }`.
 */
export default definePlugin({
  name: 'proxy',
  description:
    "Looks the merchant's proxy up, refuses what it does not serve before any charge, and says what the request costs and where it goes. Its responses get `Content-Security-Policy: sandbox`, so that its pages have an origin of their own, and its cookies are kept to the proxy.",
  config: Type.Object({}, { additionalProperties: false }),
  uses: ['proxies'],
  provides: ['offer', 'target'],
  after: ['throttle'],
  setup(_config, { services, route }) {
    const upstream = route.config?.upstream
    if (route.config === null || upstream?.kind !== 'proxy')
      throw new TypeError('the plugin proxy needs a route with upstream: { proxy: ":proxyId" }')
    const { param } = upstream
    const counts = new Set(route.config.match.path.map(path => prefixSegments(path, param)))
    const [segments] = counts
    if (segments === undefined || counts.size !== 1)
      throw new TypeError('all paths of a proxy route must have as many segments before the rest')
    const { proxies } = services
    const { renewal, order = null, releaseOn, afterCrash } = route.config
    const terms = { prefixSegments: segments, renewal, order, releaseOn, afterCrash }
    return {
      request: ctx => proxies.admit(ctx, ctx.params[param] ?? '', terms)
    }
  }
})
