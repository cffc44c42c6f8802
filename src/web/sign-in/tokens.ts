import { hash } from 'node:crypto'

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
