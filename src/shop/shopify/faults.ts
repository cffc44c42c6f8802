import { StorePlatformError } from '../platform.ts'

/** Characters of a platform's own words that are passed on. */
const MAX_WORDS = 200
/** Seconds after which a platform that said nothing may be asked again. */
const DEFAULT_WAIT = 5

/**
 * Codes of GraphQL errors with which nothing was done. Shopify's checks of an operation have names of their own, such
 * as `undefinedField`.
 */
const REFUSED_CODE = /^(?:[a-z][A-Za-z]+|MAX_COST_EXCEEDED|BAD_REQUEST|BAD_USER_INPUT|GRAPHQL_VALIDATION_FAILED)$/

/** One line of somebody else's words, without what must not be seen. */
export function plainWords(text: string, hidden: readonly string[] = []): string {
  const clean = hidden.reduce((left, secret) => (secret === '' ? left : left.replaceAll(secret, '[redacted]')), text)
  const line = clean.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  return line.length > MAX_WORDS ? `${line.slice(0, MAX_WORDS)}…` : line
}

/** What a status other than 2xx says; 401 means that the token was not taken. */
export function statusFault(status: number, purpose: string): StorePlatformError {
  const options = { upstreamStatus: status }
  if (status === 401)
    return new StorePlatformError(
      'credentials',
      `The store platform did not accept the store's credentials when asked to ${purpose} (status 401).`,
      options
    )
  if (status === 403)
    return new StorePlatformError(
      'credentials',
      `The store's credentials do not allow the platform to ${purpose} (status 403). Check the app's scopes.`,
      options
    )
  if (status === 402 || status === 423)
    return new StorePlatformError(
      'shop',
      `The store platform says that this shop is closed or frozen (status ${status}).`,
      options
    )
  if (status === 404)
    return new StorePlatformError(
      'shop',
      "The store platform knows no such shop (status 404). Check the store's domain.",
      options
    )
  // A redirect is never followed: it would carry the token elsewhere.
  if (status >= 300 && status < 400)
    return new StorePlatformError(
      'shop',
      `The store platform serves this shop under another domain (status ${status}). Refresh the shop's information.`,
      options
    )
  if (status === 429) return throttled(status)
  if (status >= 400 && status < 500 && status !== 408)
    return new StorePlatformError('refused', `The store platform refused to ${purpose} (status ${status}).`, options)
  return new StorePlatformError('away', `The store platform could not ${purpose} (status ${status}).`, options)
}

/** Asked too often; `wait` in milliseconds. */
export function throttled(status: number | null, wait = DEFAULT_WAIT * 1000): StorePlatformError {
  return new StorePlatformError('throttled', 'The store platform asks us to wait before the next call.', {
    upstreamStatus: status,
    retryAfter: Math.max(1, Math.ceil(wait / 1000))
  })
}

/** An error of a GraphQL answer, as far as it is used. */
interface GraphFault {
  readonly code: string | null
  readonly words: string
  readonly isBadVariable: boolean
}

/** What the errors of a GraphQL answer say. Where it is not known that nothing was done, `away`. */
export function graphFault(errors: unknown, purpose: string, hidden: readonly string[]): StorePlatformError {
  const faults = (Array.isArray(errors) ? errors : []).map((error: unknown) => faultOf(error, hidden))
  const options = { upstreamStatus: 200 }
  const has = (...codes: string[]): boolean => faults.some(({ code }) => code !== null && codes.includes(code))
  const words = faults[0]?.words ?? 'it did not say why'
  if (has('THROTTLED')) return throttled(200)
  if (has('ACCESS_DENIED', 'UNAUTHORIZED'))
    return new StorePlatformError(
      'credentials',
      `The store's credentials do not allow the platform to ${purpose}: ${words}`,
      options
    )
  if (has('SHOP_INACTIVE'))
    return new StorePlatformError('shop', 'The store platform says that this shop is closed.', options)
  const isRefused =
    faults.length > 0 &&
    faults.every(({ code, isBadVariable }) => isBadVariable || (code !== null && REFUSED_CODE.test(code)))
  return isRefused
    ? new StorePlatformError('refused', `The store platform refused to ${purpose}: ${words}`, options)
    : new StorePlatformError('away', `The store platform could not ${purpose}: ${words}`, options)
}

function faultOf(error: unknown, hidden: readonly string[]): GraphFault {
  const extensions = own(error, 'extensions')
  const code = own(extensions, 'code')
  const message = own(error, 'message')
  return {
    code: typeof code === 'string' ? code : null,
    words: typeof message === 'string' ? plainWords(message, hidden) : 'it did not say why',
    isBadVariable: Array.isArray(own(extensions, 'problems'))
  }
}

function own(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
