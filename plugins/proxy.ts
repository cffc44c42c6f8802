import { definePlugin, prefixSegments, Type } from '../src/index.ts'

/** An origin of its own for every page, with all that a page may want besides (CSP 3, 6.3.2). */
const SANDBOX =
  'sandbox allow-downloads allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-presentation allow-scripts allow-top-navigation-by-user-activation'

/** Whether a browser may make a page with programs of it: by its type, or by looking at it where that says nothing. */
function isDocument(contentType: string): boolean {
  return contentType.trim() === '' || /html|xml|mixed-replace|unknown|\*\/\*/i.test(contentType)
}

/**
 * Resolves a merchant's proxy: who it belongs to, what the request would cost, where it would go. Routes whose upstream
 * is `{ proxy: ":proxyId" }` need it before `credential`.
 */
export default definePlugin({
  name: 'proxy',
  description:
    "Looks the merchant's proxy up, refuses what it does not serve before any charge, and says what the request costs and where it goes. Its pages get `Content-Security-Policy: sandbox`, so that they are no part of this gateway's origin.",
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
      // What a merchant serves is of the same origin as the console: its programs must not act as whoever is signed in.
      response(_ctx, head) {
        if (head.source === 'upstream' && isDocument(head.headers.all('content-type').join(',')))
          head.headers.append('Content-Security-Policy', SANDBOX)
      },
      request: ctx => proxies.admit(ctx, ctx.params[param] ?? '', terms)
    }
  }
})
