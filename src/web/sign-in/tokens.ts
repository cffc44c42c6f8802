import { hash } from 'node:crypto'

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
