import ipaddr from 'ipaddr.js'

/**
 * The address of a text in its common spelling, IPv4 also where it came mapped into IPv6; null for other text. A zone
 * is left out.
 */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const zone = text.indexOf('%')
  const bare = zone < 0 ? text : text.slice(0, zone)
  // ipaddr.js also reads 1.2, 0x7f.1 and other old spellings; an address from the wire must be in the common one.
  if (!ipaddr.IPv6.isValid(bare) && !ipaddr.IPv4.isValidFourPartDecimal(bare)) return null
  return ipaddr.process(bare)
}

/**
 * One spelling for each address: IPv4 also where it came mapped into IPv6, IPv6 compressed and without its zone. Other
 * text stays as it is.
 */
export function normalAddress(address: string): string {
  return parseAddress(address)?.toString() ?? address
}

/**
 * The network around an address that one provider usually gives to one customer of some size: IPv4 by /24, IPv6 by /48.
 * Text that is no address stays as it is.
 */
export function widerNetwork(address: string): string {
  const parsed = parseAddress(address)
  if (parsed === null) return address
  if (parsed instanceof ipaddr.IPv4) return `${parsed.octets.slice(0, 3).join('.')}.0/24`
  const [a = 0, b = 0, c = 0] = parsed.parts
  return `${a.toString(16)}:${b.toString(16)}:${c.toString(16)}::/48`
}

/**
 * What counts as one client among addresses: an IPv4 address as it is, IPv6 by its /64, since one household or server
 * has all of that (decision 32), and an IPv4 address inside IPv6 as the IPv4 address. Text that is no address stays as
 * it is.
 */
export function clientNetwork(address: string): string {
  // Most are IPv4 and need no parsing; this runs for every request.
  if (!address.includes(':')) return address
  const parsed = parseAddress(address)
  if (parsed === null || parsed instanceof ipaddr.IPv4) return parsed?.toString() ?? address
  const [a = 0, b = 0, c = 0, d = 0] = parsed.parts
  return `${a.toString(16)}:${b.toString(16)}:${c.toString(16)}:${d.toString(16)}::/64`
}
