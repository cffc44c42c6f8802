import { hash } from 'node:crypto'

/** Milliseconds for which a link can be used (decision 170). */
export const LINK_LIFE = 15 * 60_000

/** Milliseconds for which the link of an invitation can be used. */
export const INVITATION_LIFE = 3 * 24 * 3_600_000

/** Milliseconds in which the ceremony of a passkey ends: a reader has to find a phone or a key. */
export const CEREMONY_LIFE = 5 * 60_000

/** Milliseconds for which somebody stays signed in. */
export const SESSION_LIFE = 12 * 3_600_000

/** Links to one person in the life of a link; more requests send nothing, whatever addresses they come from. */
export const MOST_LINKS = 5

/** 32 random bytes in base64url: the form of all tokens of links and sessions. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** Whether a text can be a token at all; what cannot is not looked up. */
export function isSignInToken(text: string): boolean {
  return TOKEN.test(text)
}

/** What of a token is stored. */
export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
