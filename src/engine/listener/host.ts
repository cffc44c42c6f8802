/**
 * Name or address in brackets, then an optional port; RFC 9110, section 7.2, without sub-delims, escapes, userinfo or
 * an empty name.
 */
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9._-]*)(?::([0-9]{1,5}))?$/

/**
 * Why a Host value (lower case) is refused, or null when it is good: one name or address, with a port from 1 to 65535
 * at most.
 */
export function hostFault(host: string): string | null {
  const match = HOST.exec(host)
  if (match === null)
    return host === ''
      ? 'The Host header is empty.'
      : 'The Host header must be one host name or address with an optional port.'
  const port = match[1]
  if (port === undefined) return null
  const number = Number(port)
  return number >= 1 && number <= 65535 ? null : 'The port in the Host header is out of range; ports are 1 to 65535.'
}
