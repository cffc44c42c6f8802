import ipaddr from 'ipaddr.js'
import { parseAddress } from '../message/addresses.ts'
import { trimmed, type ReadonlyHeaders } from '../message/headers.ts'

interface ClientFacts {
  readonly address: string
  readonly secure: boolean
}

type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/** @throws TypeError naming the entry that is neither an address nor a range */
export class TrustedProxies {
  readonly #ranges: readonly Range[]

  constructor(entries: readonly string[]) {
    this.#ranges = entries.map(entry => {
      const slash = entry.indexOf('/')
      const address = parseAddress(slash < 0 ? entry : entry.slice(0, slash))
      const bits = slash < 0 ? '' : entry.slice(slash + 1)
      const longest = address?.kind() === 'ipv4' ? 32 : 128
      if (address === null || (slash >= 0 && !/^[0-9]{1,3}$/.test(bits)) || Number(bits) > longest) {
        throw new TypeError(
          `${JSON.stringify(entry)} is no trusted proxy; it must be an address or a range such as 10.0.0.0/8`
        )
      }
      return [address, slash < 0 ? longest : Number(bits)] as const
    })
  }

  has(address: string): boolean {
    if (this.#ranges.length === 0) return false
    const parsed = parseAddress(address)
    if (parsed === null) return false
    return this.#ranges.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits))
  }

  /**
   * Reads X-Forwarded-For from right to left up to the first untrusted address. Reads Forwarded (RFC 7239) only without
   * X-Forwarded-For, so that a client cannot use the header its proxy does not write. An unreadable entry ends the walk
   * at the hop that wrote it.
   */
  client(peer: string, headers: ReadonlyHeaders, secure: boolean): ClientFacts {
    const lists = headers.all('x-forwarded-for')
    if (lists.length === 0) {
      const forwarded = headers.all('forwarded')
      if (forwarded.length > 0) return this.#forwarded(peer, forwarded.join(','), secure)
    }
    const entries = lists.length === 0 ? [] : lists.join(',').split(',')
    let address = peer
    let hops = 1
    for (let at = entries.length - 1; at >= 0; at--) {
      const next = nodeAddress(entries[at] ?? '')
      if (next === null) break
      address = next
      if (!this.has(next)) break
      hops++
    }
    const protocols = headers.all('x-forwarded-proto')
    if (protocols.length === 0) return { address, secure }
    const list = protocols.join(',').split(',')
    // Each proxy appends one entry or replaces all; the outermost trusted one saw the client's connection.
    return { address, secure: isSecure(list[Math.max(0, list.length - hops)] ?? '') }
  }

  #forwarded(peer: string, value: string, secure: boolean): ClientFacts {
    let address = peer
    let shielded = secure
    const elements = value.split(',')
    for (let at = elements.length - 1; at >= 0; at--) {
      const parameters = parameterMap(elements[at] ?? '')
      const proto = parameters.get('proto')
      if (proto !== undefined) shielded = isSecure(proto)
      const next = nodeAddress(parameters.get('for') ?? '')
      if (next === null) break
      address = next
      if (!this.has(next)) break
    }
    return { address, secure: shielded }
  }
}

function isSecure(proto: string): boolean {
  const lower = trimmed(proto).toLowerCase()
  return lower === 'https' || lower === 'wss'
}

function parameterMap(element: string): Map<string, string> {
  const found = new Map<string, string>()
  for (const part of element.split(';')) {
    const equals = part.indexOf('=')
    if (equals < 0) continue
    found.set(trimmed(part.slice(0, equals)).toLowerCase(), trimmed(part.slice(equals + 1)).replace(/^"(.*)"$/, '$1'))
  }
  return found
}

/** Strips port and brackets; null for `unknown`, obfuscated names and anything else. */
function nodeAddress(text: string): string | null {
  const node = trimmed(text)
  const bracketed = /^\[([^\]]*)\](?::[0-9]{1,5})?$/.exec(node)
  const bare = bracketed?.[1] ?? /^([0-9.]+):[0-9]{1,5}$/.exec(node)?.[1] ?? node
  return parseAddress(bare)?.toString() ?? null
}

const ACCEPTED = /^[A-Za-z0-9._:-]{1,128}$/

/** The client's correlation id where it is safe to log and forward, else a fresh one (decision 14). */
export function acceptedCorrelationId(offered: string | null, fresh: () => string): string {
  return offered !== null && ACCEPTED.test(offered) ? offered : fresh()
}

/** Finds the correlation id in a head that was refused unread; null for none or several. */
export function offeredCorrelation(rawHeaders: readonly string[]): string | null {
  let found: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== 'x-correlation-id') continue
    if (found !== null) return null
    found = rawHeaders[at + 1] ?? null
  }
  return found
}
