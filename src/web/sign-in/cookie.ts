import { hash } from 'node:crypto'
import type { Context } from '../../engine/message/context.ts'
import { cookieValues } from '../../engine/message/own-cookies.ts'
import { equalText } from '../../platform/keys/secrets.ts'

/** Purposes of sign-in cookies: session, operator's stand-in for it, wanted page and passkey ceremony. */
export type KeptName = 'session' | 'operator' | 'next' | 'passkey'

/**
 * Name of a cookie. Over https the `__Host-` prefix binds it to this host, TLS and the root path (RFC 6265bis,
 * 4.1.3.2).
 */
function cookieName(name: KeptName, secure: boolean): string {
  return `${secure ? '__Host-' : ''}boltgate-${name}`
}

export function keptValue(ctx: Pick<Context, 'headers'>, kept: KeptName, secure: boolean): string | null {
  return cookieValues(ctx.headers, cookieName(kept, secure))[0] ?? null
}

/** `Set-Cookie` for some seconds; zero deletes it. `value` has no `;` or space. */
export function keepCookie(name: KeptName, value: string, seconds: number, secure: boolean): string {
  const site = name === 'passkey' ? 'Strict' : 'Lax'
  return `${cookieName(name, secure)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=${site}${secure ? '; Secure' : ''}`
}

export function sessionToken(ctx: Pick<Context, 'headers'>, secure: boolean): string | null {
  return keptValue(ctx, 'session', secure)
}

export function sessionCookie(token: string, secure: boolean): string {
  return keepCookie('session', token, SESSION_LIFE / 1000, secure)
}

export function noSessionCookie(secure: boolean): string {
  return keepCookie('session', '', 0, secure)
}

/**
 * CSRF token of a signed-in page's forms: derived from the session token, which other sites and scripts cannot read.
 */
export function formToken(session: string): string {
  return hash('sha256', `form ${session}`, 'base64url')
}

export function isFormOf(session: string, given: string | null): boolean {
  return given !== null && equalText(given, formToken(session))
}

/**
 * Whether a form may be from our own page: prevents login CSRF. Browsers send Sec-Fetch-Site, or Origin over plain
 * HTTP; clients with neither are no browsers.
 */
export function isFromHere(ctx: Pick<Context, 'headers' | 'host'>, publicUrl: string): boolean {
  const site = ctx.headers.get('sec-fetch-site')
  if (site !== undefined) return site === 'same-origin'
  const origin = ctx.headers.get('origin')
  if (origin === undefined) return true
  // "null" is an opaque origin or a page without referrers; our pages have one.
  return URL.canParse(origin) && [ctx.host, new URL(publicUrl).host].includes(new URL(origin).host)
}

/** Milliseconds of a link (decision 170). */
export const LINK_LIFE = 15 * 60_000

/** Milliseconds of an invitation link. */
export const INVITATION_LIFE = 3 * 24 * 3_600_000

/** Milliseconds of a passkey ceremony: finding a phone or security key takes time. */
export const CEREMONY_LIFE = 5 * 60_000

/** Milliseconds of a session. */
export const SESSION_LIFE = 12 * 3_600_000

/** Links to one person within the life of a link; further requests send nothing. */
export const MOST_LINKS = 5

/** Form of all link and session tokens: 32 random bytes in base64url. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** Whether a text can be a token; others are not looked up. */
export function isSignInToken(text: string): boolean {
  return TOKEN.test(text)
}

export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
