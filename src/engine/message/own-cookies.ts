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

/** Specific to one message or set on every response; a replay gets its own. */
const NOT_KEPT = new Set([
  'content-length',
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'x-correlation-id',
  'x-api-version',
  'x-idempotency-replayed'
])

/** The header fields to store with a response body for a replay. `pairs` as in `HeaderList`. */
export function keptHeaders(pairs: readonly string[]): (readonly [name: string, value: string])[] {
  const headers: (readonly [string, string])[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const name = pairs[at] ?? ''
    if (!NOT_KEPT.has(name.toLowerCase())) headers.push([name, pairs[at + 1] ?? ''])
  }
  return headers
}
