import { isToken } from './header-names.ts'

/** Most cookies of one proxy in a browser, and most bytes of their names and values. */
const MAX_COOKIES = 32
const MAX_COOKIE_BYTES = 8192

/** Attributes of `Set-Cookie` that a proxy may set; `Domain` and `Path` are not among them. */
const ATTRIBUTES = /^(?:expires=[\w ,:+-]+|max-age=-?\d+|samesite=\w+|secure|httponly|partitioned)$/i
/** Characters of a path that cannot end a cookie attribute. */
const PLAIN_PATH = /^[\w./~!$&'()*+,=:@%-]+$/

/**
 * The part of the gateway's origin that belongs to one merchant's proxy. Its cookies carry a prefix and a path, so that
 * only this proxy's upstream receives them (RFC 6265 isolates by neither scheme, port nor path).
 */
export class ProxyScope {
  readonly #prefix: string
  readonly #path: string
  /** Bytes of each of this proxy's cookies, by prefixed name; allocated for requests with cookies. */
  #held: Map<string, number> | null = null

  /** `path`: the raw request path up to and including the proxy's id, without a trailing slash. */
  constructor(proxyId: string, path: string) {
    // Ids have no dots, so no prefix begins another.
    this.#prefix = `proxy-${proxyId}.`
    this.#path = path
  }

  /** The cookies that this proxy set; null for none. */
  cookies(value: string): string | null {
    if (!value.includes(this.#prefix)) return null
    const own: string[] = []
    const held = (this.#held ??= new Map())
    for (const part of value.split(';')) {
      const cookie = part.trim()
      if (!cookie.startsWith(this.#prefix)) continue
      own.push(cookie.slice(this.#prefix.length))
      held.set(cookie.split('=', 1)[0] ?? '', cookie.length)
    }
    return own.length === 0 ? null : own.join('; ')
  }

  /** The upstream's `Set-Cookie` confined to this proxy; null when malformed or over the limits. */
  setCookie(value: string): string | null {
    const [first = '', ...attributes] = value.split(';')
    const end = first.indexOf('=')
    const name = first.slice(0, Math.max(0, end)).trim()
    if (!isToken(name) || !PLAIN_PATH.test(this.#path)) return null
    const prefixed = `${this.#prefix}${name}`
    const cookie = `${prefixed}=${first.slice(end + 1).trim()}`
    const held = (this.#held ??= new Map())
    let bytes = cookie.length
    for (const [other, length] of held) if (other !== prefixed) bytes += length
    if (bytes > MAX_COOKIE_BYTES || (!held.has(prefixed) && held.size >= MAX_COOKIES)) return null
    held.set(prefixed, cookie.length)
    const kept = attributes.map(attribute => attribute.trim()).filter(attribute => ATTRIBUTES.test(attribute))
    // Behind the prefix a browser no longer enforces what these names require (RFC 6265bis, 4.1.3).
    if (/^__(?:host|secure)-/i.test(name) && !kept.some(attribute => /^secure$/i.test(attribute))) return null
    return [cookie, `Path=${this.#path}`, ...kept].join('; ')
  }

  /**
   * The full `Referer` within the proxy, else only its origin. Other pages of this origin may have secret addresses,
   * such as a checkout page.
   */
  referer(value: string): string {
    const url = URL.parse(value)
    // Addresses of apps have no origin.
    if (url === null || url.origin === 'null') return value
    return `${url.pathname}/`.startsWith(`${this.#path}/`) ? value : `${url.origin}/`
  }
}
