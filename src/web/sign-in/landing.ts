import type { Context } from '../../engine/message/context.ts'
import { keepCookie, keptValue, sessionCookie } from './cookie.ts'
import { LINK_LIFE } from './tokens.ts'
import type { CurrentSession, Sessions, SignedIn } from './sessions.ts'

/** Any origin: what is compared is whether an address stays at it. */
const BASE = 'http://gateway.invalid'
/** Longest way to a page that is kept. */
const MOST = 1024

/**
 * The page of a console that somebody wanted before signing in, without a slash in front: `console/payments?status=paid`.
 * Null for everything else: an address of another site, however it is spelled, and other pages of this one, which
 * merchants' proxies serve too.
 */
export function wantedPage(text: string | null | undefined): string | null {
  if (text === null || text === undefined || text.length > MOST || !URL.canParse(text, `${BASE}/`)) return null
  // As browsers read it: with dot segments, backslashes and line breaks resolved.
  const { origin, pathname, search } = new URL(text, `${BASE}/`)
  return origin === BASE && /^\/(console|operator)(\/|$)/.test(pathname) ? `${pathname.slice(1)}${search}` : null
}

/**
 * Where whoever has just signed in goes on, below the gateway's own address: to the page that was wanted, where the
 * session may see it, or to the console, which offers a passkey to whoever came by mail. Who has both consoles chooses on
 * the page of the account.
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

/** `Set-Cookie` that keeps the page that is wanted until its reader has signed in, by whatever way. */
export function wantedCookie(page: string, secure: boolean): string {
  return keepCookie('next', encodeURIComponent(page), LINK_LIFE / 1000, secure)
}

/** Where a browser goes on that has just signed in, and the cookies that it gets with that. */
export interface Landing {
  /** Null where it has ended already. */
  readonly session: CurrentSession | null
  /** Below the gateway's own address: `console/payments`. */
  readonly page: string
  /** Headers, flat. */
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
  // It may have ended in this very moment: then the page says so.
  return { session, page: session === null ? 'sign-in/account' : landingOf(session, decoded(wanted)), cookies }
}

/** What a cookie says; null for what nobody here wrote. */
function decoded(value: string | null): string | null {
  if (value === null) return null
  try {
    return decodeURIComponent(value)
  } catch {
    // Not by us; whoever wrote it is sent to no page of theirs.
    return null
  }
}
