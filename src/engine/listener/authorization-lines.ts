import { paymentScheme, schemeValue } from '../message/payment-headers.ts'

/**
 * Why the Authorization lines of a request are refused, or null. Allowed are at most one payment credential, where an
 * LSAT and an L402 line with the same credential count as one, and one credential of another scheme (decision 125).
 */
export function authorizationFault(lines: readonly string[]): string | null {
  let others = 0
  let payments = 0
  let lsat: string | null = null
  let l402: string | null = null
  for (const line of lines) {
    const scheme = paymentScheme(line)
    if (scheme === null) others++
    else if (scheme === 'lsat' && lsat === null) lsat = schemeValue(line, scheme)
    else if (scheme === 'l402' && l402 === null) l402 = schemeValue(line, scheme)
    else payments++
  }
  if (lsat !== null && l402 !== null && spelled(lsat) !== spelled(l402))
    return 'The LSAT and the L402 credential differ; send one, or the same in both.'
  if (lsat !== null || l402 !== null) payments++
  if (payments > 1) return 'More than one payment credential in Authorization; send one.'
  if (others > 1) return 'More than one Authorization header; send one.'
  return null
}

/** Normalizes Base64: both alphabets, with or without padding, spell the same credential. */
function spelled(credential: string): string {
  return credential.split(':').map(withoutPadding).join(':').replaceAll('+', '-').replaceAll('/', '_')
}

/** Trims by index: an expression that looks for the end tries again from each of the `=` before it. */
function withoutPadding(text: string): string {
  let end = text.length
  while (text.charCodeAt(end - 1) === 0x3d) end--
  return text.slice(0, end)
}
