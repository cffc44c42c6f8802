import type { ReadonlyHeaders } from './headers.ts'

/**
 * The gateway's own cookies, which carry sessions. They never go to an upstream, which may be a merchant's. An
 * upstream cannot set them either: it could sign visitors in to another account.
 */
const OWN = /^(?:__(?:host|secure|http|host-http)-)?boltgate[-_]/i
/** A substring of every such name: one search suffices for most requests. */
const MARK = /boltgate[-_]/i

export function withoutOwnCookies(value: string): string | null {
  if (!MARK.test(value)) return value
  const others = value.split(';').filter(cookie => !OWN.test(cookie.trimStart()))
  return others.length === 0 ? null : others.join(';').trim()
}

/** Whether a `Set-Cookie` would set one of the gateway's; browsers send a nameless one back as its bare value. */
export function setsOwnCookie(value: string): boolean {
  return MARK.test(value) && OWN.test(value.trimStart().replace(/^=\s*/, ''))
}

/** Values of a cookie, in order. Splitting at each semicolon would cost 10 ms for a header full of them. */
export function cookieValues(headers: ReadonlyHeaders, name: string): string[] {
  const values: string[] = []
  for (const line of headers.all('cookie'))
    for (let end = 0, at = line.indexOf(name); at >= 0; at = line.indexOf(name, end)) {
      end = line.indexOf(';', at)
      if (end < 0) end = line.length
      const [key = '', ...value] = line.slice(line.lastIndexOf(';', at) + 1, end).split('=', 2)
      if (key.trim() === name) values.push(value.join('').trim())
    }
  return values
}
