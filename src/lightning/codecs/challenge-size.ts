/**
 * Size of a 402's head. nginx and ingress-nginx answer 502 for a head above 4 KB by default, so a usual head stays below
 * that: description, path and an invoice with three routing hints. No head exceeds 8 KB, which most clients and proxies
 * take. The macaroon is in the L402 line twice (4/3 bytes each for a byte of its path caveat), the invoice once and, with
 * its base64url form, 7/3 times in the Payment line: a byte of the path costs 2.67 bytes, a character of the invoice 3.33.
 */

/** Bytes that the header lines of all challenges of a 402 may take together, names and line ends included. */
export const MAX_CHALLENGE_BYTES = 8192

// Both lines without what varies: parameter names, the other caveats, the signature, the longest realm and names.
const FIXED_BYTES = 1925
// Characters of an invoice without its description, with two routing hints.
const BARE_INVOICE_CHARS = 450
/** Longest description on the invoice of a 402: 384 bytes of head, which leaves the usual one below 4 KB. */
const MAX_DESCRIPTION_BYTES = 72
/** Bytes of a 402's head besides its challenges: status line, Date, type, length, and what the gateway adds. */
const OTHER_HEAD_BYTES = 450
/** Bytes of a head above which operators are warned: less than what nginx takes by default. */
const LARGE_HEAD_BYTES = 3584

/**
 * Bytes of UTF-8 of a description for which a challenge has room on its invoice, 0 to 72: the longer the path or
 * resource, the fewer. Each byte is 1.6 characters of the invoice. Up to 1,600 bytes of path both lines fit into 8 KB in
 * the worst case; the longest resource (500 characters of four bytes, decision 105) fits with a usual realm and an
 * invoice without hints.
 * @param pathBytes of the path caveat, in UTF-8
 */
export function descriptionRoom(pathBytes: number): number {
  const left = MAX_CHALLENGE_BYTES - FIXED_BYTES - (pathBytes * 8) / 3 - (BARE_INVOICE_CHARS * 10) / 3
  return Math.min(MAX_DESCRIPTION_BYTES, Math.max(0, Math.floor(left / ((1.6 * 10) / 3))))
}

const LINE_OVERHEAD = 'WWW-Authenticate: \r\n'.length

/** Bytes of the header lines of these challenges (the values, all ASCII) as they go over the wire. */
export function challengeBytes(values: readonly string[]): number {
  let bytes = 0
  for (const value of values) bytes += LINE_OVERHEAD + value.length
  return bytes
}

/** Estimates the bytes of a 402's head from its flat list of headers; null while proxies with small buffers take it. */
export function largeHead(headers: readonly string[]): number | null {
  const values = headers.filter((_, index) => headers[index - 1] === 'WWW-Authenticate')
  const bytes = OTHER_HEAD_BYTES + challengeBytes(values)
  return bytes > LARGE_HEAD_BYTES ? bytes : null
}
