import type { Context } from '../../engine/message/context.ts'
import { keepCookie, keptValue, sessionCookie } from './cookie.ts'
import { LINK_LIFE } from './tokens.ts'
import type { CurrentSession, Sessions, SignedIn } from './sessions.ts'

/** Arbitrary base: a wanted page must stay on its origin. */
const BASE = 'http://gateway.invalid'
/** Longest wanted page in characters. */
const MOST = 1024

/**
 * Console page wanted before signing in, without a leading slash: `console/payments?status=paid`. Null for anything
 * else: prevents open redirects, also to merchants' proxies on this origin.
 */
export function wantedPage(text: string | null | undefined): string | null {
  if (text === null || text === undefined || text.length > MOST || !URL.canParse(text, `${BASE}/`)) return null
  // Parsed as browsers do: resolves dot segments, backslashes and line breaks.
  const { origin, pathname, search } = new URL(text, `${BASE}/`)
  return origin === BASE && /^\/(console|operator)(\/|$)/.test(pathname) ? `${pathname.slice(1)}${search}` : null
}

/**
 * Target after a sign-in, relative to the gateway's root: the wanted page if permitted, else the console, which offers
 * a passkey after a mailed link. With both consoles: the account page.
 */
export function landingOf(
  { account, operator, person }: Pick<CurrentSession, 'account' | 'operator' | 'person'>,
  wanted: string | null
): string {
  const page = wantedPage(wanted)
  const console = page?.split(/[/?]/, 1)[0]
  if (page !== null && (console === 'console' ? account : operator) !== null) return page
  if (account !== null && operator !== null) return 'sign-in/account'
  const isByMail = person !== null && person.passkeyId === null
  return `${operator === null ? 'console' : 'operator'}${isByMail ? '?welcome' : ''}`
}

export function wantedCookie(page: string, secure: boolean): string {
  return keepCookie('next', encodeURIComponent(page), LINK_LIFE / 1000, secure)
}

/** Redirect target after a sign-in with its cookies. */
export interface Landing {
  /** Null when it has already ended. */
  readonly session: CurrentSession | null
  /** Relative to the gateway's root: `console/payments`. */
  readonly page: string
  /** Flat headers. */
  readonly cookies: readonly string[]
}

/** @throws Unavailable */
export async function landing(
  ctx: Pick<Context, 'headers'>,
  sessions: Pick<Sessions, 'current'>,
  { token }: SignedIn,
  secure: boolean
): Promise<Landing> {
  const session = await sessions.current(token.reveal())
  const wanted = keptValue(ctx, 'next', secure)
  const cookies = ['Set-Cookie', sessionCookie(token.reveal(), secure)]
  if (wanted !== null) cookies.push('Set-Cookie', keepCookie('next', '', 0, secure))
  // If it has just ended, the page says so.
  return { session, page: session === null ? 'sign-in/account' : landingOf(session, decoded(wanted)), cookies }
}

/** Value of our own cookie; null for a forged one. */
function decoded(value: string | null): string | null {
  if (value === null) return null
  try {
    return decodeURIComponent(value)
  } catch {
    // Forged: no redirect.
    return null
  }
}
