import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export type AddressFault = 'malformed' | 'scheme' | 'userinfo' | 'query' | 'fragment' | 'host' | 'port' | 'range'

/**
 * An address from a user that must not be called. The message names the rule, never a resolved address, which would
 * allow mapping a private network.
 */
export class AddressRefused extends Error {
  readonly reason: AddressFault

  constructor(reason: AddressFault, message: string) {
    super(message)
    this.name = 'AddressRefused'
    this.reason = reason
  }
}

/** `code` is the resolver's, such as ENOTFOUND. */
export class NameUnresolved extends Error {
  readonly code: string

  constructor(hostname: string, cause?: unknown) {
    super(`no address was found for ${hostname}`, cause === undefined ? undefined : { cause })
    this.name = 'NameUnresolved'
    this.code = 'ENOTFOUND'
  }
}

export interface TargetRules {
  /** Outside production this machine may be called, by plain HTTP too (decisions 92 and 162). */
  readonly production: boolean
  /** Allows a query, for callback addresses. Proxy targets have none. */
  readonly query?: boolean
}

const MAX_LENGTH = 2048
/** Ports of internal services (decision 164). */
const BLOCKED_PORTS = new Set([
  22, 23, 25, 110, 135, 139, 143, 389, 445, 1433, 1521, 2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5984, 6379,
  6443, 8500, 9042, 9200, 10250, 11211, 27017
])
/**
 * Names of internal networks and cloud metadata services, including short forms of Kubernetes and Consul. They are
 * not public top-level domains.
 */
const BLOCKED_SUFFIXES = [
  '.localhost',
  '.local',
  '.internal',
  '.localdomain',
  '.home.arpa',
  '.svc',
  '.pod',
  '.consul',
  '.lan',
  '.corp',
  '.home',
  '.intranet',
  '.private'
]
const METADATA_NAMES = new Set([
  'metadata.goog',
  'metadata.azure.com',
  'metadata.tencentyun.com',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'metadata.google.com'
])
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** Azure's metadata address, which every list of ranges calls unicast, serves credentials. */
const AZURE_PLATFORM = '168.63.129.16'

function bare(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
}

function loopback(hostname: string): boolean {
  if (hostname === 'localhost') return true
  return isIP(hostname) !== 0 && ipaddr.parse(hostname).range() === 'loopback'
}

/** Characters that a URL parser silently drops or converts, so that two readers would differ. */
function ambiguous(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code <= 0x20 || code === 0x5c || code === 0x7f) return true
  }
  return false
}

/**
 * Validates a merchant's proxy target or callback without resolving it (decisions 92, 153, 162 and 164; contract,
 * Reverse proxy).
 * @throws AddressRefused with a message fit for a 400
 */
export function checkTargetUrl(text: string, rules: TargetRules): URL {
  if (text.length > MAX_LENGTH)
    throw new AddressRefused('malformed', `The address is longer than ${MAX_LENGTH} characters.`)
  if (ambiguous(text))
    throw new AddressRefused('malformed', 'The address holds a space, a backslash or a control character.')
  // Only URL accepts `https:host` without slashes.
  if (!text.includes('://') || !URL.canParse(text))
    throw new AddressRefused('malformed', 'The address is not a URL such as https://api.example.com/v1.')
  const url = new URL(text)
  const hostname = bare(url.hostname)
  const own = !rules.production && loopback(hostname)
  checkScheme(url, own)
  if (authority(text).includes('@'))
    throw new AddressRefused('userinfo', 'The address must not hold a user name or password.')
  if (rules.query !== true && text.includes('?'))
    throw new AddressRefused('query', 'The address must not have a query.')
  if (text.includes('#')) throw new AddressRefused('fragment', 'The address must not have a fragment.')
  if (!own) {
    if (isIP(hostname) !== 0) throw new AddressRefused('host', 'The address must use a host name, not an IP address.')
    checkName(hostname)
  }
  checkPort(url, own)
  return url
}

