import type { Clock } from '../../platform/system/clock.ts'
import { AddressRefused } from '../../engine/upstream/guard.ts'
import type { OutboundResponse, OutboundCall } from '../../engine/upstream/outbound.ts'
import { StorePlatformError } from '../platform.ts'

/** How Shopify is called. */
export interface ShopifySettings {
  /** Takes the place of every store's own scheme and host, for tests. */
  readonly url?: string | undefined
  /** Such as 2026-10. */
  readonly apiVersion: string
  /** Milliseconds for one call. */
  readonly timeout: number
}

/** What calls are made with. */
export interface ShopifyHttpOptions {
  /** Goes through the address guard: a merchant names the domain. */
  readonly call: OutboundCall
  readonly clock: Clock
  readonly config: ShopifySettings
}

/**
 * Bytes of an answer that are read; a page of a catalog has some hundred thousand at most. What is longer is cut, and
 * then no JSON.
 */
const MAX_ANSWER = 4 * 1024 * 1024
/** A header's value. A key with anything else in it never came from the platform. */
const HEADER_SAFE = /^[\x21-\x7e]+$/
/** Only these are called: a merchant's own domain would get the credentials, and could be anything. */
const SHOP_HOST = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.myshopify\.com$/
const HANDLE_END = '.myshopify.com'

/** Whether this is the canonical domain of a shop, such as example.myshopify.com. */
export function isShopHost(domain: string): boolean {
  return SHOP_HOST.test(domain)
}

/** `example` of example.myshopify.com. */
export function shopHandle(domain: string): string {
  return domain.slice(0, -HANDLE_END.length)
}

/** @throws StorePlatformError `shop` for any other domain */
export function requireShopHost(domain: string): void {
  if (!isShopHost(domain))
    throw new StorePlatformError(
      'shop',
      `${JSON.stringify(domain)} is not the domain of a Shopify store that can be called; give the one that ends with .myshopify.com.`
    )
}

/** @throws StorePlatformError `credentials` for a key that cannot be sent at all */
export function requireSendable(key: string): void {
  if (!HEADER_SAFE.test(key))
    throw new StorePlatformError(
      'credentials',
      "The store's credentials hold characters that none of the platform's have."
    )
}

/** POSTs to shops: one time limit, bounded answers, redirects never followed. It keeps no key and logs nothing. */
export class ShopifyHttp {
  readonly #options: ShopifyHttpOptions

  constructor(options: ShopifyHttpOptions) {
    this.#options = options
  }

  /** `path` begins with a slash. @throws StorePlatformError `shop`, or `away` when no answer came */
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

/** An answer's body, whatever type it says that it has; null where it is no JSON. */
export function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'))
  } catch (error) {
    // A page, or an answer that was cut.
    if (!(error instanceof SyntaxError)) throw error
    return null
  }
}

/** The library's error is left behind: it may hold what was sent. */
function unreached(error: unknown, isLate: boolean): StorePlatformError {
  if (error instanceof AddressRefused)
    return new StorePlatformError('shop', `The store's domain may not be called: ${error.message}`)
  if (isLate || (error instanceof Error && error.name === 'TimeoutError'))
    return new StorePlatformError('away', 'The store platform did not answer in time.')
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ''
  return new StorePlatformError('away', `The store platform cannot be reached at the moment${code}.`)
}
