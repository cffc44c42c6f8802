import {
  ConfigurationMissing,
  definePlugin,
  isCrossSite,
  LongError,
  Type,
  keyAdmin,
  type Context,
  type Reply,
  type UpstreamRequest,
  FORBIDDEN,
  KEY_INVALID
} from '../src/index.ts'

const COOKIE = 'boltgate_jobs'
/** Milliseconds of a browser session. */
const SESSION = 12 * 60 * 60 * 1000
/** Audit log name of a sign-in by query parameter. */
const SIGN_IN = 'signInToJobs'

const keyMissing = (): LongError =>
  new LongError(
    KEY_INVALID,
    'API key required',
    'Send the admin key in the header X-Admin-Key, or open /jobs?adminKey= with it.'
  )
const keyInvalid = (): LongError => new LongError(KEY_INVALID, 'Invalid API key', 'The admin key is not valid.')
const otherSite = (): LongError =>
  new LongError(FORBIDDEN, 'Forbidden', 'Only a form of the dashboard itself may ask for this.')

/** Credential of the caller; `how` decides on further checks. */
type Shown =
  | { readonly how: 'header' | 'query'; readonly key: string }
  | { readonly how: 'cookie'; readonly value: string }

// Matched undecoded, since the log redacts this exact name.
const QUERY_KEY = /(?:^|&)adminKey=([^&]*)/g

/** The first presented credential; null without one. Two header lines are no key. */
function shownBy(ctx: Context): Shown | null {
  const lines = ctx.headers.all('x-admin-key')
  if (lines.length > 0) return { how: 'header', key: lines.join(', ') }
  const asked = [...ctx.query.matchAll(QUERY_KEY)].map(([, value = '']) => decoded(value))
  if (asked.length > 0) return { how: 'query', key: asked.join(', ') }
  const value = new RegExp(`(?:^|;) *${COOKIE}=([^;]*)`).exec(ctx.headers.get('cookie') ?? '')?.[1]
  return value === undefined ? null : { how: 'cookie', value: value.trim() }
}

function withoutKey(query: string): string {
  return query.replace(QUERY_KEY, '').replace(/^&/, '')
}

function keepBack(out: UpstreamRequest): void {
  out.headers.delete('x-admin-key')
  const at = out.path.indexOf('?')
  const query = at < 0 ? '' : out.path.slice(at + 1)
  const rest = withoutKey(query)
  if (rest !== query) out.path = rest === '' ? out.path.slice(0, at) : `${out.path.slice(0, at)}?${rest}`
  const cookies = out.headers
    .all('cookie')
    .join(';')
    .split(';')
    .map(cookie => cookie.trim())
  const others = cookies.filter(cookie => !cookie.startsWith(`${COOKIE}=`))
  if (others.length === cookies.length) return
  if (others.length === 0) out.headers.delete('cookie')
  else out.headers.set('cookie', others.join('; '))
}

function decoded(value: string): string {
  return new URLSearchParams(`value=${value}`).get('value') ?? ''
}

/** CSRF check: whether the requesting page has this very origin. */
function sameOrigin(ctx: Context): boolean {
  const site = ctx.headers.get('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin'
  // Browsers send Sec-Fetch-Site only to trustworthy origins, which plain HTTP is not.
  const origin = ctx.headers.get('origin') ?? ''
  return URL.canParse(origin) && new URL(origin).host === ctx.headers.get('host')
}

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function signedIn(ctx: Context, session: string): Reply {
  const rest = withoutKey(ctx.query)
  const cookie = `${COOKIE}=${session}; Path=/jobs; Max-Age=${SESSION / 1000}; HttpOnly; SameSite=Strict${ctx.secure ? '; Secure' : ''}`
  const clean = `./${ctx.path.slice(ctx.path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`
  return {
    status: 303,
    headers: ['Location', clean, 'Set-Cookie', cookie, 'Cache-Control', 'no-store', 'Referrer-Policy', 'no-referrer'],
    body: null
  }
}

/** Authenticates the operator on the jobs dashboard (contract, Authentication 2 and 6; decisions 28, 38 and 322). */
export default definePlugin({
  name: 'dashboard-auth',
  description:
    "Requires the admin key on the jobs dashboard: in the header X-Admin-Key, or once as the query parameter adminKey. The parameter is exchanged for a cookie (HttpOnly, SameSite=Strict, 12 hours; a signed time, not the key), and the page redirects to the URL without the key. Changes by cookie must come from the dashboard's own page (Sec-Fetch-Site or Origin); otherwise the response is 403. Key, parameter and cookie are never forwarded. Without any of these, the session of a signed-in operator is accepted instead. A missing or wrong key is 401 and counts for the failed-authentication throttle that all key routes share.",
  config: Type.Object({}, { additionalProperties: false, description: 'Nothing to set.' }),
  uses: ['adminKey', 'authThrottle', 'sessions', 'signInRecord'],
  provides: ['principal'],
  setup(_config, { services: { adminKey, authThrottle, sessions, signInRecord } }) {
    const holds = (shown: Shown, now: number): boolean =>
      shown.how === 'cookie' ? adminKey.holdsSession(shown.value, now) : adminKey.matches(shown.key)

    return {
      establishes: 'admin',
      async request(ctx) {
        await authThrottle.admit(ctx)
        if (!adminKey.configured) throw new ConfigurationMissing('the admin key')
        const shown = shownBy(ctx)
        if (shown === null && sessions.tokenOf(ctx) !== null) {
          // Refuses cross-site changes.
          const operator = await sessions.principal(ctx, 'admin')
          if (operator !== null) {
            ctx.principal = operator
            return
          }
        }
        // A cross-site page must not get its visitor's address blocked.
        if (shown === null && isCrossSite(ctx)) throw keyMissing()
        if (shown === null || !holds(shown, ctx.now)) {
          if (shown?.how === 'query') await signInRecord.failed(ctx, SIGN_IN, 401)
          await authThrottle.failed(ctx)
          throw shown === null || shown.how === 'cookie' ? keyMissing() : keyInvalid()
        }
        if (shown.how === 'cookie' && !isSafe(ctx.method) && !sameOrigin(ctx)) throw otherSite()
        ctx.principal = keyAdmin
        if (shown.how === 'query' && isSafe(ctx.method)) {
          await signInRecord.principal(ctx, SIGN_IN, keyAdmin, 303)
          return signedIn(ctx, adminKey.session(ctx.now + SESSION))
        }
      },
      upstream(_ctx, out) {
        keepBack(out)
      }
    }
  }
})
