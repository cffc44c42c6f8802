/**
 * Room in a 402. Clients and proxies in front of us commonly give all header fields 8 KB together, so the L402 and the
 * Payment line must fit into that. The macaroon stands twice in the first (4/3 bytes each for a byte of its path
 * caveat), the invoice once in the first and, counting its base64url form, 7/3 times in the second: a byte of path
 * costs 2.67 bytes, a character of the invoice 3.33.
 */

/** Bytes that the header lines of all challenges of a 402 may take together, names and line ends included. */
export const MAX_CHALLENGE_BYTES = 8192

// Both lines without what varies: parameter names, the other caveats, the signature, the longest realm and names.
const FIXED_BYTES = 1925
// Characters of an invoice without its description, with two routing hints.
const BARE_INVOICE_CHARS = 450
const MAX_DESCRIPTION_BYTES = 500

/**
 * Bytes of UTF-8 of a description for which a challenge has room on its invoice, 0 to 500: the longer the path or
 * resource, the fewer. Each byte is 1.6 characters of the invoice. Up to 1,600 bytes of path both lines fit in the
 * worst case; the longest resource (500 characters of four bytes, decision 105) fits with a usual realm and an invoice
 * without hints.
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