/** The authority as written: URL forgets an empty userinfo such as `https://@host`. */
function authority(text: string): string {
  const from = text.indexOf('//') + 2
  for (let at = from; at < text.length; at++) {
    const char = text[at]
    if (char === '/' || char === '?' || char === '#') return text.slice(from, at)
  }
  return text.slice(from)
}

function checkScheme(url: URL, own: boolean): void {
  if (url.protocol !== 'https:' && !(own && url.protocol === 'http:'))
    throw new AddressRefused('scheme', 'The address must begin with https://.')
}

function checkPort(url: URL, own: boolean): void {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const common = port === 443 || port >= 1024 || (own && port === 80)
  if (!common || BLOCKED_PORTS.has(port))
    throw new AddressRefused(
      'port',
      `Port ${port} is not allowed; use 443, or one from 1024 up that no internal service uses.`
    )
}

function checkName(hostname: string): void {
  if (hostname.endsWith('.')) throw new AddressRefused('host', 'The host name must not end with a dot.')
  if (!hostname.includes('.'))
    throw new AddressRefused('host', 'The host name must be a full public name, such as api.example.com.')
  if (METADATA_NAMES.has(hostname) || BLOCKED_SUFFIXES.some(suffix => hostname.endsWith(suffix))) {
    throw new AddressRefused('host', 'The host name is one of a private network.')
  }
}

/**
 * Whether an IP address is public. Refuses everything except plain unicast: private, loopback and link-local addresses,
 * and every IPv6 form that carries an IPv4 address (RFC 6890).
 */
export function publicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false
  // Nothing outside 2000::/3 is routed, but 100:0:0:1::/64 and the IPv4-compatible ::/96 pass as unicast.
  return parsed.kind() === 'ipv6' ? parsed.match(GLOBAL_UNICAST) : parsed.toString() !== AZURE_PLATFORM
}

/** Throws when there is none. */
export type ResolveName = (hostname: string) => Promise<readonly string[]>

/**
 * Queries A and AAAA records, at most about four seconds. `lookup` would occupy one of four threads, which one
 * merchant's slow names could exhaust.
 */
function dnsResolver(): ResolveName {
  const resolver = new Resolver({ timeout: 2000, tries: 2 })
  return async hostname => {
    const [four, six] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const found: string[] = []
    if (four.status === 'fulfilled') found.push(...four.value)
    if (six.status === 'fulfilled') found.push(...six.value)
    if (found.length === 0) throw new NameUnresolved(hostname, four.status === 'rejected' ? four.reason : undefined)
    return found
  }
}

/**
 * Checks addresses at connect time. A check when the address is saved would not suffice, since its name may resolve
 * differently a second later (decision 92).
 */
export class AddressGuard {
  readonly production: boolean
  readonly #resolve: ResolveName

  constructor(options: { readonly production: boolean; readonly resolve?: ResolveName }) {
    this.production = options.production
    this.#resolve = options.resolve ?? dnsResolver()
  }

  /**
   * Addresses for a connection to this origin. Refuses what was saved under older or laxer rules.
   * @throws AddressRefused or NameUnresolved
   */
  async connectable(origin: string): Promise<readonly string[]> {
    const url = new URL(origin)
    const own = !this.production && loopback(bare(url.hostname))
    checkScheme(url, own)
    checkPort(url, own)
    return this.addresses(url.hostname)
  }

  /**
   * All addresses of a host; one bad one refuses the whole name.
   * @throws AddressRefused or NameUnresolved
   */
  async addresses(host: string): Promise<readonly string[]> {
    const hostname = bare(host).toLowerCase()
    if (!this.production && loopback(hostname)) return hostname === 'localhost' ? ['127.0.0.1', '::1'] : [hostname]
    if (isIP(hostname) !== 0) {
      if (!publicAddress(hostname)) throw new AddressRefused('range', 'The target address lies in a blocked range.')
      return [hostname]
    }
    checkName(hostname)
    const found = await this.#resolve(hostname)
    if (found.length === 0) throw new NameUnresolved(hostname)
    if (!found.every(publicAddress))
      throw new AddressRefused('range', 'The target host resolves to an address in a blocked range.')
    return found
  }
}
