import {
  asGatewayError,
  ConfigurationMissing,
  definePlugin,
  isCrossSite,
  LongError,
  principalOfKey,
  Type,
  keyAdmin,
  type Context,
  type Hooks,
  type Principal,
  type Reply,
  KEY_INVALID,
  NOT_SIGNED_IN
} from '../src/index.ts'

const keyMissing = (): LongError =>
  new LongError(KEY_INVALID, 'API key required', 'Send the API key in the header X-API-Key.')

// One text for every reason: wrong, replaced or deactivated key, or another role (decisions 25 and 29).
const keyInvalid = (): LongError =>
  new LongError(KEY_INVALID, 'Invalid API key', 'The API key in the header X-API-Key is not valid.')

// Pages do not ask for a key: decision 26.
const sessionMissing = (headers: readonly string[]): LongError =>
  new LongError(
    NOT_SIGNED_IN,
    'Authentication required',
    'There is no session here, or it has ended. Sign in at /sign-in, or send an API key in X-API-Key.',
    {},
    [...headers, 'Cache-Control', 'no-store']
  )

/** Redirects to the sign-in page and back, whatever path prefix is in front; htmx requests get headers. */
function toSignIn(ctx: Context, headers: readonly string[]): Reply {
  const where = `${'../'.repeat(ctx.path.split('/').length - 2) || './'}sign-in`
  const all = [...headers, 'Cache-Control', 'no-store']
  // htmx requests a fragment.
  if (ctx.headers.get('hx-request') !== undefined)
    return { status: 401, headers: ['HX-Redirect', where, ...all], body: null }
  const query = ctx.method === 'GET' && ctx.query !== '' ? `?${ctx.query}` : ''
  const next = encodeURIComponent(`${ctx.path.slice(1)}${query}`)
  return { status: 303, headers: ['Location', `${where}?next=${next}`, ...all], body: null }
}

/** The key verbatim; null without one. Two header lines are no key. */
function presentedKey(ctx: Context): string | null {
  const values = ctx.headers.all('x-api-key')
  const key = values.length > 1 ? values.join(', ') : values[0]
  return key === undefined || key.trim() === '' ? null : key
}

/** Authenticates by X-API-Key (contract, Authentication) or session (decision 322). */
export default definePlugin({
  name: 'auth',
  description:
    "Requires an API key in X-API-Key, a merchant's or the admin key, and sets the principal. A missing or invalid key is 401; a deactivated account's key is indistinguishable from an invalid one. More than 20 failures from one client address (IPv6 by /64) within 60 seconds block it: its requests that need a key are 429 until the window ends. Requests without a key that a browser sends for a page of another site do not count. While the shared state is unavailable each process counts failures separately. A read-only key is 403 for every method but GET. Keys are looked up in the database for every request; when it is unavailable the response is 503, never 401. The key is not forwarded to the upstream. Without a key, the session of a signed-in member or operator is used instead. Its changes must come from a page of this gateway; otherwise the response is 403.",
  config: Type.Object(
    {
      as: Type.Union([Type.Literal('merchant'), Type.Literal('admin'), Type.Literal('any')], {
        description: 'Whose key is required; `any` takes either, and no session.'
      }),
      optional: Type.Boolean({
        default: false,
        description: 'Let requests without a key pass, without a principal. A wrong key is still refused.'
      }),
      page: Type.Boolean({
        default: false,
        description: 'For pages: take sessions only, and redirect visitors who are not signed in to the sign-in page.'
      }),
      forwardKey: Type.Boolean({
        default: false,
        description:
          "Send X-API-Key on to an upstream of your own. Only where that upstream is to act with the caller's key here."
      })
    },
    { additionalProperties: false, description: 'Who must be calling.' }
  ),
  uses: ['merchants', 'adminKey', 'authThrottle', 'sessions'],
  provides: ['principal'],
  setup(config, { services }) {
    const { merchants, adminKey, authThrottle, sessions } = services

    const find = async (key: string): Promise<Principal | null> => {
      if (config.as !== 'merchant' && adminKey.matches(key)) return keyAdmin
      if (config.as === 'admin') return null
      const holder = await merchants.holderOf(key)
      return holder === null
        ? null
        : principalOfKey(holder.merchant, holder.keyId, holder.isReadOnly ? 'viewer' : 'owner')
    }

    const fail = async (ctx: Context, verdict: LongError): Promise<never> => {
      await authThrottle.failed(ctx)
      throw verdict
    }

    const authenticate = async (ctx: Context, key: string | null): Promise<void> => {
      await authThrottle.admit(ctx)
      if (config.as === 'admin' && !adminKey.configured) throw new ConfigurationMissing('the admin key')
      // A cross-site page must not get its visitor's address blocked. Without a key there is nothing to guess.
      if (key === null) return isCrossSite(ctx) ? Promise.reject(keyMissing()) : fail(ctx, keyMissing())
      const principal = await find(key)
      if (principal === null) return fail(ctx, keyInvalid())
      ctx.principal = principal
    }

    const other = config.as === 'admin' ? 'merchant' : 'admin'

    /** The session's principal; 'other' for a valid session of another role, which is kept. Counts forged ones. */
    const findSession = async (ctx: Context): Promise<Principal | 'other' | null> => {
      if (sessions.tokenOf(ctx) === null) return null
      await authThrottle.admit(ctx)
      const principal = config.as === 'any' ? null : await sessions.principal(ctx, config.as)
      if (principal !== null || config.optional) return principal
      if ((await sessions.principal(ctx, other)) !== null) return 'other'
      await authThrottle.failed(ctx)
      return null
    }

    const bySession = async (ctx: Context): Promise<void | Reply> => {
      const principal = await findSession(ctx)
      if (principal !== null && principal !== 'other') {
        ctx.principal = principal
        return
      }
      if (config.optional) return
      const isSent = sessions.tokenOf(ctx) !== null
      const headers = isSent && principal === null ? ['Set-Cookie', sessions.goneCookie] : []
      if (config.page) return toSignIn(ctx, headers)
      if (isSent || ctx.headers.get('sec-fetch-site') === 'same-origin') throw sessionMissing(headers)
      return authenticate(ctx, null)
    }

    const toPage = async (ctx: Context): Promise<void | Reply> => {
      try {
        return await bySession(ctx)
      } catch (error) {
        if (asGatewayError(error).status === 503) return sessions.awayPage(ctx)
        throw error
      }
    }

    const hooks: Hooks = {
      ...(config.optional || config.as === 'any' ? {} : { establishes: config.as }),
      request(ctx) {
        // The page's chain has authenticated the in-process caller.
        if (ctx.internal && ctx.principal?.kind === config.as) return
        const key = config.page ? null : presentedKey(ctx)
        if (key !== null) return authenticate(ctx, key)
        if (config.optional && sessions.tokenOf(ctx) === null) return
        return config.page ? toPage(ctx) : bySession(ctx)
      }
    }
    // This key is the gateway's own and must not reach upstreams.
    if (!config.forwardKey)
      hooks.upstream = (_ctx, out) => {
        out.headers.delete('x-api-key')
      }
    return hooks
  }
})
