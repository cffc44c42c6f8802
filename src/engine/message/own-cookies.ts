/**
 * Cookies that the gateway itself keeps in browsers: with one somebody acts as whoever is signed in. They never go on to
 * an upstream, which may be a merchant's, and none is taken from one: it would sign its visitors in as somebody else.
 */
const OWN = /^(?:__(?:host|secure|http|host-http)-)?boltgate[-_]/i
/** What every such name holds: most requests are done with this one look. */
const MARK = /boltgate[-_]/i

/** The value of `Cookie` without those of the gateway; null when nothing is left of it. */
export function withoutOwnCookies(value: string): string | null {
  if (!MARK.test(value)) return value
  const others = value.split(';').filter(cookie => !OWN.test(cookie.trimStart()))
  return others.length === 0 ? null : others.join(';').trim()
}

/** Whether a `Set-Cookie` would set one of the gateway's; one without a name is sent back as its bare value. */
export function setsOwnCookie(value: string): boolean {
  return MARK.test(value) && OWN.test(value.trimStart().replace(/^=\s*/, ''))
}
