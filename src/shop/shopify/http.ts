import { Type } from 'typebox'
import { orNull, part, readResponse } from '../../engine/formats/response-schema.ts'
import { AddressRefused } from '../../engine/upstream/guard.ts'
import type { OutboundResponse, OutboundCall } from '../../engine/upstream/outbound.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { StorePlatformError } from '../platform.ts'

export interface ShopifySettings {
  /** Replaces every store's scheme and host, for tests. */
  readonly url?: string | undefined
  readonly apiVersion: string
  readonly timeout: number
}

export interface ShopifyHttpOptions {
  /** Guarded: a merchant names the domain. */
  readonly call: OutboundCall
  readonly clock: Clock
  readonly config: ShopifySettings
}

/** Bytes of a response that are read; a catalog page has a few hundred thousand. A truncated one is not valid JSON. */
const MAX_ANSWER = 4 * 1024 * 1024
/** Other characters never came from the platform. */
const HEADER_SAFE = /^[\x21-\x7e]+$/
/** Only shops are called: any other domain would receive the credentials. */
const SHOP_HOST = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.myshopify\.com$/
const HANDLE_END = '.myshopify.com'

/** Whether this is a canonical shop domain, such as example.myshopify.com. */
export function isShopHost(domain: string): boolean {
  return SHOP_HOST.test(domain)
}

/** `example` of example.myshopify.com. */
export function shopHandle(domain: string): string {
  return domain.slice(0, -HANDLE_END.length)
}

/** @throws StorePlatformError `shop` for another domain */
export function requireShopHost(domain: string): void {
  if (!isShopHost(domain))
    throw new StorePlatformError(
      'shop',
      `${JSON.stringify(domain)} is not the domain of a Shopify store that can be called; give the one that ends with .myshopify.com.`
    )
}

/** @throws StorePlatformError `credentials` for a key that no header can carry */
export function requireSendable(key: string): void {
  if (!HEADER_SAFE.test(key))
    throw new StorePlatformError(
      'credentials',
      "The store's credentials hold characters that none of the platform's have."
    )
}

/** POSTs to shops with a timeout and bounded responses, without redirects. Keeps no key and logs nothing. */
export class ShopifyHttp {
  readonly #options: ShopifyHttpOptions

  constructor(options: ShopifyHttpOptions) {
    this.#options = options
  }

  /**
   * `path` begins with a slash.
   * @throws StorePlatformError `shop`, or `away` without a response
   */
  async post(
    domain: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string
  ): Promise<OutboundResponse> {
    requireShopHost(domain)
    const { call, clock, config } = this.#options
    const base = config.url?.replace(/(?<!\/)\/+$/, '') ?? `https://${domain}`
    const limit = new AbortController()
    const timer = clock.after(config.timeout, () => {
      limit.abort()
    })
    try {
      return await call({
        method: 'POST',
        url: base + path,
        headers: Object.entries(headers).flat(),
        body: Buffer.from(body),
        timeout: config.timeout,
        keep: MAX_ANSWER,
        signal: limit.signal
      })
    } catch (error) {
      throw unreached(error, limit.signal.aborted)
    } finally {
      timer.cancel()
    }
  }
}

/** The library's error is dropped: it may contain the request. */
function unreached(error: unknown, isLate: boolean): StorePlatformError {
  if (error instanceof AddressRefused)
    return new StorePlatformError('shop', `The store's domain may not be called: ${error.message}`)
  if (isLate || (error instanceof Error && error.name === 'TimeoutError'))
    return new StorePlatformError('away', 'The store platform did not answer in time.')
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ''
  return new StorePlatformError('away', `The store platform cannot be reached at the moment${code}.`)
}

/** Characters of a platform's message that are passed on. */
const MAX_WORDS = 200
/** Seconds to wait without a hint. */
const DEFAULT_WAIT = 5

/** GraphQL error codes without effect. Shopify's validation codes are camelCase, such as `undefinedField`. */
const REFUSED_CODE = /^(?:[a-z][A-Za-z]+|MAX_COST_EXCEEDED|BAD_REQUEST|BAD_USER_INPUT|GRAPHQL_VALIDATION_FAILED)$/

export function redactedLine(text: string, hidden: readonly string[] = []): string {
  const clean = hidden.reduce((left, secret) => (secret === '' ? left : left.replaceAll(secret, '[redacted]')), text)
  const line = clean.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  return line.length > MAX_WORDS ? `${line.slice(0, MAX_WORDS)}…` : line
}

/** The fault of a status other than 2xx; 401: the token was rejected. */
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
  // Following a redirect would leak the token.
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

export function throttled(status: number | null, wait = DEFAULT_WAIT * 1000): StorePlatformError {
  return new StorePlatformError('throttled', 'The store platform asks us to wait before the next call.', {
    upstreamStatus: status,
    retryAfter: Math.max(1, Math.ceil(wait / 1000))
  })
}

const GraphError = part({
  message: orNull(Type.String()),
  extensions: part({ code: orNull(Type.String()), problems: orNull(Type.Array(Type.Unknown())) })
})
const GraphErrors = orNull(Type.Array(GraphError))

/** The fault of GraphQL errors: `away` unless they certainly had no effect. */
export function graphFault(errors: unknown, purpose: string, hidden: readonly string[]): StorePlatformError {
  const faults = (readResponse(GraphErrors, errors) ?? []).map(error => ({
    code: error?.extensions?.code ?? null,
    words: typeof error?.message === 'string' ? redactedLine(error.message, hidden) : 'it did not say why',
    isBadVariable: (error?.extensions?.problems ?? null) !== null
  }))
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
