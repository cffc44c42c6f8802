import { isToken } from './header-names.ts'

/** Most cookies that one proxy may keep in a browser, and most bytes of their names and values together. */
const MAX_COOKIES = 32
const MAX_COOKIE_BYTES = 8192

/** Attributes of `Set-Cookie` that a proxy decides about; `Domain` and `Path` are not among them. */
const ATTRIBUTES = /^(?:expires=[\w ,:+-]+|max-age=-?\d+|samesite=\w+|secure|httponly|partitioned)$/i
/** Letters of a path that cannot end the attribute that it is written into. */
const PLAIN_PATH = /^[\w./~!$&'()*+,=:@%-]+$/

/**
 * The part of the gateway's origin that belongs to one merchant's proxy, for one request. Its cookies carry a prefix and
 * a path, so that they reach this proxy's upstream and nothing else does (RFC 6265 isolates by neither scheme, port nor
 * path).
 */
export class ProxyScope {
  readonly #prefix: string
  readonly #path: string
  /** Bytes of each cookie of this proxy that the client has, by its prefixed name; made for requests with cookies. */
  #held: Map<string, number> | null = null

  /** `path`: the raw path of the request up to and including the proxy's id, without a slash at its end. */
  constructor(proxyId: string, path: string) {
    // Ids have no dots, so that no prefix begins like another.
    this.#prefix = `proxy-${proxyId}.`
    this.#path = path
  }

  /** The value of `Cookie` for the upstream: the cookies that this proxy set. Null when there are none. */
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

  /** The upstream's `Set-Cookie` confined to this proxy; null when it is malformed or the proxy has too many. */
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
    // Behind the prefix a browser no longer enforces what these names stand for (RFC 6265bis, 4.1.3).
    if (/^__(?:host|secure)-/i.test(name) && !kept.some(attribute => /^secure$/i.test(attribute))) return null
    return [cookie, `Path=${this.#path}`, ...kept].join('; ')
  }

  /**
   * The value of `Referer` for the upstream: whole within the proxy, else only its origin. The address of another page of
   * this origin may hold a secret, such as that of a checkout page.
   */
  referer(value: string): string {
    const url = URL.parse(value)
    // Addresses of apps have no origin.
    if (url === null || url.origin === 'null') return value
    return `${url.pathname}/`.startsWith(`${this.#path}/`) ? value : `${url.origin}/`
  }
}
