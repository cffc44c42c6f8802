import type { Clock } from '../../platform/system/clock.ts'
import { AddressRefused } from '../../engine/upstream/guard.ts'
import type { OutboundResponse, OutboundCall } from '../../engine/upstream/outbound.ts'
import { StorePlatformError } from '../platform.ts'

export interface ShopifySettings {
  /** Replaces every store's scheme and host, for tests. */
  readonly url?: string | undefined
  /** Such as 2026-10. */
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

/** Whatever its media type; null for invalid JSON. */
export function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'))
  } catch (error) {
    // HTML, or truncated.
    if (!(error instanceof SyntaxError)) throw error
    return null
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
