import { hash } from 'node:crypto'
import type { Context } from '../../engine/message/context.ts'
import { equalText } from '../../platform/keys/constant-time.ts'
import { SESSION_LIFE } from './tokens.ts'

/** What browsers keep for signing in: who is signed in, the page that was wanted before, and the ceremony of a passkey. */
export type KeptName = 'session' | 'next' | 'passkey'

/**
 * Name of a cookie. Over https the browser itself then sees to it that it came from this very host, over TLS and for
 * the whole of it (RFC 6265bis, 4.1.3.2).
 */
function cookieName(name: KeptName, secure: boolean): string {
  return `${secure ? '__Host-' : ''}boltgate-${name}`
}

/** What a browser kept and sent; null for nothing. `secure`: the gateway's public address is https. */
export function keptValue(ctx: Pick<Context, 'headers'>, kept: KeptName, secure: boolean): string | null {
  const name = cookieName(kept, secure)
  for (const line of ctx.headers.all('cookie')) {
    for (const pair of line.split(';')) {
      const [key = '', value = ''] = pair.split('=', 2)
      if (key.trim() === name) return value.trim()
    }
  }
  return null
}

/** `Set-Cookie` that has a browser keep something for some seconds; none takes it out again. `value` has no `;` or space. */
export function keepCookie(name: KeptName, value: string, seconds: number, secure: boolean): string {
  const site = name === 'passkey' ? 'Strict' : 'Lax'
  return `${cookieName(name, secure)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=${site}${secure ? '; Secure' : ''}`
}

/** The session token that a browser sent; null for none. */
export function sessionToken(ctx: Pick<Context, 'headers'>, secure: boolean): string | null {
  return keptValue(ctx, 'session', secure)
}

/** `Set-Cookie` that keeps a session in the browser. */
export function sessionCookie(token: string, secure: boolean): string {
  return keepCookie('session', token, SESSION_LIFE / 1000, secure)
}

/** `Set-Cookie` that takes it out again. */
export function noSessionCookie(secure: boolean): string {
  return keepCookie('session', '', 0, secure)
}

/**
 * What a form of a signed-in page carries, so that only our own pages can make it: derived from the session's token,
 * which no other site and no program on the page can read.
 */
export function formToken(session: string): string {
  return hash('sha256', `form ${session}`, 'base64url')
}

/** Whether a form was made for this session. */
export function isFormOf(session: string, given: string | null): boolean {
  return given !== null && equalText(given, formToken(session))
}

/**
 * Whether a form may have come from our own page: another site must not be able to sign somebody in to an account that
 * is not theirs. Browsers say so by Sec-Fetch-Site, and to plain HTTP in a network by Origin; whoever says neither is
 * no browser.
 */
export function isFromHere(ctx: Pick<Context, 'headers' | 'host'>, publicUrl: string): boolean {
  const site = ctx.headers.get('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin'
  const origin = ctx.headers.get('origin')
  if (origin === undefined) return true
  // "null" is a frame without an origin, or a page that tells no referrer at all; ours does.
  return URL.canParse(origin) && [ctx.host, new URL(publicUrl).host].includes(new URL(origin).host)
}
