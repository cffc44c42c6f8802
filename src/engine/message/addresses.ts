import ipaddr from 'ipaddr.js'

/** Parses an address in its common spelling without its zone; IPv4-mapped IPv6 as IPv4. Null for other text. */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const zone = text.indexOf('%')
  const bare = zone < 0 ? text : text.slice(0, zone)
  // ipaddr.js also accepts 1.2, 0x7f.1 and other legacy spellings.
  if (!ipaddr.IPv6.isValid(bare) && !ipaddr.IPv4.isValidFourPartDecimal(bare)) return null
  return ipaddr.process(bare)
}

/**
 * The canonical spelling: IPv4-mapped IPv6 as IPv4, IPv6 compressed and without its zone. Returns other text unchanged.
 */
export function normalAddress(address: string): string {
  return parseAddress(address)?.toString() ?? address
}

/**
 * The network that providers usually assign to one larger customer: IPv4 /24, IPv6 /48. Returns other text unchanged.
 */
export function widerNetwork(address: string): string {
  const parsed = parseAddress(address)
  if (parsed === null) return address
  if (parsed instanceof ipaddr.IPv4) return `${parsed.octets.slice(0, 3).join('.')}.0/24`
  const [a = 0, b = 0, c = 0] = parsed.parts
  return `${a.toString(16)}:${b.toString(16)}:${c.toString(16)}::/48`
}

/**
 * The network that counts as one client: an IPv4 address, or an IPv6 /64, which one household or server has (decision
 * 32). Returns other text unchanged.
 */
export function clientNetwork(address: string): string {
  // Most are IPv4 and need no parsing; this runs for every request.
  if (!address.includes(':')) return address
  const parsed = parseAddress(address)
  if (parsed === null || parsed instanceof ipaddr.IPv4) return parsed?.toString() ?? address
  const [a = 0, b = 0, c = 0, d = 0] = parsed.parts
  return `${a.toString(16)}:${b.toString(16)}:${c.toString(16)}:${d.toString(16)}::/64`
}
